"""The CPU."""

from flambeau import _C

__all__ = ["get_cpu_capability"]

_CAPABILITIES = {"x86-64-v3": "AVX2", "x86-64-v4": "AVX512"}


def get_cpu_capability():
    """The instructions that kernels are compiled for: "AVX2" or "AVX512"."""
    return _CAPABILITIES[_C._get_target()[0]]
