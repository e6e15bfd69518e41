"""OpenMP: not in this build."""

__all__ = ["is_available"]


def is_available():
    """False: threads are Flambeau's own."""
    return False
