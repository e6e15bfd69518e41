"""Ranges and precisions of dtypes."""

from flambeau import _C

__all__ = ["finfo", "iinfo"]

# Bits of the significand's fraction, and the largest and smallest exponents of normal numbers.
_FLOATS = {
    _C.float16: (10, 15, -14),
    _C.bfloat16: (7, 127, -126),
    _C.float32: (23, 127, -126),
    _C.float64: (52, 1023, -1022),
}
# Decimal digits that survive, as powers of ten.
_RESOLUTION = {_C.float16: 1e-3, _C.bfloat16: 1e-2, _C.float32: 1e-6, _C.float64: 1e-15}


def _name(dtype):
    return str(dtype).split(".")[-1]


class finfo:  # noqa: N801
    """Numerical properties of a floating-point dtype; those of the parts for a complex one."""

    def __init__(self, type=None):
        dtype = _C.get_default_dtype() if type is None else type
        if not isinstance(dtype, _C.dtype):
            raise TypeError(
                f"finfo(): argument 'type' must be torch.dtype, not {type.__class__.__name__}"
            )
        real = dtype.to_real()
        if real not in _FLOATS:
            raise TypeError(f"torch.finfo() requires a floating point input type, got {dtype}")
        fraction, high, low = _FLOATS[real]
        self.dtype = _name(real)
        self.bits = real.itemsize * 8
        self.eps = 2.0**-fraction
        self.max = (2.0 - self.eps) * 2.0**high
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0**low
        self.resolution = _RESOLUTION[real]

    def __repr__(self):
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )

    def __eq__(self, other):
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)


class iinfo:  # noqa: N801
    """Numerical properties of an integer dtype."""

    def __init__(self, type):
        if not isinstance(type, _C.dtype):
            raise TypeError(
                f"iinfo(): argument 'type' must be torch.dtype, not {type.__class__.__name__}"
            )
        if type.is_floating_point or type.is_complex or type is _C.bool:
            raise TypeError(f"torch.iinfo() requires an integer input type, got {type}")
        self.dtype = _name(type)
        self.bits = type.itemsize * 8
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0
        self.max = 2 ** (self.bits - 1) - 1 if type.is_signed else 2**self.bits - 1

    def __repr__(self):
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other):
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)
