"""Intel's MKL: not in this build."""

__all__ = ["is_available"]


def is_available():
    """False: products are Flambeau's own."""
    return False
