"""Operators with a derivative of their own: `Function`."""

import functools

import flambeau
from flambeau import _C
from flambeau._C import Tensor
from flambeau.autograd.grad_mode import enable_grad, no_grad

_CHANGED = (
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation: a tensor of sizes {sizes} saved by {name} is at version {now}; expected version "
    "{then} instead."
)


class FunctionContext:
    """What a call keeps for its backward (`ctx`)."""

    def __init__(self, function):
        self._function = function
        self._saved = ()
        self._inputs = ()
        self._outputs = ()
        self._written = ()
        self._constants = ()
        self._materializes = True
        self._node = None
        self.needs_input_grad = ()

    def save_for_backward(self, *tensors):
        """Keeps inputs, outputs or other tensors, or None, for the backward."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but got a {type(t).__name__}"
                )
        self._saved = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *tensors):
        """States that inputs were written in place; they must be among the outputs."""
        self._written = tensors

    def mark_non_differentiable(self, *tensors):
        """States that outputs have no derivative."""
        self._constants = tensors

    def set_materialize_grads(self, value):
        """Whether cotangents of outputs that nothing depends on are zeros (True) or None."""
        self._materializes = bool(value)

    def _keep(self, outputs):
        """Outputs are kept without their history, which would hold this call."""
        self._outputs = tuple(outputs)
        kept = []
        for t in self._saved:
            index = next((i for i, o in enumerate(outputs) if o is t), None)
            if t is None:
                kept.append(None)
            elif index is None:
                kept.append((t, None, t._version))
            else:
                kept.append((t.detach(), index, t._version))
        self._saved = tuple(kept)
        self._outputs = self._inputs = ()

    @property
    def saved_tensors(self):
        """What save_for_backward was given.

        Errors: RuntimeError for a tensor that was written in place since.
        """
        result = []
        for kept in self._saved:
            if kept is None or isinstance(kept, Tensor):  # None, or still in the forward
                result.append(kept)
                continue
            t, index, version = kept
            if t._version != version:
                raise RuntimeError(
                    _CHANGED.format(
                        sizes=list(t.shape),
                        name=self._function.__name__,
                        now=t._version,
                        then=version,
                    )
                )
            if index is not None and self._node is not None:
                t = _C._with_history(t, self._node, index)
            result.append(t)
        return tuple(result)

    saved_variables = saved_tensors

    def apply_backward(self, node, cotangents, create_graph):
        """Called by the tape with a cotangent, or None, for each output."""
        all_cotangents = [None] * len(self._types)
        for position, c in zip(self._positions, cotangents):
            all_cotangents[position] = c
        if self._materializes:
            all_cotangents = [
                flambeau.zeros(kind[0], dtype=kind[1]) if c is None and kind is not None else c
                for c, kind in zip(all_cotangents, self._types)
            ]
        self._node = node
        try:
            with enable_grad() if create_graph else no_grad():
                result = self._function.backward(self, *all_cotangents)
        finally:
            self._node = None
        name = self._function.__name__
        result = result if isinstance(result, tuple) else (result,)
        count = len(self.needs_input_grad)
        if len(result) > count and all(r is None for r in result[count:]):
            result = result[:count]
        if len(result) != count:
            raise RuntimeError(
                f"function {name}Backward returned an incorrect number of gradients (expected "
                f"{count}, got {len(result)})"
            )
        tensors = []
        for i, (is_tensor, gradient) in enumerate(zip(self._takes_tensor, result)):
            if not is_tensor and gradient is not None:
                raise RuntimeError(
                    f"function {name}Backward returned a gradient different from None at position "
                    f"{i + 1}, but the corresponding forward input was not a Variable"
                )
            tensors.append(gradient)
        return tuple(tensors)


def once_differentiable(function):
    """Marks a backward whose result cannot be differentiated again: doing so is a RuntimeError."""

    @functools.wraps(function)
    def wrapper(ctx, *cotangents):
        with no_grad():
            result = function(ctx, *cotangents)
        if not _C.is_grad_enabled():
            return result
        if not any(isinstance(c, Tensor) and c.requires_grad for c in cotangents):
            return result
        many = isinstance(result, tuple)
        tensors = [
            r.detach().requires_grad_() if isinstance(r, Tensor) else r
            for r in (result if many else (result,))
        ]
        results = _Refused.apply(len(tensors), *tensors)
        return results if many else results[0]

    return wrapper


class Function:
    """An operator with a derivative of its own, as a subclass with static methods.

    forward(ctx, *args), or forward(*args) and setup_context(ctx, inputs, output), computes with
    recording off; backward(ctx, *cotangents) returns a cotangent, or None, for each argument.
    Called as `Name.apply(*args)`.
    """

    @staticmethod
    def forward(*args, **kwargs):
        """Computes the outputs: a tensor or a tuple."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def backward(ctx, *grad_outputs):
        """Computes the cotangents of the arguments from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    setup_context = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "vjp" in cls.__dict__ and "backward" not in cls.__dict__:
            cls.backward = cls.vjp

    @classmethod
    def apply(cls, *args):
        """Runs forward and puts the call on the tape."""
        ctx = FunctionContext(cls)
        ctx._takes_tensor = tuple(isinstance(a, Tensor) for a in args)
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        records = _C.is_grad_enabled() and any(ctx.needs_input_grad)
        with no_grad():
            if cls.setup_context is None:
                result = cls.forward(ctx, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
        many = isinstance(result, tuple)
        outputs = list(result) if many else [result]
        if not records:
            return result
        positions, tensors, written = [], [], []
        for i, output in enumerate(outputs):
            if not isinstance(output, Tensor):
                continue
            dirty = any(output is w for w in ctx._written)
            if not dirty and any(output is a for a in args):
                # An input that is handed on is another tensor on the tape.
                output = output.detach()
            constant = any(outputs[i] is c for c in ctx._constants)
            floats = output.is_floating_point() or output.is_complex()
            if constant or not floats:
                continue
            if not dirty and output.requires_grad:
                output = output.detach()
            if output is not outputs[i]:
                ctx._saved = tuple(
                    output if s is outputs[i] and not _given(s, args) else s for s in ctx._saved
                )
            outputs[i] = output
            positions.append(i)
            tensors.append(output)
            written.append(dirty)
        for w in ctx._written:
            if not any(w is o for o in outputs):
                raise RuntimeError(
                    "Some elements marked as dirty during the forward method were not returned as "
                    "output. The inputs that are modified inplace must all be outputs of the "
                    "Function."
                )
        if tensors:
            ctx._positions = positions
            ctx._types = [(o.shape, o.dtype) if isinstance(o, Tensor) else None for o in outputs]
            ctx._keep(tensors)
            name = f"{cls.__name__}Backward"
            _C._record_function(name, ctx, args, tuple(tensors), tuple(written))
        return tuple(outputs) if many else outputs[0]


def _given(tensor, args):
    return any(tensor is a for a in args)


class _Refused(Function):
    @staticmethod
    def forward(ctx, count, *tensors):
        ctx.mark_non_differentiable()
        return tuple(t.clone() if isinstance(t, Tensor) else t for t in tensors)

    @staticmethod
    def backward(ctx, *cotangents):
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )
