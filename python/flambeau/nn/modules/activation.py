"""Activations as modules."""

import flambeau
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


class _Function(Module):
    """Calls `function` with the attributes `settings`, which are also what `repr` shows."""

    function = None
    settings = ()

    def forward(self, input):
        return type(self).function(input, *(getattr(self, name) for name in self.settings))

    def extra_repr(self):
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.settings)


def _plain(name, function, doc):
    """A module without settings; `inplace` is accepted where PyTorch has it, results are new."""

    def __init__(self):
        Module.__init__(self)

    members = {"function": staticmethod(function), "__init__": __init__, "__doc__": doc}
    return type(name, (_Function,), {**members, "__module__": __name__})


class _Inplace(_Function):
    """A module that writes over its input where `inplace` is true."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return type(self).function(input, inplace=self.inplace)

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


def _inplace(name, doc):
    function = getattr(F, name.lower())
    members = {"function": staticmethod(function), "__doc__": doc, "__module__": __name__}
    return type(name, (_Inplace,), members)


Tanh = _plain("Tanh", flambeau.tanh, "tanh(x).")
Sigmoid = _plain("Sigmoid", flambeau.sigmoid, "1 / (1 + exp(-x)).")
LogSigmoid = _plain("LogSigmoid", F.logsigmoid, "log(1 / (1 + exp(-x))).")
Softsign = _plain("Softsign", F.softsign, "x / (1 + |x|).")
Tanhshrink = _plain("Tanhshrink", F.tanhshrink, "x - tanh(x).")
ReLU = _inplace("ReLU", "max(x, 0).")
ReLU6 = _inplace("ReLU6", "min(max(x, 0), 6).")
SELU = _inplace("SELU", "The scaled exponential linear unit.")
SiLU = _inplace("SiLU", "x / (1 + exp(-x)).")
Mish = _inplace("Mish", "x * tanh(log(1 + exp(x))).")
Hardsigmoid = _inplace("Hardsigmoid", "min(max(x + 3, 0), 6) / 6.")
Hardswish = _inplace("Hardswish", "x * min(max(x + 3, 0), 6) / 6.")


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
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input):
        return F.leaky_relu(input, self.negative_slope, inplace=self.inplace)

    def extra_repr(self):
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class ELU(_Function):
    """x where it is positive, else alpha * (exp(x) - 1)."""

    settings = ("alpha",)

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input):
        return F.elu(input, self.alpha, inplace=self.inplace)


class Softplus(_Function):
    """log(1 + exp(beta * x)) / beta."""

    function = staticmethod(F.softplus)
    settings = ("beta", "threshold")

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        self.beta = beta
        self.threshold = threshold


class Hardtanh(_Function):
    """x limited to [min_val, max_val]."""

    settings = ("min_val", "max_val")

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False):
        super().__init__()
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, inplace=self.inplace)


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


class PReLU(Module):
    """x where it is positive, else weight * x; one weight, or one a channel."""

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(flambeau.full((num_parameters,), init, device=device, dtype=dtype))

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
