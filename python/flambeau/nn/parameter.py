"""Tensors with a place in a module: Parameter is trained, Buffer is state."""

import flambeau
from flambeau._C import Tensor
from flambeau.utils.naming import type_name

__all__ = ["Buffer", "Parameter"]


def _subclass(kind, data, requires_grad):
    if data is None:
        data = flambeau.empty(0)
    if not isinstance(data, Tensor):
        raise TypeError(f"{kind.__name__}: data must be a Tensor; got {type_name(data)}")
    return Tensor._make_subclass(kind, data.detach(), requires_grad)


def _rebuild(kind, data, requires_grad, attributes):
    result = _subclass(kind, data, requires_grad)
    result.__dict__.update(attributes)
    return result


class Parameter(Tensor):
    """A tensor that registers itself as a parameter when it is assigned to a module.

    It shares memory with `data` and is a leaf of the graph, also where it is made without
    gradients.
    """

    def __new__(cls, data=None, requires_grad=True):
        return _subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            copy = type(self)(self.data.clone(), self.requires_grad)
            memo[id(self)] = copy
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return _rebuild, (type(self), self.data, self.requires_grad, dict(self.__dict__))

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that registers itself as a buffer when it is assigned to a module."""

    def __new__(cls, data=None, *, persistent=True):
        buffer = _subclass(cls, data, data.requires_grad if isinstance(data, Tensor) else False)
        buffer.persistent = persistent
        return buffer

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            copy = Buffer(self.data.clone(), persistent=self.persistent)
            memo[id(self)] = copy.requires_grad_(self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return _rebuild, (type(self), self.data, self.requires_grad, dict(self.__dict__))
