"""Samplers: in which order samples are taken, and how they are grouped."""

import bisect
import itertools
import math

import flambeau


def _check_count(num_samples):
    if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
        raise ValueError(
            f"num_samples should be a positive integer value, but got num_samples={num_samples}"
        )


def _check_replacement(replacement):
    if not isinstance(replacement, bool):
        raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")


class Sampler:
    """Yields positions, or lists of them."""

    def __class_getitem__(cls, _):
        return cls

    def __iter__(self):
        raise NotImplementedError


class SequentialSampler(Sampler):
    """0, 1, 2, ..."""

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(Sampler):
    """Positions in random order, or drawn anew each time with `replacement`."""

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        _check_replacement(replacement)
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        _check_count(self.num_samples)

    @property
    def num_samples(self):
        """How many positions one pass yields."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        count = len(self.data_source)
        if self.replacement:
            drawn = flambeau.randint(count, (self.num_samples,), generator=self.generator)
            return iter(drawn.tolist())
        orders = (
            flambeau.randperm(count, generator=self.generator).tolist() for _ in itertools.count()
        )
        return itertools.islice(itertools.chain.from_iterable(orders), self.num_samples)

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Some positions in random order."""

    def __init__(self, indices, generator=None):
        self.indices = indices
        self.generator = generator

    def __iter__(self):
        order = flambeau.randperm(len(self.indices), generator=self.generator).tolist()
        return (self.indices[i] for i in order)

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Positions drawn with probabilities in proportion to `weights`, each at most once without
    `replacement`.

    Without replacement: Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006.
    """

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        _check_count(num_samples)
        _check_replacement(replacement)
        weights = flambeau.as_tensor(weights, dtype=flambeau.float64)
        if weights.ndim != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(weights.shape)}"
            )
        self.weights = weights.tolist()
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator
        possible = sum(weight > 0 for weight in self.weights)
        if possible == 0 or not replacement and num_samples > possible:
            raise ValueError(
                f"WeightedRandomSampler: num_samples={num_samples} with replacement={replacement} "
                f"needs more positive weights than {possible}"
            )

    def _uniform(self, count):
        drawn = flambeau.rand(count, dtype=flambeau.float64, generator=self.generator)
        return drawn.tolist()

    def __iter__(self):
        if not self.replacement:
            # The earliest of exponential waiting times, one for each position.
            times = [
                (-math.log1p(-u) / weight, position)
                for position, (u, weight) in enumerate(
                    zip(self._uniform(len(self.weights)), self.weights)
                )
                if weight > 0
            ]
            return iter([position for _, position in sorted(times)[: self.num_samples]])
        ends = list(itertools.accumulate(self.weights))
        last = max(position for position, weight in enumerate(self.weights) if weight > 0)
        return iter(
            [
                min(bisect.bisect_right(ends, u * ends[-1]), last)
                for u in self._uniform(self.num_samples)
            ]
        )

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` positions of another sampler."""

    def __init__(self, sampler, batch_size, drop_last):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self):
        positions = iter(self.sampler)
        while batch := list(itertools.islice(positions, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self):
        count = len(self.sampler)
        whole = count // self.batch_size
        return whole if self.drop_last or count % self.batch_size == 0 else whole + 1
