"""The device beside the CPU, whatever its kind: this build has none."""

__all__ = [
    "current_accelerator",
    "current_device_index",
    "device_count",
    "empty_cache",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "set_device_index",
    "synchronize",
]


def _fail(function):
    raise RuntimeError(f"accelerator.{function}(): this build has no accelerator; available: cpu")


def is_available():
    """False: this build runs on CPUs."""
    return False


def device_count():
    """0: this build runs on CPUs."""
    return 0


def current_accelerator(check_available=False):
    """None: this build runs on CPUs."""
    return None


def current_device_index():
    """A RuntimeError: there is no accelerator."""
    _fail("current_device_index")


def set_device_index(device, /):
    """A RuntimeError: there is no accelerator."""
    _fail("set_device_index")


def synchronize(device=None, /):
    """A RuntimeError: there is no accelerator."""
    _fail("synchronize")


def empty_cache():
    """Does nothing: there is no accelerator."""


def memory_allocated(device_index=None, /):
    """0: there is no accelerator."""
    return 0


def max_memory_allocated(device_index=None, /):
    """0: there is no accelerator."""
    return 0


def memory_reserved(device_index=None, /):
    """0: there is no accelerator."""
    return 0


def max_memory_reserved(device_index=None, /):
    """0: there is no accelerator."""
    return 0
