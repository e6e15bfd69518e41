"""Attributes of a module, or of an object, that accept one type and change nothing else."""

import sys
import types

__all__ = ["Setting", "add_settings"]


class Setting:
    """An attribute of type `kind`, `default` at first. Another type is a RuntimeError that names
    `owner` and the attribute."""

    def __init__(self, owner, kind, default):
        self._owner, self._kind, self._value = owner, kind, default

    def __set_name__(self, _, name):
        self._name = name

    def __get__(self, instance, _=None):
        return self if instance is None else self._value

    def __set__(self, instance, value):
        if type(value) is not self._kind:
            raise RuntimeError(
                f"{self._owner}.{self._name}: expected {self._kind.__name__}, "
                f"not {type(value).__name__}"
            )
        self._value = value


def add_settings(module, **defaults):
    """Gives the module of this name one `Setting` a keyword, of the type of its default."""
    settings = {name: Setting(module, type(value), value) for name, value in defaults.items()}
    sys.modules[module].__class__ = type("ModuleWithSettings", (types.ModuleType,), settings)
