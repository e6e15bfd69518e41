"""DataLoader with worker processes."""

import glob
import os
import random
import signal
import subprocess
import sys
import time

import pytest

import flambeau as torch
from flambeau.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Squares(Dataset):
    def __init__(self, count, size=1):
        self.count = count
        self.size = size

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return torch.full((self.size,), float(i)), i * i


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        yield from range(info.id, 10, info.num_workers)


def files():
    return glob.glob(f"/dev/shm/flambeau_{os.getpid()}_*")


@pytest.mark.parametrize("size", [1, 20000])
@pytest.mark.parametrize("context", [None, "spawn"])
def test_same_batches_as_without_workers(size, context):
    alone = list(DataLoader(Squares(11, size), batch_size=2))
    loader = DataLoader(
        Squares(11, size), batch_size=2, num_workers=2, multiprocessing_context=context
    )
    for _ in range(2 if context is None else 1):
        together = list(loader)
        assert len(together) == len(alone)
        for (x, y), (v, w) in zip(together, alone):
            assert (x == v).all() and (y == w).all() and x.dtype == v.dtype
    assert not files()


def test_memory_lives_as_long_as_the_tensors():
    batches = [x for x, _ in DataLoader(Squares(8, 20000), batch_size=2, num_workers=2)]
    assert [int(x[0, 0]) for x in batches] == [0, 2, 4, 6]
    batches[0].add_(1)
    assert float(batches[0].sum()) == 60000.0


def test_shuffle_is_seeded_alike():
    def order(workers):
        torch.manual_seed(3)
        loader = DataLoader(Squares(20), batch_size=4, shuffle=True, num_workers=workers)
        return [y.tolist() for _, y in loader]

    assert order(2) == order(2) and sorted(sum(order(2), [])) == [i * i for i in range(20)]


class Draws(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return float(torch.rand(())), random.random(), get_worker_info().id


def test_workers_have_seeds_of_their_own():
    def draw():
        torch.manual_seed(5)
        return [[t.tolist() for t in batch] for batch in DataLoader(Draws(), num_workers=2)]

    first = draw()
    assert first == draw()
    assert [row[2] for row in first] == [[0], [1], [0], [1]]
    assert len({row[0][0] for row in first}) == 4 and len({row[1][0] for row in first}) == 4


def test_stream_and_persistent_workers():
    loader = DataLoader(Stream(), batch_size=2, num_workers=2, persistent_workers=True)
    for _ in range(2):
        values = sorted(sum((b.tolist() for b in loader), []))
        assert values == list(range(10))
    processes = loader._workers.processes
    pids = [p.pid for p in processes]
    list(loader)
    assert [p.pid for p in loader._workers.processes] == pids
    del loader
    assert not any(p.is_alive() for p in processes)


class Fails(Squares):
    def __getitem__(self, i):
        if i == 5:
            raise ValueError("number five")
        return super().__getitem__(i)


def test_an_exception_has_the_worker_s_traceback():
    loader = DataLoader(Fails(10), batch_size=2, num_workers=2)
    with pytest.raises(ValueError, match="number five") as info:
        list(loader)
    assert "worker process 0" in str(info.value) and "in __getitem__" in str(info.value)


class Killed(Squares):
    def __getitem__(self, i):
        if i == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(i)


def test_a_killed_worker_is_an_error_within_a_second():
    loader = DataLoader(Killed(10), batch_size=2, num_workers=2)
    start = time.perf_counter()
    with pytest.raises(RuntimeError, match="SIGKILL"):
        list(loader)
    assert time.perf_counter() - start < 5  # starting the workers included
    assert not files()


class Sleeps(Squares):
    def __getitem__(self, i):
        time.sleep(30)


def test_timeout():
    with pytest.raises(RuntimeError, match="timed out after 0.2 seconds"):
        list(DataLoader(Sleeps(2), num_workers=1, timeout=0.2))


def test_a_full_dev_shm_names_the_limit(monkeypatch):
    from flambeau.utils.data import transfer

    def full(descriptor, offset, size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(transfer.os, "posix_fallocate", full)
    with pytest.raises(RuntimeError, match="limit is [0-9]+ bytes"):
        list(DataLoader(Squares(4, 20000), num_workers=1))
    assert not files()


def test_init_function_and_collate():
    seen = []

    def start(number):
        seen.append(number)

    def collate(samples):
        return [y for _, y in samples], list(seen)

    batches = list(
        DataLoader(
            Squares(4), batch_size=2, num_workers=2, worker_init_fn=start, collate_fn=collate
        )
    )
    assert batches == [([0, 1], [0]), ([4, 9], [1])]


def test_leaving_early_leaves_nothing():
    iterator = iter(DataLoader(Squares(100, 20000), batch_size=2, num_workers=2))
    next(iterator)
    processes = iterator.workers.processes
    del iterator
    assert not any(p.is_alive() for p in processes) and not files()


PROGRAM = """
import flambeau as torch, time, sys
from flambeau.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self): return 1000
    def __getitem__(self, i):
        time.sleep(0.01)
        return torch.full((20000,), float(i))
for x in DataLoader(Slow(), num_workers=2, batch_size=2):
    print(x[0, 0].item(), flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_end_of_the_program_ends_the_workers(number):
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    program.stdout.readline()
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(program.pid)], capture_output=True, text=True
    ).stdout.split()
    assert len(children) == 2
    program.send_signal(number)
    program.communicate(timeout=20)
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)
