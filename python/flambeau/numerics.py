"""What programs ask of the arithmetic: determinism, the precision of products, threads.

Results have the same bits in every run and products have the precision of their dtype whatever is
asked here, so the settings are checked and remembered and change no result.
"""

import warnings

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_num_interop_threads",
    "use_deterministic_algorithms",
]

_PRECISIONS = ("highest", "high", "medium")
_DEBUG_MODES = ("default", "warn", "error")

_deterministic = False
_warn_only = False
_float32_matmul_precision = "highest"


def _check_bool(name, value):
    if not isinstance(value, bool):
        raise TypeError(
            f"use_deterministic_algorithms(): argument '{name}' must be bool, "
            f"not {type(value).__name__}"
        )


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Remembers `mode`. All algorithms are deterministic, with True and with False."""
    global _deterministic, _warn_only
    _check_bool("mode", mode)
    _check_bool("warn_only", warn_only)
    _deterministic, _warn_only = mode, warn_only


def are_deterministic_algorithms_enabled():
    """Whether `use_deterministic_algorithms` asked for them."""
    return _deterministic


def is_deterministic_algorithms_warn_only_enabled():
    """Whether `use_deterministic_algorithms` asked for warnings in the place of errors."""
    return _warn_only


def set_deterministic_debug_mode(debug_mode):
    """`use_deterministic_algorithms` by one word or number: "default" 0, "warn" 1, "error" 2."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(
            f"set_deterministic_debug_mode(): debug_mode must be str or int, "
            f"not {type(debug_mode).__name__}"
        )
    allowed = _DEBUG_MODES if isinstance(debug_mode, str) else range(len(_DEBUG_MODES))
    if debug_mode not in allowed:
        raise RuntimeError(
            f"set_deterministic_debug_mode(): debug_mode={debug_mode!r}; "
            f"allowed: {', '.join(map(repr, allowed))}"
        )
    level = allowed.index(debug_mode)
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode():
    """The number of the mode: 0, 1 or 2."""
    return (1 if _warn_only else 2) if _deterministic else 0


def set_float32_matmul_precision(precision):
    """Remembers the least precision that products of float32 may have: "highest", "high" or
    "medium". They have the highest always. Another text is a warning and changes nothing."""
    global _float32_matmul_precision
    if not isinstance(precision, str):
        raise RuntimeError(
            f"set_float32_matmul_precision(): precision must be a str, "
            f"not {type(precision).__name__}"
        )
    if precision not in _PRECISIONS:
        warnings.warn(
            f"set_float32_matmul_precision(): precision={precision!r} changes nothing; "
            f"allowed: {', '.join(map(repr, _PRECISIONS))}",
            stacklevel=2,
        )
        return
    _float32_matmul_precision = precision


def get_float32_matmul_precision():
    """What `set_float32_matmul_precision` was given last; "highest" at first."""
    return _float32_matmul_precision


def set_num_interop_threads(count):
    """Checks that `count` is a positive int. Operators do not run side by side, which every count
    allows."""
    if not isinstance(count, int) or isinstance(count, bool):
        raise RuntimeError(
            f"set_num_interop_threads(): expected an int, not {type(count).__name__}"
        )
    if count < 1:
        raise RuntimeError(f"set_num_interop_threads(): count={count}; allowed: 1 or more")


def get_num_interop_threads():
    """1: operators run one after the other, each with `get_num_threads()` threads."""
    return 1
