"""Bad input gets a clear error of the type that PyTorch's users expect, and nothing is lost."""

import json
import math
import signal
import struct
import threading
import time

import pytest

import flambeau as torch
from flambeau import io, nn

F = nn.functional


def raises(kind, *words):
    return pytest.raises(kind, match="(?s)" + ".*".join(words))


def test_shapes_that_do_not_broadcast():
    with raises(RuntimeError, "add", "size of tensor a", "3", "size of tensor b", "4"):
        torch.ones(2, 3) + torch.ones(2, 4)
    with raises(RuntimeError, "shapes cannot be multiplied"):
        torch.ones(2, 3) @ torch.ones(4, 5)
    with raises(RuntimeError, "shape"):
        torch.ones(6).view(4, 2)
    with raises(RuntimeError):
        torch.cat([torch.ones(2, 3), torch.ones(3, 4)])


def test_dtypes_that_do_not_fit():
    with raises(RuntimeError, "dtype"):
        torch.ones(2, 2) @ torch.ones(2, 2, dtype=torch.float64)
    with raises(RuntimeError, "can't be cast"):
        torch.ones(2, dtype=torch.int64).add_(0.5)
    with raises(RuntimeError, "bool"):
        torch.ones(2, dtype=torch.bool) - torch.ones(2, dtype=torch.bool)
    with raises(TypeError):
        torch.ones(2) + "text"


@pytest.mark.parametrize("dim", [2, -3, 100])
def test_dims_out_of_range(dim):
    x = torch.ones(2, 3)
    for call in (x.sum, x.softmax, x.argmax, x.unbind, x.cumsum, x.squeeze):
        with raises(IndexError, "Dimension out of range"):
            call(dim)


def test_indices_out_of_range():
    x = torch.arange(6).reshape(2, 3)
    for bad in (2, -3, (0, 3), torch.tensor([0, 2]), (slice(None), torch.tensor([3]))):
        with raises(IndexError, "out of bounds|out of range"):
            x[bad]
    with raises(IndexError):
        x[0, 0, 0]
    with raises(IndexError, "shape of the mask"):
        x[torch.ones(3, dtype=torch.bool)]
    with raises(IndexError):
        torch.index_select(x, 0, torch.tensor([5]))
    with raises(IndexError):
        F.embedding(torch.tensor([4]), torch.ones(3, 2))
    with raises(IndexError):
        F.cross_entropy(torch.zeros(2, 3), torch.tensor([0, 3]))
    assert x.sum().item() == 15


def test_a_write_out_of_range_writes_nothing_beyond():
    x = torch.zeros(4, 4)
    row = x[1]
    with raises(IndexError):
        row.index_put_((torch.tensor([4]),), torch.tensor(1.0))
    assert x.sum().item() == 0


def test_empty_and_0d():
    empty = torch.ones(0, 3)
    assert empty.sum().item() == 0 and empty.prod().item() == 1
    assert empty.sum(0).tolist() == [0, 0, 0]
    assert (empty @ torch.ones(3, 2)).shape == (0, 2)
    assert (torch.ones(2, 0) @ torch.ones(0, 3)).tolist() == [[0] * 3] * 2
    with raises(IndexError, "non-zero size"):
        empty.max(0)
    with raises(RuntimeError, "numel\\(\\) == 0"):
        empty.max()
    assert math.isnan(empty.mean().item())
    scalar = torch.tensor(3.0)
    assert scalar.sum(0).item() == 3 and scalar.softmax(0).item() == 1
    with raises(IndexError):
        scalar[0]
    with raises(TypeError):
        len(scalar)


def test_sizes_that_cannot_be():
    with raises(RuntimeError, "negative"):
        torch.zeros(2, -1)
    with raises(RuntimeError):
        torch.empty(-5)
    for huge in ((2**40, 2**40), (2**62, 4), (2**63 - 1, 2)):
        with raises(RuntimeError, "overflow|too large|product of sizes"):
            torch.zeros(*huge)


def test_memory_that_is_not_there():
    before = torch.ones(1000)
    with raises(torch.OutOfMemoryError, "bytes|GiB|TiB"):
        torch.empty(2**46, dtype=torch.uint8)
    assert (before + 1).sum().item() == 2000


def test_overlapping_writes():
    x = torch.ones(3, 1).expand(3, 4)
    with raises(RuntimeError, "single memory location"):
        x.add_(1)
    line = torch.arange(6.0)
    line[1:].copy_(line[:-1].clone())
    assert line.tolist() == [0, 0, 1, 2, 3, 4]
    line = torch.arange(6.0)
    line[1:] += line[:-1]
    assert line.tolist() == [0, 1, 3, 5, 7, 9]
    square = torch.arange(9.0).reshape(3, 3)
    square += square.t()
    assert square.tolist() == [[0, 4, 8], [4, 8, 12], [8, 12, 16]]


def test_out_that_aliases():
    x = torch.arange(4.0)
    torch.add(x, x, out=x)
    assert x.tolist() == [0, 2, 4, 6]
    torch.add(x[:-1], x[1:], out=x[1:])
    assert x.tolist() == [0, 2, 6, 10]
    y = torch.arange(9.0).reshape(3, 3)
    torch.mm(y, y, out=y)
    assert y.tolist() == [[15, 18, 21], [42, 54, 66], [69, 90, 111]]
    with raises(RuntimeError, "can't be cast"):
        torch.add(x, x, out=torch.zeros(4, dtype=torch.int64))


def test_nan_and_inf_in_reductions():
    inf, nan = math.inf, math.nan
    x = torch.tensor([1.0, nan, inf, -inf])
    assert math.isnan(x.sum().item()) and math.isnan(x.max().item()) and math.isnan(x.min().item())
    assert x.argmax().item() == 1 and x.argmin().item() == 1
    assert torch.tensor([1.0, inf, 2.0]).max().item() == inf
    assert torch.tensor([-inf, -inf]).logsumexp(0).item() == -inf
    assert torch.tensor([inf, 0.0]).softmax(0).isnan().all().item()
    assert torch.tensor([-inf, 0.0]).softmax(0).tolist() == [0, 1]
    assert torch.tensor([nan, 1.0]).any().item() and torch.tensor([nan, 1.0]).all().item()
    assert math.isnan(torch.tensor([nan, 2.0]).prod().item())
    assert torch.tensor([inf, -inf]).sum().isnan().item()
    assert math.isnan(torch.tensor([inf, 1.0]).var().item())


def test_integer_division():
    x = torch.tensor([7, -7, 0])
    with raises(RuntimeError, "ZeroDivisionError"):
        x // torch.tensor([2, 0, 1])
    with raises(RuntimeError, "ZeroDivisionError"):
        x % 0
    for dtype, low in ((torch.int32, -(2**31)), (torch.int64, -(2**63)), (torch.int8, -128)):
        lowest, minus_one = torch.tensor([low], dtype=dtype), torch.tensor([-1], dtype=dtype)
        assert (lowest // minus_one).item() == low
        assert (lowest % minus_one).item() == 0
        assert torch.div(lowest, minus_one, rounding_mode="trunc").item() == low
    assert (x // 2).tolist() == [3, -4, 0] and (x % 2).tolist() == [1, 1, 0]


@pytest.mark.parametrize("text", ["gpu", "cpu:", "cuda:x", "", "cpu:-1", "cpu cpu"])
def test_device_strings(text):
    with raises(RuntimeError, "[Dd]evice"):
        torch.device(text)


def test_devices_that_are_not_there():
    with raises(RuntimeError, "not available"):
        torch.zeros(2, device="cuda")
    with raises(RuntimeError, "not available"):
        torch.zeros(2).to("mps")


def write_safetensors(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)


def entry(start, end, shape=(2,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


BAD_FILES = {
    "truncated": ({"a": entry(0, 8)}, b"\0" * 7, None),
    "out of range": ({"a": entry(0, 800)}, b"\0" * 8, None),
    "overlapping": ({"a": entry(0, 8), "b": entry(4, 12)}, b"\0" * 12, None),
    "hole": ({"a": entry(0, 8), "b": entry(12, 20)}, b"\0" * 20, None),
    "reversed": ({"a": entry(8, 0)}, b"\0" * 8, None),
    "wrong size": ({"a": entry(0, 8, (3,))}, b"\0" * 8, None),
    "negative": ({"a": entry(0, 8, (-2,))}, b"\0" * 8, None),
    "huge header": ({"a": entry(0, 8)}, b"\0" * 8, 2**60),
    "duplicate": (
        b'{"a":'
        + json.dumps(entry(0, 8)).encode()
        + b',"a":'
        + json.dumps(entry(0, 8)).encode()
        + b"}",
        b"\0" * 8,
        None,
    ),
    "no JSON": (b"{{{{", b"", None),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_safetensors(tmp_path, name):
    header, data, length = BAD_FILES[name]
    path = tmp_path / "bad.safetensors"
    write_safetensors(path, header, data, length)
    with raises(RuntimeError, "bad.safetensors"):
        io.load_safetensors(path)


@pytest.mark.parametrize("cut", [0, 3, 9, 60, 129, 143])
def test_npy(tmp_path, cut):
    path = tmp_path / "x.npy"
    io.save_npy(torch.arange(4.0), path)
    path.write_bytes(path.read_bytes()[:cut])
    with raises((RuntimeError, OSError), "x.npy"):
        io.load_npy(path)


def test_npy_with_a_false_header(tmp_path):
    path = tmp_path / "x.npy"
    for text in (
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "__import__('os').system('true')",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
    ):
        header = text.encode().ljust(117) + b"\n"
        path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"\0" * 8)
        with raises((RuntimeError, TypeError), "x.npy"):
            io.load_npy(path)


def test_a_file_that_is_not_there(tmp_path):
    with raises((FileNotFoundError, RuntimeError), "none.safetensors"):
        io.load_safetensors(tmp_path / "none.safetensors")


def test_interrupt():
    """Ctrl-C stops a loop of operator calls."""
    x = torch.ones(100)
    threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        while time.monotonic() - start < 20:
            x = x * 1.0
    assert time.monotonic() - start < 10
