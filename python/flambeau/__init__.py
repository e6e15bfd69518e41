"""Deep learning with the interface that PyTorch's users know: `import flambeau as torch`.

The names of operators, dtypes and types come from the extension `_C`; this file lists none of them.
Operators and dtypes are called `float`, `sum`, `max`, ...: below the star import the builtins of
these names are hidden.
"""

import importlib as _importlib
import sys as _sys

from flambeau import _C
from flambeau._C import *  # noqa: F403

__version__ = "0.1.0"

_Module = type(_sys)
# Loaded when they are first used.
_PACKAGES = ("cuda", "functional", "io", "memory", "nn", "optim", "random", "utils")


def _publish_namespaces():
    """Makes namespaces of operators importable: `import flambeau.linalg`."""
    pending = [(__name__, _C)]
    while pending:
        path, module = pending.pop()
        for name, value in vars(module).items():
            inner = f"{path}.{name}"
            if isinstance(value, _Module) and name[0] != "_" and value.__name__ == inner:
                _sys.modules[inner] = value
                pending.append((inner, value))


_publish_namespaces()
globals().pop("functional", None)  # those of nn.functional; flambeau.functional is a module here

from flambeau import autograd  # noqa: E402, F401
from flambeau.autograd import (  # noqa: E402, F401
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
)
from flambeau.compiler import compile, deferred, is_compiling  # noqa: E402, F401
from flambeau.constants import e, inf, nan, newaxis, pi  # noqa: E402, F401
from flambeau.limits import finfo, iinfo  # noqa: E402, F401
from flambeau.random import (  # noqa: E402, F401
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)


def __getattr__(name):
    if name in _PACKAGES:
        return _importlib.import_module(f"{__name__}.{name}")
    if not name.startswith("__"):
        if not hasattr(_C, name):
            _C._add_new_operators()  # an extension may have brought it
        if hasattr(_C, name):
            return getattr(_C, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_PACKAGES})
