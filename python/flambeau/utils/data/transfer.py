"""Batches from a worker process to the loader: tensors go through memory, not through a pipe.

The tensors of a batch lie one after the other in one file of /dev/shm, whose name goes through the
pipe. The receiver maps the file and removes its name at once; the memory is freed when the last of
the tensors is.
"""

import glob
import io
import itertools
import mmap
import os
import pickle

import flambeau
from flambeau._C import Tensor

_FOLDER = "/dev/shm"
_ALIGNMENT = 64
# Below that a pipe is faster than a file.
_SMALL = 32768


def _rebuilt(memory, offset, dtype, shape):
    count = 1
    for n in shape:
        count *= n
    if not count:
        return flambeau.empty(shape, dtype=dtype)
    flat = flambeau.frombuffer(memory, dtype=dtype, count=count, offset=offset)
    return flat.view(shape)


class _Pickler(pickle.Pickler):
    def __init__(self, file):
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors = []
        self.size = 0

    def persistent_id(self, obj):
        if type(obj) is not Tensor:
            return None
        flat = obj.detach().contiguous()
        offset = -(-self.size // _ALIGNMENT) * _ALIGNMENT
        self.size = offset + flat.nbytes
        self.tensors.append((offset, flat))
        return offset, obj.dtype, tuple(obj.shape)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, memory):
        super().__init__(file)
        self.memory = memory

    def persistent_load(self, pid):
        return _rebuilt(self.memory, *pid)


class Sender:
    """Packs batches in a worker; `prefix` begins the names of its files."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.numbers = itertools.count()

    def pack(self, batch):
        """A message for the pipe: (file name or bytes of the tensors, size, pickle)."""
        text = io.BytesIO()
        pickler = _Pickler(text)
        pickler.dump(batch)
        if pickler.size <= _SMALL:
            memory = bytearray(pickler.size)
            self._fill(memory, pickler.tensors)
            return bytes(memory), pickler.size, text.getvalue()
        name = f"{self.prefix}{next(self.numbers)}"
        path = os.path.join(_FOLDER, name)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            try:
                os.posix_fallocate(descriptor, 0, pickler.size)
            except OSError as error:
                os.unlink(path)
                space = os.statvfs(_FOLDER)
                raise RuntimeError(
                    f"DataLoader worker: a batch of {pickler.size} bytes does not fit into "
                    f"{_FOLDER}: its limit is {space.f_blocks * space.f_frsize} bytes, of which "
                    f"{space.f_bavail * space.f_frsize} are free"
                ) from error
            with mmap.mmap(descriptor, pickler.size) as memory:
                self._fill(memory, pickler.tensors)
        finally:
            os.close(descriptor)
        return name, pickler.size, text.getvalue()

    @staticmethod
    def _fill(memory, tensors):
        for offset, flat in tensors:
            if flat.nbytes:
                target = flambeau.frombuffer(
                    memory, dtype=flambeau.uint8, count=flat.nbytes, offset=offset
                )
                target.copy_(flat.view(-1).view(flambeau.uint8) if flat.dim() else _bytes_of(flat))
                del target


def _bytes_of(scalar):
    return scalar.view(1).view(flambeau.uint8)


def unpack(message):
    """The batch of a message."""
    where, size, text = message
    if isinstance(where, bytes):
        memory = bytearray(where)
    else:
        path = os.path.join(_FOLDER, where)
        descriptor = os.open(path, os.O_RDWR)
        try:
            memory = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
            os.unlink(path)
    return _Unpickler(io.BytesIO(text), memory).load()


def remove_files(prefix):
    """Removes what a worker left: batches that nobody received."""
    for path in glob.glob(os.path.join(_FOLDER, prefix + "*")):
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
