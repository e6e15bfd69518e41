"""From a list of samples to a batch."""

import collections.abc

import flambeau
from flambeau._C import Tensor
from flambeau.utils.naming import type_name


def default_collate(batch):
    """Stacks tensors and arrays, makes tensors of numbers, and goes into tuples, lists and
    dictionaries; texts stay a list. Samples must be of one structure."""
    first = batch[0]
    if isinstance(first, Tensor):
        return flambeau.stack(list(batch), 0)
    if type(first).__module__ == "numpy":
        return _collate_numpy(batch, first)
    if isinstance(first, float):
        return flambeau.tensor(batch, dtype=flambeau.float64)
    if isinstance(first, int):
        return flambeau.tensor(batch)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, collections.abc.Mapping):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, collections.abc.Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [default_collate(part) for part in zip(*batch)]
        if hasattr(first, "_fields"):
            return type(first)(*parts)
        # A tuple's parts come as a list, as PyTorch's do.
        return parts
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {type_name(first)}"
    )


def _check_numbers(value):
    if not hasattr(value, "dtype") or value.dtype.kind in "SUO":
        kind = getattr(value, "dtype", None) or type_name(value)
        raise TypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
            f"found {kind}"
        )


def _collate_numpy(batch, first):
    _check_numbers(first)
    if first.shape == ():
        return flambeau.as_tensor(batch)
    return flambeau.stack([flambeau.as_tensor(array) for array in batch], 0)


def default_convert(data):
    """Makes tensors of NumPy's arrays and numbers, also inside of sequences and dictionaries; other
    values stay."""
    if isinstance(data, Tensor | str | bytes):
        return data
    if type(data).__module__ == "numpy":
        numbers = hasattr(data, "dtype") and data.dtype.kind not in "SUO"
        return flambeau.as_tensor(data) if numbers else data
    if isinstance(data, collections.abc.Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, collections.abc.Sequence):
        return [default_convert(value) for value in data]
    return data
