"""Modules that hold other modules: in order, in a list, by name."""

import collections.abc
import itertools
import operator

from flambeau.nn.modules.module import Module, indented
from flambeau.utils.naming import type_name


def check_iterable(values, what):
    """Refuses what a container cannot take its entries from; `what` names method and content."""
    if not isinstance(values, collections.abc.Iterable):
        raise TypeError(f"{what}, but got {type(values).__name__}")


def pairs_of(values, kind):
    """Yields the (key, value) pairs of a mapping or of an iterable of pairs."""
    what = f"{kind}.update should be called with an iterable of key/value pairs"
    check_iterable(values, what)
    if hasattr(values, "items"):
        yield from values.items()
        return
    for number, pair in enumerate(values):
        if not isinstance(pair, collections.abc.Iterable):
            raise TypeError(
                f"{kind} update sequence element #{number} should be Iterable; is "
                f"{type(pair).__name__}"
            )
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(
                f"{kind} update sequence element #{number} has length {len(pair)}; 2 is required"
            )
        yield pair


class _Ordered(Module):
    """Children by position; their names are 0, 1, 2, ... unless they were given others."""

    def _name(self, index):
        index, count = operator.index(index), len(self._modules)
        if not -count <= index < count:
            raise IndexError(f"index {index} is out of range")
        return next(itertools.islice(self._modules, index % count, None))

    def _renumber(self, modules):
        self._modules.clear()
        self._modules.update((str(number), module) for number, module in enumerate(modules))

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __setitem__(self, index, module):
        setattr(self, self._name(index), module)

    def __delitem__(self, index):
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name(index)]
        for name in names:
            del self._modules[name]
        self._renumber(list(self._modules.values()))

    def append(self, module):
        """Adds a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def _insert(self, index, module):
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)

    def pop(self, key):
        """Removes a module, or those of a slice, and returns it."""
        module = self[key]
        del self[key]
        return module


class Sequential(_Ordered):
    """Modules called one after the other, each with the result of the one before.

    Arguments are modules, or one dictionary of modules by name.
    """

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], dict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for number, module in enumerate(args):
                self.add_module(str(number), module)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        return self._modules[self._name(index)]

    def insert(self, index, module):
        """Adds a module before position `index`; returns self."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}; got {type_name(module)}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        self._insert(index, module)
        return self

    def extend(self, sequential):
        """Adds several modules at the end; returns self."""
        for module in list(sequential):
            self.append(module)
        return self

    @staticmethod
    def _check_other(other):
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type(other)} is given."
            )

    def __add__(self, other):
        self._check_other(other)
        return Sequential(*self, *other)

    def __iadd__(self, other):
        self._check_other(other)
        return self.extend(other)

    @staticmethod
    def _check_times(times):
        if not isinstance(times, int):
            raise TypeError(
                f"unsupported operand type(s) for *: {Sequential} and {type(times)}",
            )
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {Sequential}")

    def __mul__(self, other):
        self._check_times(other)
        return Sequential(*(list(self) * other))

    __rmul__ = __mul__

    def __imul__(self, other):
        self._check_times(other)
        return self.extend(list(self) * (other - 1))

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Ordered):
    """A list of modules, registered."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[self._name(index)]

    def insert(self, index, module):
        """Adds a module before position `index`."""
        self._insert(index, module)

    def extend(self, modules):
        """Adds several modules at the end; returns self."""
        check_iterable(modules, "ModuleList.extend should be called with an iterable")
        for module in list(modules):
            self.append(module)
        return self

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return ModuleList([*self, *other])

    def __repr__(self):
        """Modules of one text that follow each other share a line."""
        lines, number = [], 0
        for text, equal in itertools.groupby(map(repr, self)):
            count = len(list(equal))
            if count == 1:
                line = f"({number}): {text}"
            else:
                line = f"({number}-{number + count - 1}): {count} x {text}"
            lines.append(f"  {indented(line)}\n")
            number += count
        return f"{self._get_name()}(" + ("\n" if lines else "") + "".join(lines) + ")"


class ModuleDict(Module):
    """A dictionary of modules, registered."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        """Removes all modules."""
        self._modules.clear()

    def pop(self, key):
        """Removes a module and returns it."""
        return self._modules.pop(key)

    def keys(self):
        """The names."""
        return self._modules.keys()

    def items(self):
        """Pairs of name and module."""
        return self._modules.items()

    def values(self):
        """The modules."""
        return self._modules.values()

    def update(self, modules):
        """Adds the modules of a dictionary or of pairs."""
        for key, module in pairs_of(modules, "ModuleDict"):
            self[key] = module
