"""Datasets, samplers, collating and the loader."""

import collections

import numpy as np
import pytest

import flambeau as torch
from flambeau.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)

Pair = collections.namedtuple("Pair", "a b")


class Words(Dataset):
    def __init__(self, count=5):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return {"length": index, "word": "x" * index}


class Stream(IterableDataset):
    def __init__(self, count=5):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))

    def __len__(self):
        return self.count


def pairs(count=5):
    return TensorDataset(torch.arange(2 * count).reshape(count, 2), torch.arange(count))


@pytest.mark.parametrize(
    "batch, dtype, values",
    [
        ([1, 2], torch.int64, [1, 2]),
        ([1.0, 2.0], torch.float64, [1, 2]),
        ([True, False], torch.bool, [True, False]),
        ([torch.ones(2), torch.zeros(2)], torch.float32, [[1, 1], [0, 0]]),
        ([np.ones(1, np.float32), np.zeros(1, np.float32)], torch.float32, [[1], [0]]),
        ([np.int32(1), np.int32(2)], torch.int32, [1, 2]),
        ([np.array(1.5), np.array(2.0)], torch.float64, [1.5, 2]),
    ],
)
def test_collate_makes_tensors(batch, dtype, values):
    result = default_collate(batch)
    assert result.dtype is dtype and result.tolist() == values


def test_collate_goes_into_structures():
    assert default_collate(["a", "b"]) == ["a", "b"]
    result = default_collate([(1, {"k": 2.0}), (3, {"k": 4.0})])
    assert isinstance(result, list) and result[0].tolist() == [1, 3]
    assert result[1]["k"].tolist() == [2, 4]
    result = default_collate([Pair(1, "x"), Pair(2, "y")])
    assert isinstance(result, Pair) and result.a.tolist() == [1, 2] and result.b == ("x", "y")
    with pytest.raises(RuntimeError, match="should be of equal size"):
        default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="found NoneType"):
        default_collate([None])
    with pytest.raises(TypeError, match="found <U1"):
        default_collate([np.array(["a"])])


def test_convert():
    result = default_convert([(1, np.ones(2)), {"k": np.float32(2)}, "text", None])
    assert result[0][0] == 1 and result[0][1].dtype is torch.float64
    assert result[1]["k"].item() == 2 and result[2:] == ["text", None]


def test_datasets():
    joined = pairs() + pairs(3)
    assert len(joined) == 8 and joined[5][1].item() == 0 and joined[-1][1].item() == 2
    assert joined.cumulative_sizes == [5, 8]
    part = Subset(pairs(), [3, 4])
    assert len(part) == 2 and part[1][0].tolist() == [8, 9]
    stack = StackDataset(pairs(), Words())
    assert len(stack) == 5 and stack[2][1] == {"length": 2, "word": "xx"}
    assert set(StackDataset(a=pairs(), b=Words())[0]) == {"a", "b"}
    chain = Stream(2) + Stream(3)
    assert isinstance(chain, ChainDataset) and list(chain) == [0, 1, 0, 1, 2] and len(chain) == 5
    assert get_worker_info() is None
    for make, error, text in (
        (lambda: TensorDataset(torch.ones(2), torch.ones(3)), AssertionError, "Size mismatch"),
        (lambda: StackDataset(Words(2), Words(3)), ValueError, "Size mismatch"),
        (lambda: ConcatDataset([]), AssertionError, "empty iterable"),
        (lambda: joined[8], IndexError, "index 8 is out of range for 8 samples"),
    ):
        with pytest.raises(error, match=text):
            make()


def test_random_split():
    parts = random_split(pairs(10), [0.33, 0.33, 0.34])
    assert [len(part) for part in parts] == [4, 3, 3]
    assert sorted(i for part in parts for i in part.indices) == list(range(10))
    generator = torch.Generator()
    first, second = (
        random_split(range(20), [5, 15], generator=generator.manual_seed(3)) for _ in range(2)
    )
    assert first[0].indices == second[0].indices
    with pytest.raises(ValueError, match="Sum of input lengths"):
        random_split(range(5), [1, 2])


def test_samplers():
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    assert sorted(RandomSampler(range(6))) == list(range(6))
    long = list(RandomSampler(range(6), num_samples=14))
    assert len(long) == 14 and sorted(long[:6]) == sorted(long[6:12]) == list(range(6))
    drawn = list(RandomSampler(range(3), replacement=True, num_samples=50))
    assert len(drawn) == 50 and set(drawn) == {0, 1, 2}
    assert sorted(SubsetRandomSampler([3, 5, 7])) == [3, 5, 7]
    batches = BatchSampler(range(5), 2, False)
    assert list(batches) == [[0, 1], [2, 3], [4]] and len(batches) == 3
    assert len(BatchSampler(range(5), 2, True)) == 2
    with pytest.raises(ValueError, match="positive integer value, but got num_samples=0"):
        RandomSampler([])
    with pytest.raises(ValueError, match="got batch_size=0"):
        BatchSampler([1], 0, False)


def test_weighted_sampling():
    torch.manual_seed(0)
    drawn = list(WeightedRandomSampler([1.0, 0.0, 3.0], 4000))
    assert drawn.count(1) == 0 and drawn.count(2) / 4000 == pytest.approx(0.75, abs=0.03)
    firsts = []
    for _ in range(1000):
        order = list(WeightedRandomSampler([1.0, 0.0, 3.0], 2, replacement=False))
        assert sorted(order) == [0, 2]
        firsts.append(order[0])
    assert firsts.count(2) / 1000 == pytest.approx(0.75, abs=0.05)
    with pytest.raises(ValueError, match="more positive weights than 2"):
        WeightedRandomSampler([1.0, 0.0, 3.0], 3, replacement=False)
    with pytest.raises(ValueError, match=r"1d sequence but given weights have shape \(2, 2\)"):
        WeightedRandomSampler(torch.ones(2, 2), 1)


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({}, [[0], [1], [2], [3], [4]]),
        ({"batch_size": 2}, [[0, 1], [2, 3], [4]]),
        ({"batch_size": 2, "drop_last": True}, [[0, 1], [2, 3]]),
        ({"batch_size": 3, "sampler": [4, 2, 0, 1]}, [[4, 2, 0], [1]]),
        ({"batch_sampler": [[0, 1], [4]]}, [[0, 1], [4]]),
        ({"batch_size": None}, [0, 1, 2, 3, 4]),
    ],
)
def test_loader(settings, expected):
    """Tensors are read a batch at once: what comes must be what single samples would give."""
    loader = DataLoader(pairs(), **settings)
    found = list(loader)
    assert len(loader) == len(expected) and [y.tolist() for _, y in found] == expected
    assert all(isinstance(batch, list) for batch in found)
    slow = DataLoader(Subset(pairs(), range(5)), **settings)
    assert [x.tolist() for x, _ in slow] == [x.tolist() for x, _ in found]


def test_loader_of_other_datasets():
    batches = list(DataLoader(Words(), 2))
    assert batches[1]["length"].tolist() == [2, 3] and batches[1]["word"] == ["xx", "xxx"]
    assert [b.tolist() for b in DataLoader([1, 2, 3], 2)] == [[1, 2], [3]]
    assert list(DataLoader(Words(), 2, collate_fn=len)) == [2, 2, 1]
    assert [b.tolist() for b in DataLoader(Stream(), 2)] == [[0, 1], [2, 3], [4]]
    assert len(DataLoader(Stream(), 2, drop_last=True)) == 2
    assert list(DataLoader(Stream(), None)) == [0, 1, 2, 3, 4]


def test_shuffling():
    def order(loader):
        return [i for batch in loader for i in batch.tolist()]

    torch.manual_seed(0)
    loader = DataLoader(list(range(99)), 30, shuffle=True)
    first, second = order(loader), order(loader)
    assert first != second and sorted(first) == sorted(second) == list(range(99))
    torch.manual_seed(0)
    assert order(loader) == first
    again = [
        order(DataLoader(list(range(9)), shuffle=True, generator=torch.Generator().manual_seed(3)))
        for _ in range(2)
    ]
    assert again[0] == again[1]


@pytest.mark.parametrize(
    "settings, error, text",
    [
        ({"num_workers": -1}, ValueError, "should be non-negative"),
        ({"batch_size": 0}, ValueError, "got batch_size=0"),
        ({"sampler": [0], "shuffle": True}, ValueError, "mutually exclusive with shuffle"),
        ({"batch_sampler": [[0]], "batch_size": 2}, ValueError, "mutually exclusive with batch_s"),
        ({"batch_size": None, "drop_last": True}, ValueError, "batch_size=None"),
        ({"persistent_workers": True}, ValueError, "needs num_workers > 0"),
        ({"prefetch_factor": 2}, ValueError, "needs num_workers > 0"),
    ],
)
def test_loader_errors(settings, error, text):
    with pytest.raises(error, match=text):
        DataLoader(pairs(), **settings)


def test_loader_is_fixed_once_made():
    with pytest.raises(ValueError, match="expected unspecified shuffle option"):
        DataLoader(Stream(), shuffle=True)
    loader = DataLoader(pairs())
    with pytest.raises(ValueError, match="batch_size attribute should not be set"):
        loader.batch_size = 2
