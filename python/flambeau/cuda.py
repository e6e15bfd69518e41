"""What programs ask before they choose a device: this build has no CUDA device.

Questions have their answers, and what has nothing to do does nothing: seeds, caches, memory in use.
What needs a device is a RuntimeError.
"""

from flambeau._C import OutOfMemoryError

__all__ = [
    "OutOfMemoryError",
    "current_device",
    "device_count",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "synchronize",
]


def _fail(function, device=None):
    given = "" if device is None else f" for device {device!r}"
    raise RuntimeError(f"cuda.{function}(){given}: this build has no CUDA device; available: cpu")


def is_available():
    """False: this build runs on CPUs."""
    return False


def is_initialized():
    """False: there is nothing to initialize."""
    return False


def is_bf16_supported(including_emulation=True):
    """False: there is no device to support it."""
    return False


def device_count():
    """0: this build runs on CPUs."""
    return 0


def get_arch_list():
    """An empty list: no code for CUDA devices was built."""
    return []


def init():
    """A RuntimeError: there is no device."""
    _fail("init")


def current_device():
    """A RuntimeError: there is no device."""
    _fail("current_device")


def set_device(device):
    """A RuntimeError: there is no device."""
    _fail("set_device", device)


def synchronize(device=None):
    """A RuntimeError: there is no device."""
    _fail("synchronize", device)


def get_device_name(device=None):
    """A RuntimeError: there is no device."""
    _fail("get_device_name", device)


def get_device_capability(device=None):
    """A RuntimeError: there is no device."""
    _fail("get_device_capability", device)


def get_device_properties(device=None):
    """A RuntimeError: there is no device."""
    _fail("get_device_properties", device)


def mem_get_info(device=None):
    """A RuntimeError: there is no device."""
    _fail("mem_get_info", device)


def reset_peak_memory_stats(device=None):
    """A RuntimeError: there is no device."""
    _fail("reset_peak_memory_stats", device)


def initial_seed():
    """A RuntimeError: there is no device whose seed it could be."""
    _fail("initial_seed")


def manual_seed(seed):
    """Checks that `seed` is a number; there is no device whose random numbers it could set."""
    int(seed)


def manual_seed_all(seed):
    """Checks that `seed` is a number; there is no device whose random numbers it could set."""
    int(seed)


def seed():
    """Does nothing: there is no device."""


def seed_all():
    """Does nothing: there is no device."""


def empty_cache():
    """Does nothing: there is no device. `flambeau.memory.empty_cache` is the CPU's."""


def memory_allocated(device=None):
    """0: there is no device. `flambeau.memory` has the CPU's figures."""
    return 0


def max_memory_allocated(device=None):
    """0: there is no device."""
    return 0


def memory_reserved(device=None):
    """0: there is no device."""
    return 0


def max_memory_reserved(device=None):
    """0: there is no device."""
    return 0
