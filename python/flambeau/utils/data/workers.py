"""Worker processes of a loader: what they run, and the caller's side.

A worker has a pipe of its own to the caller: numbered requests for batches go in, numbered batches
come out. Workers end when they are told to, and when the caller's process is gone.
"""

import collections
import gc
import itertools
import multiprocessing
import multiprocessing.connection
import os
import random
import signal
import sys
import time
import traceback
import weakref

import flambeau
from flambeau.utils.data.dataset import IterableDataset
from flambeau.utils.data.transfer import Sender, remove_files, unpack

# Seconds between looks whether the caller's process lives.
_WATCH = 2.0
_JOIN = 5.0

_worker_info = None


class WorkerInfo:
    """What a worker process knows: id, num_workers, seed, dataset."""

    def __init__(self, id, num_workers, seed, dataset):
        self.id = id
        self.num_workers = num_workers
        self.seed = seed
        self.dataset = dataset

    def __repr__(self):
        return f"WorkerInfo(id={self.id}, num_workers={self.num_workers}, seed={self.seed})"


def get_worker_info():
    """In a worker process its WorkerInfo, else None."""
    return _worker_info


class _Failure:
    """An exception on its way to the caller."""

    def __init__(self, error, where):
        self.type = type(error)
        self.args = error.args
        self.text = f"Caught {self.type.__name__} {where}.\nOriginal {traceback.format_exc()}"

    def reraise(self):
        if self.type is KeyError:
            raise KeyError(_Lines(self.text))
        try:
            error = self.type(self.text)
        except Exception:
            error = None
        raise RuntimeError(self.text) if error is None else error


class _Lines(str):
    """A text that a KeyError shows with its lines."""

    def __repr__(self):
        return str(self)


def _seed_all(seed):
    flambeau.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def _work(number, pipe, plan, prefix, parent):
    """The worker's process: answers requests until it is told to end."""
    global _worker_info
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller decides when to end
    flambeau.set_num_threads(1)
    seed = plan.base_seed + number
    _seed_all(seed)
    _worker_info = WorkerInfo(number, plan.count, seed, plan.dataset)
    sender = Sender(prefix)
    failure = None
    try:
        if plan.init_fn is not None:
            plan.init_fn(number)
    except Exception as error:
        failure = _Failure(error, f"in DataLoader worker process {number}")
    stream = None
    while True:
        while not pipe.poll(_WATCH):
            if os.getppid() != parent:
                return
        try:
            request = pipe.recv()
        except EOFError:
            return
        if request is None:
            return
        if request == "again":
            stream = None
            continue
        task, positions = request
        try:
            if failure is not None:
                answer = failure
            elif isinstance(plan.dataset, IterableDataset):
                if stream is None:
                    stream = iter(plan.dataset)
                answer = _next_of(stream, plan)
            else:
                answer = plan.fetch(positions)
            message = (
                ("end", None)
                if answer is _END
                else ("failure", answer)
                if isinstance(answer, _Failure)
                else ("batch", sender.pack(answer))
            )
        except Exception as error:
            message = ("failure", _Failure(error, f"in DataLoader worker process {number}"))
        try:
            pipe.send((task, *message))
        except BrokenPipeError:
            return
        except Exception as error:  # the exception itself cannot be sent
            failed = RuntimeError(f"an exception that cannot be sent: {error}")
            pipe.send((task, "failure", _Failure(failed, f"in DataLoader worker process {number}")))


_END = object()


def _next_of(stream, plan):
    if plan.batch_size is None:
        sample = next(stream, _END)
        return sample if sample is _END else plan.collate(sample)
    samples = list(itertools.islice(stream, plan.batch_size))
    if not samples or (plan.drop_last and len(samples) < plan.batch_size):
        return _END
    return plan.collate(samples)


class Plan:
    """What workers are made with."""

    def __init__(self, loader, base_seed):
        self.dataset = loader.dataset
        self.collate = loader.collate_fn
        self.batch_size = loader.batch_size
        self.drop_last = loader.drop_last
        self.count = loader.num_workers
        self.init_fn = loader.worker_init_fn
        self.base_seed = base_seed
        self.grouped = loader.batch_sampler is not None

    def fetch(self, positions):
        """A batch of a dataset with positions."""
        if not self.grouped:
            return self.collate(self.dataset[positions])
        if hasattr(self.dataset, "__getitems__"):
            return self.collate(self.dataset.__getitems__(positions))
        return self.collate([self.dataset[position] for position in positions])


_tokens = itertools.count()


class Workers:
    """The processes, as the caller has them."""

    def __init__(self, loader, base_seed):
        self.count = loader.num_workers
        context = loader.multiprocessing_context or multiprocessing
        if isinstance(context, str):
            context = multiprocessing.get_context(context)
        self.prefix = f"flambeau_{os.getpid()}_{next(_tokens)}_"
        plan = Plan(loader, base_seed)
        self.processes, self.pipes = [], []
        # What lives now is not looked at by collections in the workers, whose marks would copy it.
        gc.freeze()
        try:
            for number in range(self.count):
                here, there = context.Pipe()
                process = context.Process(
                    target=_work,
                    args=(number, there, plan, f"{self.prefix}{number}_", os.getpid()),
                    daemon=True,
                )
                process.start()
                there.close()
                self.processes.append(process)
                self.pipes.append(here)
        finally:
            gc.unfreeze()
        self._end = weakref.finalize(self, _end, self.processes, self.pipes, self.prefix)

    def is_alive(self):
        """Whether all of them can take requests."""
        return self._end.alive and all(process.is_alive() for process in self.processes)

    def shut_down(self):
        """Ends all workers."""
        self._end()


def _end(processes, pipes, prefix):
    for pipe in pipes:
        try:
            pipe.send(None)
        except OSError:
            pass
    deadline = time.monotonic() + _JOIN
    for process, pipe in zip(processes, pipes):
        # A worker may wait until its answer is read.
        while process.is_alive() and time.monotonic() < deadline:
            try:
                if pipe.poll(0.01):
                    pipe.recv()
            except (EOFError, OSError):
                break
            process.join(0)
        process.join(max(deadline - time.monotonic(), 0))
        if process.is_alive():
            process.kill()
            process.join()
        pipe.close()
    remove_files(prefix)


class WorkerIterator:
    """One pass over the data. Requests are given to the workers in turn, some ahead."""

    def __init__(self, loader, workers, requests):
        self.workers = workers
        self.requests = requests  # positions of batches; for a stream: None, without end
        self.in_order = loader.in_order
        self.timeout = loader.timeout
        self.keeps = loader.persistent_workers
        self.sent = itertools.count()
        self.next_task = 0
        self.ready = {}  # answers by task that came before their turn
        self.owner = {}  # tasks that were given and not answered: the worker's number
        self.active = collections.deque(range(workers.count))  # streams that have not ended
        for _ in range(loader.prefetch_factor or 2):
            for number in range(workers.count):
                self._request(number)

    def __iter__(self):
        return self

    def _request(self, number):
        try:
            positions = next(self.requests)
        except StopIteration:
            return
        task = next(self.sent)
        self.owner[task] = number
        try:
            self.workers.pipes[number].send((task, positions))
        except OSError:
            self._died(number)

    def _died(self, number):
        process = self.workers.processes[number]
        process.join(1)
        code = process.exitcode
        pid = process.pid
        self._close()
        signalled = code is not None and code < 0
        cause = f"by signal: {signal.Signals(-code).name}" if signalled else f"with {code}"
        raise RuntimeError(
            f"DataLoader worker (pid {pid}) is killed or exited unexpectedly {cause}"
        )

    def _close(self):
        self.requests = iter(())
        self.owner.clear()
        self.ready.clear()
        self.workers.shut_down()

    def _receive(self):
        """Waits for an answer and puts it into `ready`."""
        pipes, processes = self.workers.pipes, self.workers.processes
        sources = {pipes[n]: n for n in set(self.owner.values())}
        sentinels = {processes[n].sentinel: n for n in sources.values()}
        timeout = self.timeout or None
        found = multiprocessing.connection.wait([*sources, *sentinels], timeout)
        if not found:
            self._close()
            raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")
        read = False
        for source in found:
            if source not in sources:
                continue
            number = sources[source]
            try:
                task, kind, content = source.recv()
            except (EOFError, OSError):
                self._died(number)
            read = True
            if kind == "batch":
                content = unpack(content)
            self.ready[task] = (kind, content, self.owner.pop(task))
        if not read:
            self._died(sentinels[found[0]])

    def __next__(self):
        try:
            while True:
                task = self._turn()
                if task is None:
                    if not self.owner:
                        self._finish()
                        raise StopIteration
                    self._receive()
                    continue
                kind, content, number = self.ready.pop(task)
                if kind == "end":
                    if number in self.active:
                        self.active.remove(number)
                    continue
                if number in self.active:
                    self._request(number)
                if kind == "failure":
                    self._close()
                    content.reraise()
                return content
        except KeyboardInterrupt:
            self._close()
            raise

    def _turn(self):
        if not self.in_order:
            return next(iter(self.ready), None)
        while self.next_task not in self.owner and self.next_task not in self.ready:
            if not self.owner and not self.ready:
                return None
            self.next_task += 1
        if self.next_task in self.ready:
            self.next_task += 1
            return self.next_task - 1
        return None

    def _finish(self):
        if self.keeps:
            for pipe in self.workers.pipes:
                pipe.send("again")
        else:
            self.workers.shut_down()
