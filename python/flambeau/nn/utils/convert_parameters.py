"""Parameters as one vector."""

import flambeau


def parameters_to_vector(parameters):
    """All elements one after the other: [count]."""
    return flambeau.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    """Gives parameters the elements of a vector."""
    start = 0
    for p in parameters:
        count = p.numel()
        p.data = vec[start : start + count].view(p.shape).data
        start += count
