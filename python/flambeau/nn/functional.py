"""The operators whose name begins with `nn.functional.`, under their last name.

Nothing is listed here: names are looked up in the extension, so operators that a program adds at
run time appear as well.
"""

from flambeau import _C

# In PyTorch these stand in this namespace too; the operators belong to the package itself.
_FROM_PACKAGE = ("sigmoid", "tanh")


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
