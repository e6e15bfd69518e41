"""Apple's GPUs: this build has no code for them."""

import platform

__all__ = ["is_available", "is_built", "is_macos_or_newer"]


def is_available():
    """False: this build runs on CPUs."""
    return False


def is_built():
    """False: this build has no code for Apple's GPUs."""
    return False


def is_macos_or_newer(major, minor):
    """Whether the system is macOS of this version or a newer one."""
    release = platform.mac_ver()[0]
    return bool(release) and tuple(map(int, release.split(".")[:2])) >= (major, minor)
