"""The namespace PyTorch's users know as `utils`: hooks and `utils.data`."""

from . import data, hooks

__all__ = ["data", "hooks"]
