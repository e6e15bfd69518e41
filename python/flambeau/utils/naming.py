"""Names of values as error messages show them."""

from flambeau._C import Tensor


def type_name(value):
    """Returns the name of a value's type, or of `value` if it is a type, with its module."""
    if isinstance(value, Tensor):
        return f"{type(value).__name__} of {value.dtype}"
    kind = value if isinstance(value, type) else type(value)
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"
