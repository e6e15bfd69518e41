"""torch.save and torch.load: PyTorch's files, a zip archive of a pickle and of raw storages.

`archive/data.pkl` names each storage by a persistent id ("storage", type, key, "cpu", elements);
its bytes, little-endian, are `archive/data/KEY`. Tensors that share memory share it again after
loading where they are row-major.
"""

import collections
import ctypes
import io
import os
import pickle
import sys
import zipfile

import flambeau
from flambeau.nn.parameter import Parameter

__all__ = ["load", "save"]

_DTYPES = {
    "BoolStorage": flambeau.bool,
    "ByteStorage": flambeau.uint8,
    "CharStorage": flambeau.int8,
    "ShortStorage": flambeau.int16,
    "IntStorage": flambeau.int32,
    "LongStorage": flambeau.int64,
    "HalfStorage": flambeau.float16,
    "BFloat16Storage": flambeau.bfloat16,
    "FloatStorage": flambeau.float32,
    "DoubleStorage": flambeau.float64,
    "ComplexFloatStorage": flambeau.complex64,
    "ComplexDoubleStorage": flambeau.complex128,
}
_STORAGES = {dtype: name for name, dtype in _DTYPES.items()}


class _Global:
    """A name in a module of PyTorch, as the pickle has it."""

    def __init__(self, module, name):
        self.module = module
        self.name = name

    def __call__(self, *args):
        raise TypeError(f"{self.module}.{self.name} is a name in a file")


class _Storage:
    def __init__(self, key, dtype, address):
        self.key = key
        self.dtype = dtype
        self.address = address
        self.elements = 0


_REBUILD_TENSOR = _Global("torch._utils", "_rebuild_tensor_v2")
_REBUILD_PARAMETER = _Global("torch._utils", "_rebuild_parameter")
_SIZE = _Global("torch", "Size")


class _Pickler(pickle._Pickler):
    """Writes tensors by their storages. Runs twice: storages are as long as all their tensors."""

    def __init__(self, file, storages):
        super().__init__(file, protocol=2)
        self.storages = storages

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, _Global):
            self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        elif isinstance(obj, flambeau.dtype):
            self.save(_Global("torch", str(obj).split(".")[-1]))
        else:
            super().save(obj, save_persistent_id)

    def persistent_id(self, obj):
        if not isinstance(obj, _Storage):
            return None
        kind = _Global("torch", _STORAGES[obj.dtype])
        return ("storage", kind, obj.key, "cpu", obj.elements)

    def storage_of(self, tensor):
        dtype = tensor.dtype
        address = tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()
        storage = self.storages.get((address, dtype))
        if storage is None:
            storage = _Storage(str(len(self.storages)), dtype, address)
            self.storages[address, dtype] = storage
        extent = 0
        if tensor.numel():
            reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
            extent = tensor.storage_offset() + reach + 1
        storage.elements = max(storage.elements, extent)
        return storage

    def reducer_override(self, obj):
        if isinstance(obj, Parameter):
            state = (obj.detach(), obj.requires_grad, collections.OrderedDict())
            return _REBUILD_PARAMETER, state
        if isinstance(obj, flambeau.Tensor):
            state = (
                self.storage_of(obj),
                obj.storage_offset(),
                tuple(obj.shape),
                tuple(obj.stride()),
                obj.requires_grad,
                collections.OrderedDict(),
            )
            return _REBUILD_TENSOR, state
        if isinstance(obj, flambeau.Size):
            return _SIZE, (tuple(obj),)
        if isinstance(obj, flambeau.device):
            return _Global("torch", "device"), (str(obj),)
        return NotImplemented


def save(obj, f, pickle_module=None, pickle_protocol=2, _use_new_zipfile_serialization=True):
    """Writes an object with tensors to a file, as PyTorch does.

    `f` is a path or a binary file. Tensors are written by their storages; any other object must be
    picklable. A file of that name is replaced when the new one is complete.
    """
    storages = {}
    # Tensors must stay alive and in place between the two runs: they belong to obj.
    _Pickler(io.BytesIO(), storages).dump(obj)
    data = io.BytesIO()
    _Pickler(data, storages).dump(obj)

    def write(file):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("archive/data.pkl", data.getvalue())
            archive.writestr("archive/byteorder", sys.byteorder)
            for storage in storages.values():
                size = storage.elements * storage.dtype.itemsize
                content = ctypes.string_at(storage.address, size) if size else b""
                archive.writestr(f"archive/data/{storage.key}", content)
            archive.writestr("archive/version", "3\n")

    if not isinstance(f, (str, os.PathLike)):
        write(f)
        return
    part = f"{os.fspath(f)}.part{os.getpid()}"
    try:
        with open(part, "wb") as file:
            write(file)
        os.replace(part, f)
    except BaseException:
        if os.path.exists(part):
            os.remove(part)
        raise


def _rebuild_tensor(storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None):
    size, stride = tuple(size), tuple(stride)
    count = 1
    for n in size:
        count *= n
    numbers = (offset, *size, *stride)
    if len(size) != len(stride) or any(not isinstance(n, int) or n < 0 for n in numbers):
        raise RuntimeError(f"load: a tensor of sizes {size}, strides {stride}, offset {offset}")
    if not count:
        return flambeau.empty(size, dtype=storage.dtype, requires_grad=requires_grad)
    last = offset + sum((n - 1) * s for n, s in zip(size, stride))
    if last >= storage.numel():
        raise RuntimeError(
            f"load: a tensor of sizes {size}, strides {stride}, offset {offset} does not fit into "
            f"its storage of {storage.numel()} elements"
        )
    dense, step = [], 1
    for n in reversed(size):
        dense.insert(0, step)
        step *= n
    if all(n == 1 or s == d for n, s, d in zip(size, stride, dense)):
        tensor = storage[offset : offset + count].view(size)
    else:
        index = flambeau.tensor(offset)
        for d, (n, s) in enumerate(zip(size, stride)):
            shape = [1] * len(size)
            shape[d] = n
            index = index + (flambeau.arange(n) * s).view(shape)
        tensor = storage[index]
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_parameter(data, requires_grad, hooks=None):
    return Parameter(data, requires_grad)


_ALLOWED = {
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch", "Size"): flambeau.Size,
    ("torch", "device"): flambeau.device,
    ("torch", "Tensor"): flambeau.Tensor,
    ("torch.nn.parameter", "Parameter"): Parameter,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "Counter"): collections.Counter,
    ("collections", "defaultdict"): collections.defaultdict,
    ("builtins", "set"): set,
    ("builtins", "complex"): complex,
    ("builtins", "bytearray"): bytearray,
    ("__builtin__", "set"): set,
    ("__builtin__", "complex"): complex,
    ("_codecs", "encode"): lambda text, encoding: text.encode(encoding),
}


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, archive, root, weights_only):
        super().__init__(file)
        self.archive = archive
        self.root = root
        self.weights_only = weights_only
        self.storages = {}

    def find_class(self, module, name):
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        if module in ("torch", "torch.storage") and name in _DTYPES:
            return _DTYPES[name]
        if module == "torch" and isinstance(getattr(flambeau, name, None), flambeau.dtype):
            return getattr(flambeau, name)
        if self.weights_only:
            raise pickle.UnpicklingError(
                f"Weights only load failed. The file names {module}.{name}, which is not a tensor, "
                "a container or a number. Pass weights_only=False only for a file whose source you "
                "trust: loading it can run any code."
            )
        if module == "torch" or module.startswith("torch."):
            module = "flambeau" + module[len("torch") :]
        return super().find_class(module, name)

    def persistent_load(self, pid):
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage":
            raise pickle.UnpicklingError("load: an unknown persistent id")
        _, dtype, key, _, elements = pid
        if key not in self.storages:
            if not isinstance(dtype, flambeau.dtype):
                raise pickle.UnpicklingError(f"load: storage {key} has no dtype")
            content = self.archive.read(f"{self.root}/data/{key}")
            if len(content) < elements * dtype.itemsize:
                raise RuntimeError(
                    f"load: storage {key} has {len(content)} bytes, expected "
                    f"{elements * dtype.itemsize}"
                )
            if content:
                self.storages[key] = flambeau.frombuffer(bytearray(content), dtype=dtype)
            else:
                self.storages[key] = flambeau.empty(0, dtype=dtype)
        return self.storages[key]


def load(f, map_location=None, pickle_module=None, *, weights_only=True, mmap=None, **pickle_args):
    """Reads what `save`, or PyTorch's, wrote.

    With weights_only (the default) only tensors, containers, numbers and texts are read; a file
    that names anything else is an UnpicklingError. Everything is placed on the CPU. Errors:
    RuntimeError for a file that is no such archive or is damaged.
    """
    if map_location is not None and not callable(map_location):
        locations = map_location.values() if isinstance(map_location, dict) else [map_location]
        for location in locations:
            flambeau.empty(0, device=location)
    try:
        with zipfile.ZipFile(f) as archive:
            names = [n for n in archive.namelist() if n.endswith("/data.pkl")]
            if len(names) != 1:
                raise RuntimeError("load: the archive has no data.pkl: not a file of torch.save")
            root = names[0][: -len("/data.pkl")]
            if f"{root}/byteorder" in archive.namelist():
                order = archive.read(f"{root}/byteorder").decode(errors="replace")
                if order != sys.byteorder:
                    raise RuntimeError(f"load: the file's byte order is {order}")
            with archive.open(names[0]) as data:
                return _Unpickler(io.BytesIO(data.read()), archive, root, weights_only).load()
    except zipfile.BadZipFile as error:
        raise RuntimeError(f"load: not a zip archive, or damaged: {error}") from error
    except KeyError as error:
        raise RuntimeError(f"load: the archive lacks a storage: {error}") from error
    except EOFError as error:
        raise RuntimeError("load: the pickle ends early") from error
