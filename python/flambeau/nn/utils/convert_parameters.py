"""Parameters as one vector."""

import flambeau
from flambeau.utils.naming import type_name


def parameters_to_vector(parameters):
    """All elements one after the other: [count]."""
    return flambeau.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    """Gives parameters the elements of a vector."""
    if not isinstance(vec, flambeau.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type_name(vec)}")
    start = 0
    for p in parameters:
        count = p.numel()
        p.data = vec[start : start + count].view(p.shape).data
        start += count
