"""What programs ask before they choose a device: this build has no CUDA device."""

__all__ = ["device_count", "is_available"]


def is_available():
    """False: this build runs on CPUs."""
    return False


def device_count():
    """0: this build runs on CPUs."""
    return 0
