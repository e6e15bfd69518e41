"""The namespace `torch.functional`: the package's own operators under a second path."""

import flambeau


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(flambeau, name)
