"""cuDNN: not in this build."""

import contextlib
import sys

from .settings import add_settings

__all__ = ["flags", "is_acceptable", "is_available", "set_flags", "version"]

add_settings(
    __name__,
    enabled=True,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    allow_tf32=True,
)


def is_available():
    """False: cuDNN is not in this build."""
    return False


def is_acceptable(tensor):
    """False: cuDNN takes no tensor of this build."""
    return False


def version():
    """None: cuDNN is not in this build."""
    return None


def set_flags(
    _enabled=None,
    _benchmark=None,
    _benchmark_limit=None,
    _deterministic=None,
    _allow_tf32=None,
):
    """Sets those that are not None and returns what all of them were, in this order."""
    given = {
        "enabled": _enabled,
        "benchmark": _benchmark,
        "benchmark_limit": _benchmark_limit,
        "deterministic": _deterministic,
        "allow_tf32": _allow_tf32,
    }
    module = sys.modules[__name__]
    before = tuple(getattr(module, name) for name in given)
    for name, value in given.items():
        if value is not None:
            setattr(module, name, value)
    return before


@contextlib.contextmanager
def flags(
    enabled=False,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    allow_tf32=True,
):
    """Sets all of them until the end of the `with` block."""
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*before)
