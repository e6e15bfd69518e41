"""Padding around the last dims."""

from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module


class _Pad(Module):
    """padding: one amount for all sides, or pairs for the last dim, the one before it, ..."""

    rank = 0
    mode = "constant"
    value = None

    def __init__(self, padding):
        super().__init__()
        whole = (padding,) * (2 * self.rank) if isinstance(padding, int) else tuple(padding)
        if len(whole) != 2 * self.rank:
            raise ValueError(f"padding must be one amount or {2 * self.rank}, got {padding}")
        self.padding = whole

    def forward(self, input):
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self):
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


def _modules():
    """A class for each mode and rank."""
    modes = {
        "ReflectionPad": ("reflect", _Pad, None),
        "ReplicationPad": ("replicate", _Pad, None),
        "CircularPad": ("circular", _Pad, None),
        "ZeroPad": ("constant", _Pad, 0.0),
        "ConstantPad": ("constant", _ConstantPad, None),
    }
    for name, (mode, base, value) in modes.items():
        for rank in (1, 2, 3):
            doc = f"Padding of the last {rank} dims, mode {mode!r}; see F.pad."
            members = {"rank": rank, "mode": mode, "value": value, "__doc__": doc}
            yield type(f"{name}{rank}d", (base,), {**members, "__module__": __name__})


globals().update({cls.__name__: cls for cls in _modules()})
