"""The operators whose name begins with `nn.functional.`, under their last name.

Operators are not listed here: names are looked up in the extension, so operators that a program
adds at run time appear as well. What is defined here has arguments that operators have not:
`inplace`, and `dim` that may be left out.
"""

import warnings

from flambeau import _C

_operators = _C.functional
# In PyTorch these stand in this namespace too; the operators belong to the package itself.
_FROM_PACKAGE = ("sigmoid", "tanh")


def _overwrite(operator, input):
    """Writes the result over the input; the derivative reads a copy of what is overwritten."""
    return input.copy_(operator(input.clone()))


def relu(input, inplace=False):
    """See the operator relu."""
    return _operators.relu_(input) if inplace else _operators.relu(input)


def relu6(input, inplace=False):
    """See the operator relu6."""
    return _operators.hardtanh_(input, 0.0, 6.0) if inplace else _operators.relu6(input)


def elu(input, alpha=1.0, inplace=False):
    """See the operator elu."""
    return _operators.elu_(input, alpha) if inplace else _operators.elu(input, alpha)


def celu(input, alpha=1.0, inplace=False):
    """See the operator celu."""
    return _operators.celu_(input, alpha) if inplace else _operators.celu(input, alpha)


def selu(input, inplace=False):
    """See the operator selu."""
    return _operators.selu_(input) if inplace else _operators.selu(input)


def silu(input, inplace=False):
    """See the operator silu."""
    return _overwrite(_operators.silu, input) if inplace else _operators.silu(input)


def mish(input, inplace=False):
    """See the operator mish."""
    return _overwrite(_operators.mish, input) if inplace else _operators.mish(input)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """See the operator leaky_relu."""
    function = _operators.leaky_relu_ if inplace else _operators.leaky_relu
    return function(input, negative_slope)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """See the operator hardtanh."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    function = _operators.hardtanh_ if inplace else _operators.hardtanh
    return function(input, min_val, max_val)


def hardsigmoid(input, inplace=False):
    """See the operator hardsigmoid."""
    return _overwrite(_operators.hardsigmoid, input) if inplace else _operators.hardsigmoid(input)


def hardswish(input, inplace=False):
    """See the operator hardswish."""
    return _overwrite(_operators.hardswish, input) if inplace else _operators.hardswish(input)


def threshold(input, threshold, value, inplace=False):
    """See the operator threshold."""
    function = _operators.threshold_ if inplace else _operators.threshold
    return function(input, threshold, value)


def dropout(input, p=0.5, training=True, inplace=False):
    """See the operator dropout."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    result = _C.dropout(input, p, training)
    return input.copy_(result) if inplace else result


def _chosen_dim(name, input, stacklevel):
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if input.ndim in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """See the operator softmax."""
    if dim is None:
        dim = _chosen_dim("softmax", input, _stacklevel)
    return _operators.softmax(input, dim, dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """See the operator log_softmax."""
    if dim is None:
        dim = _chosen_dim("log_softmax", input, _stacklevel)
    return _operators.log_softmax(input, dim, dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """See the operator softmin."""
    if dim is None:
        dim = _chosen_dim("softmin", input, _stacklevel)
    return _operators.softmin(input, dim, dtype)


def _names():
    return sorted({name for name in dir(_operators) if name[0] != "_"} | set(_FROM_PACKAGE))


def __getattr__(name):
    if name == "__all__":
        return _names()
    value = getattr(_operators, name, None)
    if value is None and name in _FROM_PACKAGE:
        value = getattr(_C, name, None)
    if value is None or name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted(set(globals()) | set(_names()))


def _output_size(size, input, rank, name):
    """The sizes of pooled dims: one for all, or one each; None keeps the input's."""
    sizes = (size,) * rank if size is None or isinstance(size, int) else tuple(size)
    if len(sizes) != rank:
        raise RuntimeError(f"{name}: output_size must be {rank} values, got {len(sizes)}")
    if input.dim() <= rank:
        raise ValueError(f"Input dimension should be at least {rank + 1}, got {input.dim()}")
    own = input.shape[-rank:]
    return [own[i] if s is None else s for i, s in enumerate(sizes)]


def adaptive_avg_pool1d(input, output_size):
    """Means of `output_size` parts of the last dim: [n, c, l] or [c, l].

    Part i of l positions is from floor(i l / out) to before ceil((i + 1) l / out).
    """
    sizes = _output_size(output_size, input, 1, "adaptive_avg_pool1d")
    return _C._adaptive_avg_pool1d(input, sizes)


def adaptive_avg_pool2d(input, output_size):
    """Means of parts of the last two dims; an entry None keeps the size. See 1d."""
    sizes = _output_size(output_size, input, 2, "adaptive_avg_pool2d")
    return _C._adaptive_avg_pool2d(input, sizes)


def adaptive_avg_pool3d(input, output_size):
    """Means of parts of the last three dims; an entry None keeps the size. See 1d."""
    sizes = _output_size(output_size, input, 3, "adaptive_avg_pool3d")
    return _C._adaptive_avg_pool3d(input, sizes)


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """The largest elements of `output_size` parts of the last dim, see adaptive_avg_pool1d.

    With return_indices also their positions in the pooled dims, int64.
    """
    sizes = _output_size(output_size, input, 1, "adaptive_max_pool1d")
    return _C._adaptive_max_pool1d(input, sizes, return_indices)


def adaptive_max_pool2d(input, output_size, return_indices=False):
    """The largest elements of parts of the last two dims, see adaptive_max_pool1d."""
    sizes = _output_size(output_size, input, 2, "adaptive_max_pool2d")
    return _C._adaptive_max_pool2d(input, sizes, return_indices)


def adaptive_max_pool3d(input, output_size, return_indices=False):
    """The largest elements of parts of the last three dims, see adaptive_max_pool1d."""
    sizes = _output_size(output_size, input, 3, "adaptive_max_pool3d")
    return _C._adaptive_max_pool3d(input, sizes, return_indices)


def _channel_dropout(input, p, training, inplace, rank, name):
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if input.dim() not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}: expected an input of {rank + 1} or {rank + 2} dims, got {input.dim()}"
        )
    if not training or p == 0:
        return input
    # One decision for each channel of each instance.
    lead = input.dim() - rank
    kept = dropout(input.new_ones(input.shape[:lead] + (1,) * rank), p, True)
    return input.mul_(kept) if inplace else input * kept


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zeros whole channels of [n, c, l] or [c, l] with probability p."""
    return _channel_dropout(input, p, training, inplace, 1, "dropout1d")


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zeros whole channels of [n, c, h, w] or [c, h, w] with probability p."""
    return _channel_dropout(input, p, training, inplace, 2, "dropout2d")


def dropout3d(input, p=0.5, training=True, inplace=False):
    """Zeros whole channels of [n, c, d, h, w] or [c, d, h, w] with probability p."""
    return _channel_dropout(input, p, training, inplace, 3, "dropout3d")


def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """See flambeau.nn.interpolation.interpolate."""
    from flambeau.nn.interpolation import interpolate as resize

    return resize(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """interpolate under its former name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate with mode nearest."""
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate with mode bilinear and aligned corners."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
