"""Resizing the last one to three dims: nearest, linear, cubic, by areas."""

import math

import flambeau
from flambeau.nn import functional as F

_RANKS = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
_MODES = ("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area")
_CUBIC = -0.75  # Keys, "Cubic convolution interpolation for digital image processing", 1981


def _spread(value, rank, name):
    if isinstance(value, (int, float)):
        return [value] * rank
    value = list(value)
    if len(value) != rank:
        raise ValueError(
            f"Input and {name} must have the same number of spatial dimensions, but got input with "
            f"{rank} spatial dimensions and {name} of length {len(value)}."
        )
    return value


def _positions(count, scale, offset, dtype):
    kind = flambeau.float64 if dtype == flambeau.float64 else flambeau.float32
    at = flambeau.arange(count, dtype=kind)
    return (at + offset) * flambeau.tensor(scale, dtype=kind)


def _shaped(weight, x, dim):
    shape = [1] * x.dim()
    shape[dim] = -1
    return weight.to(x.dtype).reshape(shape)


def _nearest(x, dim, count, scale, exact):
    at = _positions(count, scale, 0.5 if exact else 0.0, x.dtype).floor().long()
    return x.index_select(dim, at.clamp(0, x.shape[dim] - 1))


def _source(x, dim, count, scale, align_corners):
    if align_corners:
        scale = (x.shape[dim] - 1) / (count - 1) if count > 1 else 0.0
        return _positions(count, scale, 0.0, x.dtype)
    return _positions(count, scale, 0.5, x.dtype) - 0.5


def _linear(x, dim, count, scale, align_corners):
    at = _source(x, dim, count, scale, align_corners).clamp(min=0)
    low = at.floor().long().clamp(0, x.shape[dim] - 1)
    high = (low + 1).clamp(max=x.shape[dim] - 1)
    share = _shaped(at - low, x, dim)
    return x.index_select(dim, low) * (1 - share) + x.index_select(dim, high) * share


def _cubic(x, dim, count, scale, align_corners):
    at = _source(x, dim, count, scale, align_corners)
    low = at.floor()
    t = at - low

    def near(d):
        return ((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1

    def far(d):
        return ((_CUBIC * d - 5 * _CUBIC) * d + 8 * _CUBIC) * d - 4 * _CUBIC

    total = None
    for tap, weight in enumerate((far(t + 1), near(t), near(1 - t), far(2 - t))):
        index = (low.long() + tap - 1).clamp(0, x.shape[dim] - 1)
        term = x.index_select(dim, index) * _shaped(weight, x, dim)
        total = term if total is None else total + term
    return total


def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """Resizes [n, c, s...] to [n, c, size...] or to sizes times `scale_factor`.

    Modes: nearest, nearest-exact, linear (3-d input), bilinear and bicubic (4-d), trilinear (5-d),
    area (means). align_corners: the corner elements stay where they are; for the linear and cubic
    modes. Errors: ValueError for wrong options, NotImplementedError for a mode and rank that do not
    go together and for antialias.
    """
    rank = input.dim() - 2
    if mode not in _MODES:
        raise NotImplementedError(
            f"interpolate: mode {mode!r} is not there; allowed are {', '.join(_MODES)}"
        )
    if antialias:
        raise NotImplementedError("interpolate: antialias=True is not implemented")
    if rank not in (1, 2, 3) or _RANKS.get(mode, rank) != rank:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D) for the "
            "modes: nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact "
            f"(got {mode})"
        )
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | "
                "bilinear | bicubic | trilinear"
            )
    align_corners = bool(align_corners)
    if (size is None) == (scale_factor is None):
        raise ValueError("only one of size or scale_factor should be defined")
    spatial = list(input.shape[2:])
    factors = None
    if size is not None:
        if recompute_scale_factor:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        sizes = _spread(size, rank, "output_size")
    else:
        factors = _spread(scale_factor, rank, "scale_factor")
        sizes = [math.floor(n * f) for n, f in zip(spatial, factors)]
        if recompute_scale_factor:
            factors = None
    if any(n <= 0 for n in [*sizes, *spatial]):
        raise RuntimeError(
            "Input and output sizes should be greater than 0, but got input ("
            f"{spatial}) and "
            f"output ({sizes})"
        )
    if mode == "area":
        return getattr(F, f"adaptive_avg_pool{rank}d")(input, sizes)
    wide = (flambeau.float32, flambeau.float64)
    converts = not mode.startswith("nearest") and input.dtype not in wide
    x = input.float() if converts else input
    for d in range(rank):
        scale = spatial[d] / sizes[d] if factors is None else 1 / factors[d]
        if mode in ("nearest", "nearest-exact"):
            x = _nearest(x, 2 + d, sizes[d], scale, mode == "nearest-exact")
        elif mode == "bicubic":
            x = _cubic(x, 2 + d, sizes[d], scale, align_corners)
        else:
            x = _linear(x, 2 + d, sizes[d], scale, align_corners)
    if input.dtype == flambeau.uint8:
        x = x.round().clamp(0, 255)
    return x.to(input.dtype) if converts else x
