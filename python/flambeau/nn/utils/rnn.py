"""Sequences of different lengths: padded, and packed step by step."""

from typing import NamedTuple

import flambeau

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpad_sequence",
    "unpack_sequence",
]


class PackedSequence(NamedTuple):
    """Sequences in descending order of length, step by step.

    data [sum of lengths, ...]: the first elements of all sequences, then the second ones, ...;
    batch_sizes [steps], int64: how many sequences each step has; sorted_indices: where the
    sequences stood, unsorted_indices: where they go back to, or None where they came sorted.
    """

    data: object
    batch_sizes: object
    sorted_indices: object = None
    unsorted_indices: object = None

    def to(self, *args, **kwargs):
        """The same with converted data."""
        return self._replace(data=self.data.to(*args, **kwargs))


def invert_permutation(permutation):
    """The permutation [n] that undoes another, or None for None."""
    if permutation is None:
        return None
    result = flambeau.empty_like(permutation)
    return result.scatter_(0, permutation, flambeau.arange(len(permutation)))


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs padded sequences [steps, n, ...], or [n, steps, ...] with batch_first.

    lengths: n integers, descending with enforce_sorted. Errors: RuntimeError for lengths that are
    not, for a length below 1 or above the steps, and for a wrong number of lengths.
    """
    lengths = flambeau.as_tensor(lengths, dtype=flambeau.int64)
    order = None
    if not enforce_sorted:
        order = flambeau.argsort(lengths, descending=True, stable=True)
        lengths = lengths[order]
        input = input.index_select(0 if batch_first else 1, order)
    x = input.transpose(0, 1) if batch_first else input
    counts = lengths.tolist()
    if len(counts) != x.shape[1]:
        raise RuntimeError(
            f"pack_padded_sequence: expected {x.shape[1]} lengths, one for each sequence, "
            f"got {len(counts)}"
        )
    if any(a < b for a, b in zip(counts, counts[1:])):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to pack_padded_sequence."
        )
    if counts and (counts[-1] < 1 or counts[0] > x.shape[0]):
        raise RuntimeError(
            f"pack_padded_sequence: lengths must be from 1 to {x.shape[0]}, got {counts}"
        )
    sizes = [sum(n > step for n in counts) for step in range(counts[0] if counts else 0)]
    data = flambeau.cat([x[step, :size] for step, size in enumerate(sizes)])
    return PackedSequence(data, flambeau.tensor(sizes), order, invert_permutation(order))


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """Undoes pack_padded_sequence: padded sequences and their lengths [n], int64."""
    sizes = sequence.batch_sizes.tolist()
    steps = total_length if total_length is not None else len(sizes)
    if steps < len(sizes):
        raise ValueError(
            f"Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={total_length} and max sequence length being {len(sizes)}"
        )
    count = sizes[0] if sizes else 0
    rest = sequence.data.shape[1:]
    parts = []
    for step, values in enumerate(sequence.data.split(sizes)):
        if sizes[step] < count:
            missing = values.new_full((count - sizes[step], *rest), padding_value)
            values = flambeau.cat([values, missing])
        parts.append(values)
    if steps > len(sizes):
        blank = sequence.data.new_full((count, *rest), padding_value)
        parts += [blank] * (steps - len(sizes))
    padded = flambeau.stack(parts, 1 if batch_first else 0)
    lengths = flambeau.tensor([sum(size > i for size in sizes) for i in range(count)])
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices]
    return padded, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Sequences [length, ...] in one tensor [longest, n, ...], or [n, longest, ...]."""
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side must be 'left' or 'right', got {padding_side!r}")
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    longest = max(s.shape[0] for s in sequences)
    padded = []
    for s in sequences:
        missing = s.new_full((longest - s.shape[0], *s.shape[1:]), padding_value)
        padded.append(flambeau.cat([s, missing] if padding_side == "right" else [missing, s]))
    return flambeau.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The sequences of pad_sequence, as a list."""
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:length] for row, length in zip(x, flambeau.as_tensor(lengths).tolist())]


def pack_sequence(sequences, enforce_sorted=True):
    """pack_padded_sequence of a list of sequences [length, ...]."""
    lengths = [s.shape[0] for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The sequences of pack_sequence, as a list."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
