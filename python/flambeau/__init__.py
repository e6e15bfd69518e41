"""Deep learning with the interface that PyTorch's users know: `import flambeau as torch`.

The names of operators, dtypes and types come from the extension `_C`; this file lists none of them.
"""

import sys as _sys

from flambeau import _C

__version__ = "0.1.0"

# Everything public in the extension: operators and their namespaces, dtypes, types, functions.
globals().update({_k: _v for _k, _v in vars(_C).items() if not _k.startswith("_")})

# Namespaces of operators can be imported as modules; nn is a package of its own.
for _name, _value in list(vars(_C).items()):
    if isinstance(_value, type(_C)) and not _name.startswith("_"):
        if _name == "functional":
            globals().pop(_name)
            continue
        _sys.modules[f"{__name__}.{_name}"] = _value
        for _inner, _module in list(vars(_value).items()):
            if isinstance(_module, type(_C)):
                _sys.modules[f"{__name__}.{_name}.{_inner}"] = _module

inf = float_ = None  # replaced below; the name `float` is a dtype here
del float_
import math as _math  # noqa: E402

inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e
newaxis = None

Tensor.__module__ = "flambeau"  # noqa: F821
