"""Modules that hold others: in order, in a list, by name."""

import operator

from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


class _Numbered(Module):
    """Children, or parameters, under the names 0, 1, 2, ..."""

    def _entries(self):
        return self._modules

    def _name(self, index):
        count = len(self)
        index = operator.index(index)
        if not -count <= index < count:
            raise IndexError(f"index {index} is out of range")
        return str(index % count)

    def __len__(self):
        return len(self._entries())

    def __iter__(self):
        return iter(list(self._entries().values()))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(*self._arguments(list(self)[index]))
        return self._entries()[self._name(index)]

    def __setitem__(self, index, value):
        setattr(self, self._name(index), value)

    def __delitem__(self, index):
        kept = list(self)
        del kept[index]
        self._replace(kept)

    def _replace(self, values):
        self._entries().clear()
        for number, value in enumerate(values):
            setattr(self, str(number), value)

    def append(self, value):
        """Adds one at the end; returns self."""
        setattr(self, str(len(self)), value)
        return self

    def extend(self, values):
        """Adds several at the end; returns self."""
        for value in values:
            self.append(value)
        return self

    def insert(self, index, value):
        """Adds one before position `index`."""
        changed = list(self)
        changed.insert(index, value)
        self._replace(changed)


class Sequential(_Numbered):
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

    @staticmethod
    def _arguments(modules):
        return modules

    def _name(self, index):
        return list(self._modules)[operator.index(index)]

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        count = len(self)
        if not -count <= operator.index(index) < count:
            raise IndexError(f"index {index} is out of range")
        return self._modules[self._name(index)]

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules, registered."""

    def __init__(self, modules=None):
        super().__init__()
        self.extend(() if modules is None else modules)

    @staticmethod
    def _arguments(modules):
        return [modules]

    def append(self, module):
        """Adds a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def __iadd__(self, modules):
        return self.extend(modules)


class ParameterList(_Numbered):
    """A list of parameters, registered; tensors become parameters."""

    def __init__(self, values=None):
        super().__init__()
        self.extend(() if values is None else values)

    def _entries(self):
        return self._parameters

    @staticmethod
    def _arguments(values):
        return [values]

    def __setattr__(self, name, value):
        if name.isdigit() and not isinstance(value, Parameter):
            value = Parameter(value)
        super().__setattr__(name, value)


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
        module = self[key]
        del self[key]
        return module

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
        pairs = modules.items() if hasattr(modules, "items") else modules
        for key, module in pairs:
            self[key] = module
