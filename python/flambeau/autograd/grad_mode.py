"""Gradients: `backward`, `grad`, and the modes that switch recording on and off."""

import functools
import inspect

from flambeau import _C
from flambeau._C import Node, is_grad_enabled

__all__ = [
    "Node",
    "backward",
    "enable_grad",
    "grad",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]


def backward(
    tensors,
    grad_tensors=None,
    retain_graph=None,
    create_graph=False,
    grad_variables=None,
    inputs=None,
):
    """Adds the gradients of `tensors` to the `grad` of the leaves, or of `inputs` only.

    `grad_tensors` holds the cotangents; None stands for one, where a tensor has one element.
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("`grad_tensors` and `grad_variables` were given; use `grad_tensors`")
        grad_tensors = grad_variables
    _C._backward(tensors, grad_tensors, retain_graph, create_graph, inputs)


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """Returns the gradients of `outputs` with respect to `inputs` as a tuple.

    An input that no output depends on is an error, None with `allow_unused`, and zeros with
    `materialize_grads`.
    """
    if not only_inputs:
        raise RuntimeError("only_inputs=False is not supported; use backward() to accumulate")
    if is_grads_batched:
        raise NotImplementedError("grad(): is_grads_batched is not supported")
    return _C._grad(
        outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads
    )


class _GradMode:
    """A mode of this thread as a context manager and a decorator."""

    def __init__(self, enabled):
        self._enabled = enabled
        self._outer = []

    def __enter__(self):
        self._outer.append(_C._set_grad_enabled(self._enabled))
        return self

    def __exit__(self, *_):
        _C._set_grad_enabled(self._outer.pop())

    def _fresh(self):
        return _GradMode(self._enabled)

    def __call__(self, function):
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def run(*args, **kwargs):
            with self._fresh():
                return function(*args, **kwargs)

        return run

    def _wrap_generator(self, function):
        # The mode holds while the generator runs, not while its consumer does.
        @functools.wraps(function)
        def run(*args, **kwargs):
            generator = function(*args, **kwargs)
            step, value = generator.send, None
            while True:
                try:
                    with self._fresh():
                        item = step(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    step, value = generator.send, (yield item)
                except GeneratorExit:
                    generator.close()
                    raise
                except BaseException as error:
                    step, value = generator.throw, error

        return run


class no_grad(_GradMode):  # noqa: N801
    """Calls are not recorded: `with no_grad():` or `@no_grad()`."""

    def __new__(cls, function=None):
        self = super().__new__(cls)
        if function is None:
            return self
        self.__init__()
        return self(function)

    def __init__(self, function=None):
        super().__init__(False)


class enable_grad(no_grad):  # noqa: N801
    """Calls are recorded, also inside `no_grad`."""

    def __init__(self, function=None):
        _GradMode.__init__(self, True)


class set_grad_enabled(_GradMode):  # noqa: N801
    """Sets the mode at once; as a context manager, until its end."""

    def __init__(self, mode):
        super().__init__(bool(mode))
        self._before = _C._set_grad_enabled(self._enabled)

    def __enter__(self):
        self._outer.append(self._before)
        _C._set_grad_enabled(self._enabled)
        return self

    def __call__(self, function):
        _C._set_grad_enabled(self._before)
        return super().__call__(function)


class inference_mode(no_grad):  # noqa: N801
    """As `no_grad`; results are ordinary tensors. `inference_mode(False)` changes nothing."""

    def __new__(cls, mode=True):
        if isinstance(mode, bool):
            return object.__new__(cls)
        return super().__new__(cls, mode)

    def __init__(self, mode=True):
        _GradMode.__init__(self, not mode)
        if mode is False:
            self._enabled = None

    def __enter__(self):
        enabled = is_grad_enabled() if self._enabled is None else self._enabled
        self._outer.append(_C._set_grad_enabled(enabled))
        return self

    def _fresh(self):
        return type(self)(self._enabled is not None)
