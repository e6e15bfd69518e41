"""Computing parts of a network again in the backward pass instead of keeping what they saved.

Source: Chen et al., "Training deep nets with sublinear memory cost", 2016.
"""

import contextlib

import flambeau
from flambeau._C import Tensor
from flambeau.autograd import Function, enable_grad

__all__ = ["checkpoint", "checkpoint_sequential"]


def _detached(args):
    return [
        a.detach().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in args
    ]


def _leaves_besides(known, outputs):
    """Leaves that outputs depend on and that the call did not know of: their gradient is added."""
    seen, leaves, names = set(), [], {id(t) for t in known}
    work = [o.grad_fn for o in outputs]
    while work:
        node = work.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name() == "AccumulateGrad":
            if id(node.variable) not in names:
                leaves.append(node.variable)
            continue
        work += [following for following, _ in node.next_functions]
    return leaves


class _Again(Function):
    """Inputs: the function, options, how many arguments, the arguments, then parameters."""

    @staticmethod
    def forward(ctx, call, count, *tensors):
        ctx.call = call
        ctx.count = count
        ctx.state = flambeau.get_rng_state() if call.keeps_state else None
        ctx.plain = [None if isinstance(a, Tensor) else a for a in tensors[:count]]
        ctx.save_for_backward(*[a if isinstance(a, Tensor) else None for a in tensors])
        with call.contexts()[0]:
            return call.function(*tensors[:count], **call.kwargs)

    @staticmethod
    def backward(ctx, *cotangents):
        saved = ctx.saved_tensors
        args = [p if s is None else s for s, p in zip(saved[: ctx.count], ctx.plain)]
        extra = list(saved[ctx.count :])
        now = flambeau.get_rng_state()
        if ctx.state is not None:
            flambeau.set_rng_state(ctx.state)
        try:
            fresh = _detached(args)
            with enable_grad(), ctx.call.contexts()[1]:
                result = ctx.call.function(*fresh, **ctx.call.kwargs)
        finally:
            if ctx.state is not None:
                flambeau.set_rng_state(now)
        outputs = result if isinstance(result, tuple) else (result,)
        pairs = [
            (o, c)
            for o, c in zip([o for o in outputs if isinstance(o, Tensor)], cotangents)
            if o.requires_grad and c is not None
        ]
        known = [a for a in fresh if isinstance(a, Tensor) and a.requires_grad] + extra
        others = _leaves_besides(known, [o for o, _ in pairs])
        found = flambeau.autograd.grad(
            [o for o, _ in pairs], known + others, [c for _, c in pairs], allow_unused=True
        )
        for leaf, gradient in zip(others, found[len(known) :]):
            if gradient is not None:
                leaf.grad = gradient if leaf.grad is None else leaf.grad + gradient
        found = found[: len(known)]
        results, left = [], list(found)
        for a in fresh:
            takes = isinstance(a, Tensor) and a.requires_grad
            results.append(left.pop(0) if takes else None)
        return (None, None, *results, *left)


class _Call:
    def __init__(self, function, kwargs, keeps_state, context_fn):
        self.function = function
        self.kwargs = kwargs
        self.keeps_state = keeps_state
        self.context_fn = context_fn

    def contexts(self):
        """Contexts of the forward and of the second run."""
        if self.context_fn is None:
            return contextlib.nullcontext(), contextlib.nullcontext()
        return self.context_fn()


def _parameters_of(function):
    """Parameters that a module, a bound method of one, or a closure's modules have."""
    found, seen = [], set()

    def take(value):
        owner = getattr(value, "__self__", value)
        if isinstance(owner, flambeau.nn.Module):
            tensors = list(owner.parameters())
        else:
            tensors = [owner] if isinstance(owner, Tensor) else []
        for t in tensors:
            if t.requires_grad and id(t) not in seen:
                seen.add(id(t))
                found.append(t)

    take(function)
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):
            value = cell.cell_contents
            for item in value if isinstance(value, (list, tuple)) else (value,):
                take(item)
    names = getattr(getattr(function, "__code__", None), "co_names", ())
    for name in names:
        take(getattr(function, "__globals__", {}).get(name))
    return found


def checkpoint(
    function,
    *args,
    use_reentrant=None,
    context_fn=None,
    determinism_check="default",
    debug=False,
    early_stop=True,
    preserve_rng_state=True,
    **kwargs,
):
    """function(*args, **kwargs), of which nothing but the arguments is kept for the backward.

    The backward runs the function again, with preserve_rng_state with the same random numbers.
    Gradients reach the tensor arguments and all leaves that function uses; autograd.grad finds, of
    these, the arguments and the parameters of modules that `function` is, is bound to, closes over
    or names. Both values of use_reentrant do the same.
    """
    if not flambeau.is_grad_enabled():
        return function(*args, **kwargs)
    call = _Call(function, kwargs, preserve_rng_state, context_fn)
    parameters = _parameters_of(function)
    given = {id(a) for a in args}
    parameters = [p for p in parameters if id(p) not in given]
    return _Again.apply(call, len(args), *args, *parameters)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """Runs a Sequential, or a list of modules, in parts, all but the last by checkpoint."""
    is_module = isinstance(functions, flambeau.nn.Module)
    modules = list(functions.children() if is_module else functions)

    size = len(modules) // segments
    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(
            flambeau.nn.Sequential(*modules[start:end]),
            input,
            use_reentrant=use_reentrant,
            **kwargs,
        )
    return flambeau.nn.Sequential(*modules[end:])(input)
