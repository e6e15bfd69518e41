"""Tensors as Python objects: making, indexing, sharing memory, copying, printing."""

import copy
import gc
import math
import pickle
import weakref

import numpy
import pytest

import flambeau as torch


def test_creation():
    assert torch.tensor([[1, 2], [3, 4]]).dtype is torch.int64
    assert torch.tensor([1.0, 2]).dtype is torch.float32
    assert torch.tensor([True]).dtype is torch.bool
    assert torch.tensor(1j).dtype is torch.complex64
    assert torch.tensor(3).shape == () and torch.tensor([]).shape == (0,)
    assert torch.zeros(2, 3).tolist() == [[0] * 3] * 2
    assert torch.full((2,), 7).dtype is torch.int64
    assert torch.arange(1, 2.5, 0.5).tolist() == [1, 1.5, 2]
    assert torch.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert torch.eye(2).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ValueError):
        torch.tensor([[1, 2], [3]])
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        torch.tensor(["a"])


def test_random_numbers_follow_the_seed():
    torch.manual_seed(5)
    a = torch.randn(100)
    b = torch.randn(100)
    torch.manual_seed(5)
    assert (
        torch.equal(a, torch.randn(100))
        if hasattr(torch, "equal")
        else (a == torch.tensor(a.tolist())).all()
    )
    assert (a != b).any()
    generator = torch.Generator().manual_seed(5)
    assert (torch.randn(100, generator=generator) == a).all()
    x = torch.rand(100000)
    assert 0 <= x.min() and x.max() < 1 and abs(x.mean().item() - 0.5) < 0.01
    z = torch.randn(100000, dtype=torch.float64)
    assert abs(z.mean().item()) < 0.02 and abs(z.std().item() - 1) < 0.02
    assert sorted(torch.randperm(50).tolist()) == list(range(50))
    k = torch.randint(-2, 3, (1000,))
    assert sorted(set(k.tolist())) == [-2, -1, 0, 1, 2]
    state = torch.get_rng_state()
    c = torch.rand(3)
    torch.set_rng_state(state)
    assert (torch.rand(3) == c).all()


INDICES = [
    0,
    -1,
    slice(None),
    slice(1, None, 2),
    None,
    ...,
    (0, 1),
    (slice(None), 2),
    (..., 0),
    (0, ..., 1),
    (None, 1, None),
    [0, 2, 1],
    ([0, 1], [2, 0]),
    (slice(None), [0, 2]),
    ([0, 2], slice(None), [1, 0]),
    (slice(0, 2), numpy.array([True, False, True])),
    numpy.arange(36).reshape(3, 3, 4) % 5 == 0,
    numpy.array([[0, 1], [2, 0]]),
    (1, numpy.array([0, 2])),
    slice(2, 1),
    (slice(None, None, 3), slice(-2, None)),
]


def as_torch(index):
    if isinstance(index, tuple):
        return tuple(as_torch(i) for i in index)
    return torch.from_numpy(index) if isinstance(index, numpy.ndarray) else index


@pytest.mark.parametrize("number", range(len(INDICES)))
def test_indexing_like_numpy(number):
    index = INDICES[number]
    array = numpy.arange(36).reshape(3, 3, 4)
    x = torch.tensor(array.tolist())
    found, expected = x[as_torch(index)], array[index]
    assert tuple(found.shape) == expected.shape and found.tolist() == expected.tolist()
    x[as_torch(index)] = -5
    array[index] = -5
    assert x.tolist() == array.tolist()
    values = numpy.arange(array[index].size).reshape(array[index].shape)
    x[as_torch(index)] = torch.from_numpy(values)
    array[index] = values
    assert x.tolist() == array.tolist()


def test_views_share_memory():
    x = torch.zeros(3, 4)
    x[1:, ::2] = 1
    x.t()[0, 0] = 5
    x.view(-1)[3] = 6
    assert x.tolist() == [[5, 0, 0, 6], [1, 0, 1, 0], [1, 0, 1, 0]]
    assert x.diagonal().tolist() == [5, 0, 1]
    assert x[0].data_ptr() == x.data_ptr()


def test_numpy_shares_memory():
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    x = torch.from_numpy(array)
    x.add_(1)
    array[0, 0] = 10
    assert x.tolist() == array.tolist() == [[10, 2, 3], [4, 5, 6]]
    back = x.t().numpy()
    back[0, 1] = -1
    assert x[1, 0].item() == -1
    assert numpy.asarray(x).shape == (2, 3)
    assert torch.from_numpy(array.T).stride() == (1, 3)
    for dtype in (torch.bool, torch.uint8, torch.int16, torch.float16, torch.complex64):
        y = torch.ones(3, dtype=dtype)
        assert torch.from_numpy(y.numpy()).dtype is dtype
    with pytest.raises(RuntimeError, match="requires grad"):
        torch.ones(2, requires_grad=True).numpy()
    with pytest.raises(TypeError):
        torch.ones(2, dtype=torch.bfloat16).numpy()


def test_dlpack_both_ways():
    array = numpy.arange(6.0).reshape(2, 3)
    x = torch.from_dlpack(array)
    array[1, 1] = 50
    assert x[1, 1].item() == 50
    y = torch.arange(4)
    z = numpy.from_dlpack(y)
    y[0] = 9
    assert z.tolist() == [9, 1, 2, 3]
    assert torch.from_dlpack(y.reshape(2, 2).t()).tolist() == [[9, 2], [1, 3]]


def test_copies():
    x = torch.arange(6.0).reshape(2, 3)
    y = copy.deepcopy({"a": x, "view": x[0], "b": [x]})
    assert y["a"] is y["b"][0] and y["a"] is not x
    y["a"][0, 0] = 7
    assert y["view"][0].item() == 7 and x[0, 0].item() == 0
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        a, view = pickle.loads(pickle.dumps((x, x.t()), protocol))
        assert a.tolist() == x.tolist() and view.tolist() == x.t().tolist()
    leaf = torch.ones(2, requires_grad=True)
    assert pickle.loads(pickle.dumps(leaf)).requires_grad
    assert torch.ones(2).clone() is not None


def test_one_object_a_tensor():
    x = torch.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad is x.grad
    x.note = "kept"
    y = x * 1
    assert y.grad_fn is not None and x.note == "kept"
    reference = weakref.ref(x)
    del x, y
    gc.collect()
    assert reference() is None


def test_cycles_through_the_tape_are_collected():
    def cycle():
        x = torch.ones(3, requires_grad=True)
        y = (x * 2).sum()
        x.self = y  # the node of y keeps x, x keeps y
        hooked = x * 3
        hooked.register_hook(lambda g: hooked.sum() * g)
        return weakref.ref(x), weakref.ref(hooked)

    references = cycle()
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_numbers():
    x = torch.tensor([3.5])
    assert float(x) == 3.5 and int(x) == 3 and bool(x) and x.item() == 3.5
    assert complex(torch.tensor(1 + 2j)) == 1 + 2j
    assert [10, 20, 30][torch.tensor(1)] == 20
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(torch.ones(2))
    with pytest.raises(RuntimeError):
        torch.ones(2).item()
    assert 1 - torch.tensor([2.0]) == -1 and 2 ** torch.tensor([3]) == 8
    assert (7 // torch.tensor([2])).item() == 3 and (7 % torch.tensor([4])).item() == 3
    assert f"{torch.tensor(1.25):.1f}" == "1.2"


def test_promotion():
    i, f, d, b = (
        torch.ones(2, dtype=t) for t in (torch.int32, torch.float32, torch.float64, torch.bfloat16)
    )
    assert (i + f).dtype is torch.float32 and (f + d).dtype is torch.float64
    assert (i + 1.5).dtype is torch.float32 and (i + 1).dtype is torch.int32
    assert (b + f).dtype is torch.float32 and (b + 1.5).dtype is torch.bfloat16
    assert (i / 2).dtype is torch.float32 and (f + 1j).dtype is torch.complex64
    assert (f + torch.tensor(1.0, dtype=torch.float64)).dtype is torch.float32


def test_printing():
    assert repr(torch.tensor([1, 2])) == "tensor([1, 2])"
    assert repr(torch.tensor([1.0, 2.5])) == "tensor([1.0000, 2.5000])"
    assert repr(torch.tensor([[True, False]])) == "tensor([[ True, False]])"
    assert repr(torch.tensor(3.0, dtype=torch.float64)) == "tensor(3., dtype=torch.float64)"
    assert repr(torch.zeros(0, 3)) == "tensor([], size=(0, 3))"
    assert repr(torch.tensor([math.nan, math.inf])) == "tensor([nan, inf])"
    assert repr(torch.tensor([1e10, 1.0])) == "tensor([1.0000e+10, 1.0000e+00])"
    assert "..." in repr(torch.zeros(2000))
    assert repr(torch.ones(1, requires_grad=True)) == "tensor([1.], requires_grad=True)"
