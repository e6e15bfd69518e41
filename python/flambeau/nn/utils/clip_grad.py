"""Limits on gradients."""

import math

import flambeau
from flambeau._C import Tensor


def _gradients(parameters):
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in parameters if p.grad is not None]


def _norm(x, order):
    if order == 2.0:
        return (x * x).sum().sqrt()
    if order == math.inf:
        return x.abs().max()
    if order == -math.inf:
        return x.abs().min()
    if order == 0.0:
        return (x != 0).sum().to(x.dtype)
    return (x.abs() ** order).sum() ** (1 / order)


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors seen as one vector: a 0-d tensor."""
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return flambeau.tensor(0.0)
    with flambeau.no_grad():
        norms = [_norm(tensor, norm_type) for tensor in tensors]
        total = norms[0] if len(norms) == 1 else _norm(flambeau.stack(norms), norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales gradients so that their total norm is at most `max_norm`; returns the norm before."""
    gradients = _gradients(parameters)
    total = get_total_norm(gradients, norm_type, error_if_nonfinite)
    _scale_down(gradients, max_norm, total)
    return total


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scales gradients whose total norm is known so that it is at most `max_norm`."""
    _scale_down(_gradients(parameters), max_norm, total_norm)


def _scale_down(gradients, max_norm, total_norm):
    with flambeau.no_grad():
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Limits each element of the gradients to [-clip_value, clip_value]."""
    with flambeau.no_grad():
        for gradient in _gradients(parameters):
            gradient.clamp_(min=-clip_value, max=clip_value)
