"""A convolutional network tells apart images of horizontal, vertical and diagonal bars."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def bars(count):
    kinds = torch.randint(0, 3, (count,))
    places = torch.randint(1, 11, (count,))
    images = torch.randn(count, 1, 12, 12) * 0.4
    for i in range(count):
        k, p = int(kinds[i]), int(places[i])
        if k == 0:
            images[i, 0, p] += 1.5
        elif k == 1:
            images[i, 0, :, p] += 1.5
        else:
            images[i, 0].diagonal().add_(1.5)
    return TensorDataset(images, kinds)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(16 * 3 * 3, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(torch.flatten(x, 1))


def main():
    torch.manual_seed(0)
    train, test = DataLoader(bars(512), batch_size=32, shuffle=True), bars(256)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for _ in range(4):
        model.train()
        for images, labels in train:
            optimizer.zero_grad()
            loss = nn.CrossEntropyLoss()(model(images), labels)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
        scheduler.step()
    model.eval()
    with torch.no_grad():
        images, labels = test.tensors
        accuracy = (model(images).argmax(1) == labels).float().mean().item()
    print(f"accuracy {accuracy:.3f}")
    assert accuracy > 0.95


if __name__ == "__main__":
    main()
