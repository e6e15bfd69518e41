"""Batches of a dataset."""

import itertools

import flambeau
from flambeau.utils.data.collate import default_collate, default_convert
from flambeau.utils.data.dataset import IterableDataset, TensorDataset
from flambeau.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from flambeau.utils.data.workers import WorkerIterator, Workers

# What a loader was made with and its samplers do not look at again.
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader:
    """Iterates over a dataset in batches.

    `batch_size` samples go through `collate_fn`; None for single samples. `shuffle` draws a new
    order each time; `sampler` and `batch_sampler` say the order themselves. The last, smaller batch
    is left out with `drop_last`. Samples are made by the calling process, or by `num_workers`
    processes, each `prefetch_factor` (2) batches ahead; see docs/data.md. `timeout` seconds are
    waited for a batch (0: for ever). Workers start with each pass, or stay with
    `persistent_workers`; `in_order=False` gives batches as they come. Pinned memory is the same as
    other memory here.
    """

    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=None,
        sampler=None,
        batch_sampler=None,
        num_workers=0,
        collate_fn=None,
        pin_memory=False,
        drop_last=False,
        timeout=0,
        worker_init_fn=None,
        multiprocessing_context=None,
        generator=None,
        *,
        prefetch_factor=None,
        persistent_workers=False,
        pin_memory_device="",
        in_order=True,
    ):
        if num_workers < 0:
            raise ValueError(
                "num_workers option should be non-negative; use num_workers=0 to disable "
                "multiprocessing."
            )
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and timeout:
            raise ValueError("timeout option needs num_workers > 0")
        if prefetch_factor is not None and prefetch_factor < 1:
            raise ValueError(f"prefetch_factor must be positive, got {prefetch_factor}")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor option needs num_workers > 0; got num_workers=0")
        if num_workers == 0 and persistent_workers:
            raise ValueError("persistent_workers option needs num_workers > 0")
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = persistent_workers
        self.generator = generator
        self.in_order = in_order
        self.multiprocessing_context = multiprocessing_context
        self._workers = None
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            given = {"sampler": sampler, "batch_sampler": batch_sampler}
            given["shuffle"] = shuffle or None
            for name, value in given.items():
                if value is not None:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but "
                        f"got {name}={value}"
                    )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None and not self._iterable:
            if shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None and not self._iterable:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        grouped = batch_size is not None or batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if grouped else default_convert)
        self._ready = True

    def __setattr__(self, name, value):
        if name in _FIXED and "_ready" in self.__dict__:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    def __iter__(self):
        if self.num_workers:
            return self._iterate_with_workers()
        if self._iterable:
            return self._iterate_stream()
        if self.batch_sampler is None:
            return (self.collate_fn(self.dataset[index]) for index in self.sampler)
        if type(self.dataset) is TensorDataset and self.collate_fn is default_collate:
            return self._iterate_tensors()
        return (self.collate_fn(self._samples(batch)) for batch in self.batch_sampler)

    def _iterate_with_workers(self):
        workers = self._workers
        if workers is None or not self.persistent_workers or not workers.is_alive():
            seed = flambeau.randint(0, 2**62, (), generator=self.generator)
            workers = Workers(self, int(seed))
            if self.persistent_workers:
                self._workers = workers
        if self._iterable:
            requests = itertools.repeat(None)
        else:
            requests = iter(self.sampler if self.batch_sampler is None else self.batch_sampler)
        return WorkerIterator(self, workers, requests)

    def _samples(self, positions):
        if hasattr(self.dataset, "__getitems__"):
            return self.dataset.__getitems__(positions)
        return [self.dataset[position] for position in positions]

    def _iterate_tensors(self):
        """The batches that collating single samples would give, each read at once."""
        for positions in self.batch_sampler:
            chosen = flambeau.tensor(positions)
            yield [tensor[chosen] for tensor in self.dataset.tensors]

    def _iterate_stream(self):
        samples = iter(self.dataset)
        if self.batch_size is None:
            yield from map(self.collate_fn, samples)
            return
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)

    def __len__(self):
        if self._iterable:
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            whole, rest = divmod(count, self.batch_size)
            return whole if self.drop_last or not rest else whole + 1
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)
