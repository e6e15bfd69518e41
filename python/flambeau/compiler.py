"""Deferred execution: `flambeau.compile`."""

import functools

from flambeau import _C

__all__ = ["compile", "deferred", "is_compiling"]


class deferred:  # noqa: N801
    """Inside `with deferred():` operator calls are recorded and run, fused, when a value is needed
    or the scope ends. Results have the same bits as without it."""

    def __enter__(self):
        _C._begin_deferred()
        return self

    def __exit__(self, kind, *_):
        _C._end_deferred(kind is not None)


def is_compiling():
    """Whether calls of this thread are recorded."""
    return _C._is_deferred()


def _compiled_function(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        with deferred():
            return function(*args, **kwargs)

    return call


def _compiled_module(module):
    from flambeau.nn import Module

    class CompiledModule(Module):
        """Defers its calls; parameters and state are those of the module inside."""

        def __init__(self, original):
            super().__init__()
            self._orig_mod = original

        def forward(self, *args, **kwargs):
            with deferred():
                return self._orig_mod(*args, **kwargs)

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self._orig_mod, name)

    return CompiledModule(module)


def compile(  # noqa: A001
    model=None,
    *,
    fullgraph=False,
    dynamic=None,
    backend=None,
    mode=None,
    options=None,
    disable=False,
):
    """Returns a function, or a module, whose operator calls are recorded and fused.

    Recording happens below Python, on every call: any Python code works, sizes may change, nothing
    is compiled again for a new size or number. `fullgraph` and `dynamic` are always so and are
    accepted for scripts that pass them; `disable` returns the argument. Other values of `backend`,
    `mode` and `options` than None and "default" are errors.
    """
    if model is None:
        settings = {"mode": mode, "options": options, "backend": backend, "disable": disable}
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, **settings)
    for name, value in (("backend", backend), ("mode", mode), ("options", options)):
        if value not in (None, "default"):
            raise NotImplementedError(
                f"compile: {name}={value!r} is not implemented; allowed: None, 'default'"
            )
    if disable:
        return model
    if not callable(model):
        raise TypeError(f"compile: model must be callable, got {type(model).__name__}")
    from flambeau.nn import Module

    return _compiled_module(model) if isinstance(model, Module) else _compiled_function(model)
