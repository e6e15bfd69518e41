"""A small transformer learns to sort sequences of digits."""

import torch
import torch.nn as nn


class Sorter(nn.Module):
    def __init__(self, digits=6, length=6, width=32):
        super().__init__()
        self.embed = nn.Embedding(digits, width)
        self.position = nn.Parameter(torch.randn(length, width) * 0.1)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, digits)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x) + self.position))


def main():
    torch.manual_seed(0)
    model = Sorter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=400)
    for _ in range(400):
        x = torch.randint(0, 6, (64, 6))
        y = torch.sort(x, dim=1).values
        loss = nn.functional.cross_entropy(model(x).transpose(1, 2), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    model.eval()
    with torch.no_grad():
        x = torch.randint(0, 6, (500, 6))
        right = (model(x).argmax(-1) == x.sort(dim=1).values).float().mean().item()
    print(f"loss {loss.item():.3f}, digits in place {right:.3f}")
    assert right > 0.95


if __name__ == "__main__":
    main()
