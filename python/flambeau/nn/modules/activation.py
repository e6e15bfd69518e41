"""Activations as modules."""

import flambeau
from flambeau.nn import functional as F
from flambeau.nn.init import constant_
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


class _Function(Module):
    """Calls `function` with the attributes `settings`, which are also what `repr` shows.

    A class that has `inplace` adds it to both: the result is written over the input where it is
    true.
    """

    function = None
    settings = ()

    def _set(self, **values):
        for name, value in values.items():
            setattr(self, name, value)

    def forward(self, input):
        values = [getattr(self, name) for name in self.settings]
        if "inplace" in self.__dict__:
            values.append(self.inplace)
        return type(self).function(input, *values)

    def extra_repr(self):
        shown = [f"{name}={getattr(self, name)}" for name in self.settings]
        if self.__dict__.get("inplace"):
            shown.append("inplace=True")
        return ", ".join(shown)


class _Inplace(_Function):
    """A function whose only setting is `inplace`."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return type(self).function(input, self.inplace)


class Tanh(_Function):
    """tanh(x)."""

    function = staticmethod(flambeau.tanh)


class Sigmoid(_Function):
    """1 / (1 + exp(-x))."""

    function = staticmethod(flambeau.sigmoid)


class LogSigmoid(_Function):
    """log(1 / (1 + exp(-x)))."""

    function = staticmethod(F.logsigmoid)


class Softsign(_Function):
    """x / (1 + |x|)."""

    function = staticmethod(F.softsign)


class Tanhshrink(_Function):
    """x - tanh(x)."""

    function = staticmethod(F.tanhshrink)


class ReLU(_Inplace):
    """max(x, 0)."""

    function = staticmethod(F.relu)


class SELU(_Inplace):
    """The scaled exponential linear unit."""

    function = staticmethod(F.selu)


class SiLU(_Inplace):
    """x / (1 + exp(-x))."""

    function = staticmethod(F.silu)


class Mish(_Inplace):
    """x * tanh(log(1 + exp(x)))."""

    function = staticmethod(F.mish)


class Hardsigmoid(_Inplace):
    """min(max(x + 3, 0), 6) / 6."""

    function = staticmethod(F.hardsigmoid)

    def extra_repr(self):
        return ""


class Hardswish(_Inplace):
    """x * min(max(x + 3, 0), 6) / 6."""

    function = staticmethod(F.hardswish)

    def extra_repr(self):
        return ""


class GELU(Module):
    """x * Phi(x); approximate='tanh' for the approximation."""

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self):
        return f"approximate={self.approximate!r}"


class LeakyReLU(_Function):
    """x where it is positive, else negative_slope * x."""

    function = staticmethod(F.leaky_relu)
    settings = ("negative_slope",)

    def __init__(self, negative_slope=0.01, inplace=False):
        super().__init__()
        self._set(negative_slope=negative_slope, inplace=inplace)


class ELU(_Function):
    """x where it is positive, else alpha * (exp(x) - 1)."""

    function = staticmethod(F.elu)
    settings = ("alpha",)

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self._set(alpha=alpha, inplace=inplace)


class CELU(_Function):
    """x where it is positive, else alpha * (exp(x / alpha) - 1)."""

    function = staticmethod(F.celu)
    settings = ("alpha",)

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self._set(alpha=alpha, inplace=inplace)


class Hardtanh(_Function):
    """x limited to [min_val, max_val]."""

    function = staticmethod(F.hardtanh)
    settings = ("min_val", "max_val")

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False):
        super().__init__()
        self._set(min_val=min_val, max_val=max_val, inplace=inplace)
        if max_val <= min_val:
            raise AssertionError(
                f"max_val must be larger than min_val, got {max_val} and {min_val}"
            )


class ReLU6(Hardtanh):
    """min(max(x, 0), 6)."""

    def __init__(self, inplace=False):
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class Threshold(_Function):
    """x where it is above the threshold, else the value."""

    function = staticmethod(F.threshold)
    settings = ("threshold", "value")

    def __init__(self, threshold, value, inplace=False):
        super().__init__()
        self._set(threshold=threshold, value=value, inplace=inplace)


class Softplus(_Function):
    """log(1 + exp(beta * x)) / beta."""

    function = staticmethod(F.softplus)
    settings = ("beta", "threshold")

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        self._set(beta=beta, threshold=threshold)


class Hardshrink(_Function):
    """x where |x| > lambd, else 0."""

    function = staticmethod(F.hardshrink)
    settings = ("lambd",)

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def extra_repr(self):
        return str(self.lambd)


class Softshrink(Hardshrink):
    """x moved towards 0 by lambd, 0 where |x| <= lambd."""

    function = staticmethod(F.softshrink)


class Softmax(_Function):
    """Exponentials along dim, scaled to sum to one."""

    function = staticmethod(F.softmax)
    settings = ("dim",)

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim


class LogSoftmax(Softmax):
    """The logarithm of Softmax."""

    function = staticmethod(F.log_softmax)


class Softmin(Softmax):
    """Softmax of -x."""

    function = staticmethod(F.softmin)


class Softmax2d(Module):
    """Softmax over the channels of each place: input [batch, channels, height, width], or without
    the batch."""

    def forward(self, input):
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)


class PReLU(Module):
    """x where it is positive, else weight * x; one weight, or one a channel."""

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(flambeau.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """All weights `init`."""
        constant_(self.weight, self.init)

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class GLU(_Function):
    """The first half along dim times the logistic function of the second."""

    function = staticmethod(F.glu)
    settings = ("dim",)

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim
