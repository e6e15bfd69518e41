"""Deep learning with the interface that PyTorch's users know: `import flambeau as torch`.

The names of operators, dtypes and types come from the extension `_C`; this file lists none of them.
Operators and dtypes are called `float`, `sum`, `max`, ...: below the star import the builtins of
these names are hidden.
"""

import importlib as _importlib
import sys as _sys
from importlib.machinery import ModuleSpec as _ModuleSpec

from flambeau import _C
from flambeau._C import *  # noqa: F403

_Module = type(_sys)
# Loaded when they are first used.
_PACKAGES = (
    "accelerator",
    "backends",
    "cuda",
    "functional",
    "io",
    "memory",
    "mps",
    "nn",
    "optim",
    "random",
    "serialization",
    "utils",
    "version",
    "xpu",
)
# The same for names of these modules.
_MEMBERS = {
    "broadcast_tensors": "functional",
    "cartesian_prod": "functional",
    "einsum": "functional",
    "load": "serialization",
    "meshgrid": "functional",
    "save": "serialization",
    "tensordot": "functional",
    "unique": "functional",
    "unique_consecutive": "functional",
}


def _publish_namespaces():
    """Makes namespaces of operators importable: `import flambeau.linalg`."""
    pending = [(__name__, _C)]
    while pending:
        path, module = pending.pop()
        for name, value in vars(module).items():
            inner = f"{path}.{name}"
            if isinstance(value, _Module) and name[0] != "_" and value.__name__ == inner:
                value.__spec__ = _ModuleSpec(inner, None, origin=_C.__file__)
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
from flambeau.numerics import (  # noqa: E402, F401
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    get_float32_matmul_precision,
    get_num_interop_threads,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    set_float32_matmul_precision,
    set_num_interop_threads,
    use_deterministic_algorithms,
)
from flambeau.random import (  # noqa: E402, F401
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from flambeau.version import __version__  # noqa: E402, F401


def _method_of(name):
    """A function of flambeau.functional as a method of tensors."""

    def method(self, *args, **kwargs):
        return __getattr__(name)(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"See flambeau.{name}."
    return method


for _name in ("unique", "unique_consecutive"):
    setattr(Tensor, _name, _method_of(_name))  # noqa: F405


def __getattr__(name):
    if name in _PACKAGES:
        return _importlib.import_module(f"{__name__}.{name}")
    if name in _MEMBERS:
        return getattr(_importlib.import_module(f"{__name__}.{_MEMBERS[name]}"), name)
    if not name.startswith("__"):
        if not hasattr(_C, name):
            _C._add_new_operators()  # an extension may have brought it
        if hasattr(_C, name):
            return getattr(_C, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_PACKAGES, *_MEMBERS})
