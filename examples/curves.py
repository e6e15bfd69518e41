"""A picture of how a training went: curves of loss and accuracy."""

from digit_grid import write_text

import flambeau as torch

_WIDTH, _HEIGHT, _MARGIN = 640, 240, 40
_INK, _LINE = (200, 200, 200), (70, 70, 70)
_COLORS = ((90, 160, 255), (255, 170, 60))


def _panel(title, curves, low, high, label):
    """One set of axes. curves: lists of (position in 0..1, value)."""
    picture = torch.full((_HEIGHT, _WIDTH, 3), 20, dtype=torch.uint8)
    height, width = _HEIGHT - 2 * _MARGIN, _WIDTH - 2 * _MARGIN
    write_text(picture, title, 10, _MARGIN, _INK)
    for i in range(5):
        share = i / 4
        row = _MARGIN + round(height * (1 - share))
        picture[row, _MARGIN : _MARGIN + width] = torch.tensor(_LINE, dtype=torch.uint8)
        write_text(picture, label(low + share * (high - low)), row - 5, 2, _INK)
    for curve, color in zip(curves, _COLORS):
        ink = torch.tensor(color, dtype=torch.uint8)
        last = None
        for position, value in curve:
            share = min(max((value - low) / (high - low), 0.0), 1.0)
            row = _MARGIN + round(height * (1 - share))
            column = _MARGIN + round((width - 1) * position)
            first_row, end_row = sorted((row if last is None else last, row))
            picture[first_row : end_row + 2, column : column + 2] = ink
            last = row
    return picture


def draw_curves(history, epochs):
    """Returns a uint8 image [height, width, 3].

    history: (epoch as a fraction, loss, accuracy of the batches since) of the training, and under
    "test" (epoch, accuracy).
    """
    train = history["train"]
    losses = [(at / epochs, loss) for at, loss, _ in train]
    hits = [(at / epochs, 100 * hit) for at, _, hit in train]
    tests = [(min(at / epochs, 0.995), 100 * hit) for at, hit in history["test"]]
    top = max([loss for _, loss in losses[1:]] or [1.0])
    return torch.cat(
        [
            _panel("loss", [losses], 0.0, top, lambda v: f"{v:.2f}"),
            _panel("accuracy %  train  test", [hits, tests], 90.0, 100.0, lambda v: f"{v:.1f}"),
        ]
    )
