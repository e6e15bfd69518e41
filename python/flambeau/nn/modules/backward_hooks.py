"""Hooks on a module's gradients.

The inputs and the outputs of a call pass through identities whose gradients are observed, so a hook
sees the gradients of the module's whole input and output whatever happens between them.
"""

import flambeau
from flambeau._C import Tensor


def _joint_identity(tensors, on_gradients):
    """Returns aliases or copies of `tensors` with one hook on all their gradients.

    `on_gradients(list)` is called once in a backward pass, with a gradient for each tensor, and
    returns the gradients that are passed on. Several tensors are laid into one vector for that:
    a tensor that got no gradient has one of zeros then.
    """
    if len(tensors) == 1:
        alias = tensors[0].view(tensors[0].shape)
        alias.register_hook(lambda gradient: on_gradients([gradient])[0])
        return [alias]
    kinds = {(tensor.dtype, tensor.device) for tensor in tensors}
    if len(kinds) > 1:
        raise NotImplementedError(
            "module backward hooks: differentiable tensors of one call must have one dtype and "
            f"device; got {', '.join(sorted(f'{dtype} on {device}' for dtype, device in kinds))}"
        )
    shapes = [tensor.shape for tensor in tensors]
    sizes = [tensor.numel() for tensor in tensors]
    joined = flambeau.cat([tensor.reshape(-1) for tensor in tensors])

    def pieces(vector):
        parts, start = [], 0
        for shape, size in zip(shapes, sizes):
            parts.append(vector[start : start + size].reshape(shape))
            start += size
        return parts

    def hook(gradient):
        given = pieces(gradient)
        taken = on_gradients(given)
        if all(a is b for a, b in zip(given, taken)):
            return None
        zeros = [flambeau.zeros_like(b) if a is None else a for a, b in zip(taken, given)]
        return flambeau.cat([part.reshape(-1) for part in zeros])

    joined.register_hook(hook)
    return pieces(joined)


def _replace(values, positions, tensors):
    values = list(values)
    for position, tensor in zip(positions, tensors):
        values[position] = tensor
    return tuple(values)


def _is_none(result):
    return result is None or isinstance(result, tuple) and all(item is None for item in result)


class BackwardHooks:
    """The observation of one call of a module."""

    def __init__(self, module, hooks, pre_hooks):
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.gradients_out = None
        self.input_count = 0
        self.input_positions = []

    def wrap_inputs(self, inputs):
        self.input_count = len(inputs)
        self.input_positions = self._differentiable(inputs)
        if not self.input_positions:
            return inputs
        tensors = [inputs[position] for position in self.input_positions]
        return _replace(
            inputs, self.input_positions, _joint_identity(tensors, self._input_gradients)
        )

    def wrap_outputs(self, result):
        outputs = (result,) if isinstance(result, Tensor) else result
        if not isinstance(outputs, tuple):
            import warnings

            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(result)}",
                stacklevel=4,
            )
            return result
        positions = self._differentiable(outputs)
        if not positions:
            return result

        def observe(gradients):
            return self._output_gradients(positions, len(outputs), gradients)

        tensors = [outputs[position] for position in positions]
        wrapped = _replace(outputs, positions, _joint_identity(tensors, observe))
        return wrapped[0] if isinstance(result, Tensor) else type(result)(wrapped)

    @staticmethod
    def _differentiable(values):
        if not flambeau.is_grad_enabled():
            return []
        return [
            position
            for position, value in enumerate(values)
            if isinstance(value, Tensor) and value.requires_grad
        ]

    def _output_gradients(self, positions, count, gradients):
        packed = _replace([None] * count, positions, gradients)
        for hook in self.pre_hooks:
            result = hook(self.module, packed)
            if not _is_none(result):
                packed = self._checked(result, count, "pre hook", "grad_output")
        self.gradients_out = packed
        if not self.input_positions:
            for hook in self.hooks:
                if not _is_none(hook(self.module, (None,) * self.input_count, packed)):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always "
                        "return None or None for all gradients."
                    )
            self.gradients_out = None
        return [packed[position] for position in positions]

    def _input_gradients(self, gradients):
        if self.gradients_out is None:
            # What was differentiated did not pass through the outputs.
            return gradients
        packed = _replace([None] * self.input_count, self.input_positions, gradients)
        for hook in self.hooks:
            result = hook(self.module, packed, self.gradients_out)
            if not _is_none(result):
                packed = self._checked(result, self.input_count, "hook", "grad_input")
        self.gradients_out = None
        return [packed[position] for position in self.input_positions]

    @staticmethod
    def _checked(result, count, kind, name):
        result = result if isinstance(result, tuple) else (result,)
        if len(result) != count:
            raise RuntimeError(
                f"Backward {kind} returned an invalid number of {name}, got {len(result)}, but "
                f"expected {count}"
            )
        return result
