"""A picture of digits with what a network says about each."""

import flambeau as torch

# 3 x 5 dots a character, rows from the top, the leftmost dot in the highest bit.
_FONT = {
    "0": "75557",
    "1": "26227",
    "2": "71747",
    "3": "71317",
    "4": "55711",
    "5": "74717",
    "6": "74757",
    "7": "71122",
    "8": "75757",
    "9": "75717",
    "%": "51245",
    ".": "00002",
    " ": "00000",
    "a": "75755",
    "c": "74447",
    "e": "74747",
    "h": "55755",
    "l": "44447",
    "n": "75555",
    "o": "75557",
    "p": "75744",
    "r": "75765",
    "s": "74717",
    "t": "72222",
    "u": "55557",
    "y": "55722",
    "i": "72227",
    "g": "74557",
}
_GREEN, _RED = (90, 220, 110), (255, 90, 80)
_SCALE = 2  # dots and pixels are drawn as squares of this side
_CELL_WIDTH, _CELL_HEIGHT = 32 * _SCALE, 38 * _SCALE


def write_text(picture, text, top, left, color):
    ink = torch.tensor(color, dtype=torch.uint8)
    for number, character in enumerate(text):
        for row, dots in enumerate(_FONT[character]):
            for column in range(3):
                if int(dots) >> (2 - column) & 1:
                    y, x = top + _SCALE * row, left + _SCALE * (4 * number + column)
                    picture[y : y + _SCALE, x : x + _SCALE] = ink


def draw_grid(images, labels, answers, confidence, columns=10):
    """Returns a uint8 image [height, width, 3] of digits [n, 784] in 0..1, each above the answer
    and its confidence, in green where the answer is the label."""
    rows = -(-len(images) // columns)
    picture = torch.zeros((rows * _CELL_HEIGHT, columns * _CELL_WIDTH, 3), dtype=torch.uint8)
    for i in range(len(images)):
        top, left = i // columns * _CELL_HEIGHT, i % columns * _CELL_WIDTH
        digit = (images[i].reshape(28, 28, 1) * 255).to(torch.uint8)
        digit = digit.repeat_interleave(_SCALE, 0).repeat_interleave(_SCALE, 1)
        side = 28 * _SCALE
        picture[top + 2 : top + 2 + side, left + 4 : left + 4 + side] = digit
        answer = int(answers[i])
        color = _GREEN if answer == int(labels[i]) else _RED
        text = f"{answer} {100 * float(confidence[i]):3.0f}%"
        write_text(picture, text, top + 30 * _SCALE, left + 4, color)
    return picture
