"""Memory of tensors: statistics and limits of the caching allocator."""

from flambeau import _C

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_memory_limit",
]


def memory_stats():
    """Bytes in use, the largest so far, cached for reuse, and numbers of allocations."""
    return _C._memory_statistics()


def memory_allocated():
    """Bytes in use by tensors."""
    return _C._memory_statistics()["allocated_bytes"]


def max_memory_allocated():
    """The most bytes in use since the start or `reset_peak_memory_stats`."""
    return _C._memory_statistics()["peak_allocated_bytes"]


def memory_reserved():
    """Bytes in use or kept for reuse."""
    stats = _C._memory_statistics()
    return stats["allocated_bytes"] + stats["cached_bytes"]


def reset_peak_memory_stats():
    """Starts a new peak at what is in use now."""
    _C._reset_peak_memory()


def empty_cache():
    """Gives memory that is kept for reuse back to the system."""
    _C._empty_cache()


def set_memory_limit(bytes):
    """Makes allocations beyond this many bytes in use fail with OutOfMemoryError; 0: no limit."""
    _C._set_memory_limit(bytes)
