"""Modules that hold parameters: in a list, by name. Tensors become parameters."""

import operator

from flambeau._C import Tensor
from flambeau.nn.modules.container import check_iterable, pairs_of
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


def _as_entry(value):
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _description(key, value):
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    sizes = "x".join(map(str, value.shape))
    return f"  ({key}): {kind} containing: [{value.dtype} of size {sizes}]"


class ParameterList(Module):
    """A list of parameters, registered under the names 0, 1, 2, ..."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _name(self, index):
        index = operator.index(index)
        if not -self._size <= index < self._size:
            raise IndexError(f"index {index} is out of range")
        return str(index % self._size)

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter([getattr(self, str(number)) for number in range(self._size)])

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, self._name(index))

    def __setitem__(self, index, value):
        setattr(self, self._name(index), _as_entry(value))

    def append(self, value):
        """Adds one at the end; returns self."""
        setattr(self, str(self._size), _as_entry(value))
        self._size += 1
        return self

    def extend(self, values):
        """Adds several at the end; returns self."""
        what = "ParameterList.extend should be called with an iterable"
        # A tensor can be iterated over, but one that stands here was meant to be an entry.
        check_iterable(None if isinstance(values, Tensor) else values, what)
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values):
        return self.extend(values)

    def extra_repr(self):
        return "\n".join(_description(number, value) for number, value in enumerate(self))

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters, registered under their keys."""

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}  # in the order in which they came; values are not used
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key):
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key, value):
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}')"
            )
        setattr(self, key, _as_entry(value))
        self._keys[key] = None

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, key)

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(list(self._keys))

    def __contains__(self, key):
        return key in self._keys

    def keys(self):
        """The names."""
        return self._keys.keys()

    def items(self):
        """Pairs of name and parameter."""
        return [(key, self[key]) for key in self._keys]

    def values(self):
        """The parameters."""
        return [self[key] for key in self._keys]

    def get(self, key, default=None):
        """The parameter of a name, or `default`."""
        return self[key] if key in self._keys else default

    def setdefault(self, key, default=None):
        """The parameter of a name, which becomes `default` if there is none."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def pop(self, key):
        """Removes a parameter and returns it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Removes the pair that came last and returns it."""
        key = next(reversed(self))
        return key, self.pop(key)

    def clear(self):
        """Removes all."""
        for key in list(self._keys):
            del self[key]

    def copy(self):
        """Another dictionary of the same parameters."""
        return ParameterDict(self.items())

    def fromkeys(self, keys, default=None):
        """A dictionary with `default` under each of `keys`."""
        return ParameterDict((key, default) for key in keys)

    def update(self, parameters):
        """Adds the parameters of a dictionary or of pairs; those of a plain dictionary come in the
        order of their keys."""
        pairs = pairs_of(parameters, "ParameterDict")
        if type(parameters) is dict:
            pairs = sorted(pairs, key=lambda pair: pair[0])
        for key, value in pairs:
            self[key] = value

    def __or__(self, other):
        copy = self.copy()
        copy.update(other)
        return copy

    def __ror__(self, other):
        copy = other.copy()
        copy.update(self)
        return copy

    def __ior__(self, other):
        self.update(other)
        return self

    def extra_repr(self):
        return "\n".join(_description(key, value) for key, value in self.items())

    def __call__(self, input):
        raise RuntimeError("ParameterDict should not be called.")
