"""The operators whose name begins with `nn.functional.`, under their last name.

Operators are not listed here: names are looked up in the extension, so operators that a program
adds at run time appear as well. What is defined here adds the argument `inplace`.
"""

import functools

from flambeau import _C

# In PyTorch these stand in this namespace too; the operators belong to the package itself.
_FROM_PACKAGE = ("sigmoid", "tanh")


def _with_inplace(name):
    """The operator with PyTorch's last argument `inplace`: the result is written over the input."""
    operator = getattr(_C.functional, name)

    @functools.wraps(operator, assigned=("__doc__",), updated=())
    def function(input, *args, inplace=False, **kwargs):
        result = operator(input, *args, **kwargs)
        return input.copy_(result) if inplace else result

    function.__name__ = function.__qualname__ = name
    return function


relu = _with_inplace("relu")
relu6 = _with_inplace("relu6")
elu = _with_inplace("elu")
celu = _with_inplace("celu")
selu = _with_inplace("selu")
silu = _with_inplace("silu")
mish = _with_inplace("mish")
leaky_relu = _with_inplace("leaky_relu")
hardtanh = _with_inplace("hardtanh")
hardsigmoid = _with_inplace("hardsigmoid")
hardswish = _with_inplace("hardswish")
threshold = _with_inplace("threshold")


def dropout(input, p=0.5, training=True, inplace=False):
    """See the operator dropout."""
    result = _C.dropout(input, p, training)
    return input.copy_(result) if inplace else result


def _names():
    return sorted({name for name in dir(_C.functional) if name[0] != "_"} | set(_FROM_PACKAGE))


def __getattr__(name):
    if name == "__all__":
        return _names()
    value = getattr(_C.functional, name, None)
    if value is None and name in _FROM_PACKAGE:
        value = getattr(_C, name, None)
    if value is None or name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted(set(globals()) | set(_names()))
