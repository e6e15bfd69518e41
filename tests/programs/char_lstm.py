"""An LSTM learns to write a sentence letter by letter."""

import torch
from torch import nn, optim

TEXT = "the quick brown fox jumps over the lazy dog. " * 4


class Writer(nn.Module):
    def __init__(self, letters, width=48):
        super().__init__()
        self.embed = nn.Embedding(letters, 16)
        self.lstm = nn.LSTM(16, width, batch_first=True)
        self.head = nn.Linear(width, letters)

    def forward(self, x, state=None):
        y, state = self.lstm(self.embed(x), state)
        return self.head(y), state


def main():
    torch.manual_seed(0)
    letters = sorted(set(TEXT))
    numbers = torch.tensor([letters.index(c) for c in TEXT])
    model = Writer(len(letters))
    optimizer = optim.RMSprop(model.parameters(), lr=1e-2)
    length = 30
    for _ in range(120):
        starts = torch.randint(0, len(numbers) - length - 1, (8,)).tolist()
        x = torch.stack([numbers[s : s + length] for s in starts])
        y = torch.stack([numbers[s + 1 : s + length + 1] for s in starts])
        scores, _ = model(x)
        loss = nn.functional.cross_entropy(scores.reshape(-1, len(letters)), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    written, state = "the quick ", None
    with torch.no_grad():
        x = torch.tensor([[letters.index(c) for c in written]])
        for _ in range(33):
            scores, state = model(x, state)
            x = scores[:, -1:].argmax(-1)
            written += letters[x.item()]
    print(f"loss {loss.item():.3f}: {written!r}")
    assert written == TEXT[: len(written)]


if __name__ == "__main__":
    main()
