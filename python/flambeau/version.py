"""What was built: Flambeau's version, and which GPU interfaces it has (none)."""

__all__ = ["__version__", "cuda", "debug", "hip", "xpu"]

__version__ = "0.1.0"
debug = False
cuda = None
hip = None
xpu = None
