"""oneDNN, by its earlier name: not in this build."""

from .settings import add_settings

__all__ = ["is_available"]

add_settings(__name__, enabled=True, deterministic=False, allow_tf32=True)


def is_available():
    """False: kernels are Flambeau's own."""
    return False
