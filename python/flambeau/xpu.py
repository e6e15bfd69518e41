"""Intel's GPUs: this build has no code for them."""

__all__ = ["device_count", "is_available", "manual_seed", "manual_seed_all"]


def is_available():
    """False: this build runs on CPUs."""
    return False


def device_count():
    """0: this build runs on CPUs."""
    return 0


def manual_seed(seed):
    """Checks that `seed` is a number; there is no device whose random numbers it could set."""
    int(seed)


def manual_seed_all(seed):
    """Checks that `seed` is a number; there is no device whose random numbers it could set."""
    int(seed)
