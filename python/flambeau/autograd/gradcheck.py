"""Derivatives against differences: `gradcheck` and `gradgradcheck`."""

import flambeau
from flambeau._C import Tensor
from flambeau.autograd.grad_mode import enable_grad, grad, no_grad

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A derivative differs from the difference quotient."""


def _outputs(result):
    results = result if isinstance(result, (tuple, list)) else (result,)
    tensors = [r for r in results if isinstance(r, Tensor)]
    return [t for t in tensors if t.is_floating_point() or t.is_complex()]


def _parts(tensor):
    """A real view of all numbers: complex ones are two."""
    flat = tensor.detach().reshape(-1)
    if tensor.is_complex():
        return flambeau.cat([flat.real.clone(), flat.imag.clone()])
    return flat.clone()


def _numeric(func, inputs, index, eps):
    """Central differences of every output by every number of one input: [numbers, outputs]."""
    x = inputs[index]
    count = x.numel()
    rows = []
    for part in (1.0, 1j) if x.is_complex() else (1.0,):
        for i in range(count):
            values = []
            for sign in (1, -1):
                moved = x.detach().clone()
                flat = moved.view(-1)
                flat[i] = flat[i] + sign * eps * part
                args = list(inputs)
                args[index] = moved
                with no_grad():
                    values.append([_parts(o) for o in _outputs(func(*args))])
            rows.append([(a - b) / (2 * eps) for a, b in zip(*values)])
    return rows


def _analytic(func, inputs, index):
    """The same from backward passes, one for each number of each output."""
    x = inputs[index]
    with enable_grad():
        outputs = _outputs(func(*inputs))
    rows = 2 * x.numel() if x.is_complex() else x.numel()
    result = [[None] * rows for _ in outputs]
    for k, output in enumerate(outputs):
        parts = (1.0, 1j) if output.is_complex() else (1.0,)
        columns = []
        for part in parts:
            for j in range(output.numel()):
                seed = flambeau.zeros_like(output.detach())
                seed.view(-1)[j] = part
                if output.requires_grad:
                    (g,) = grad(output, [x], seed, retain_graph=True, allow_unused=True)
                else:
                    g = None
                columns.append(_parts(flambeau.zeros_like(x.detach()) if g is None else g))
        result[k] = columns
    return outputs, result


def gradcheck(
    func,
    inputs,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_batched_forward_grad=False,
    check_forward_ad=False,
    check_backward_ad=True,
    fast_mode=False,
    masked=None,
):
    """Compares the gradients of func(*inputs) with central differences; True when they agree.

    Inputs that require a gradient should be float64 or complex128. For complex numbers the
    cotangent is the field's, dL/dRe + i dL/dIm. A difference beyond atol + rtol * |numeric| is a
    GradcheckError, or False without raise_exception.
    """
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    wanted = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them "
            "have requires_grad=True."
        )
    for index in wanted:
        numeric = _numeric(func, inputs, index, eps)
        outputs, analytic = _analytic(func, inputs, index)
        for k, _ in enumerate(outputs):
            for j, column in enumerate(analytic[k]):
                expected = flambeau.stack([row[k][j] for row in numeric]) if numeric else column
                gap = (column - expected).abs()
                bad = ~(gap <= atol + rtol * expected.abs())
                if bool(bad.any()):
                    if not raise_exception:
                        return False
                    raise GradcheckError(
                        f"Jacobian mismatch for output {k} with respect to input {index},\n"
                        f"numerical:{expected.tolist()}\nanalytical:{column.tolist()}"
                    )
    return True


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    gen_non_contig_grad_outputs=False,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_fwd_over_rev=False,
    check_rev_over_rev=True,
    fast_mode=False,
    masked=False,
):
    """gradcheck of the gradients of func, as functions of the inputs and of the cotangents."""
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if grad_outputs is None:
        with no_grad():
            outputs = _outputs(func(*inputs))
        # Cotangents of moderate size that differ from each other.
        grad_outputs = [
            (flambeau.arange(o.numel(), dtype=flambeau.float64) * 0.61 + 0.3)
            .cos()
            .reshape(o.shape)
            .to(o.dtype)
            .requires_grad_()
            for o in outputs
        ]
    elif isinstance(grad_outputs, Tensor):
        grad_outputs = [grad_outputs]
    count = len(grad_outputs)
    wanted = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]

    def gradients(*args):
        cotangents, given = args[:count], list(args[count:])
        with enable_grad():
            for i in wanted:
                if not given[i].requires_grad:
                    given[i] = given[i].detach().requires_grad_()
            outputs = _outputs(func(*given))
            found = grad(
                outputs,
                [given[i] for i in wanted],
                list(cotangents),
                create_graph=True,
                allow_unused=True,
            )
        return tuple(
            flambeau.zeros_like(given[i]) if g is None else g for i, g in zip(wanted, found)
        )

    return gradcheck(
        gradients,
        (*grad_outputs, *inputs),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
    )
