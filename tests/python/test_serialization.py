"""torch.save and torch.load."""

import collections
import io
import pickle
import zipfile

import pytest

import flambeau as torch


def again(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return torch.load(file, **options)


def test_values_of_all_kinds():
    obj = {
        "a": [1, 2.5, "text", None, True, (3, 4), 1j, {5}],
        "ordered": collections.OrderedDict(x=torch.arange(4)),
        "dtype": torch.float16,
        "size": torch.Size([2, 3]),
        "device": torch.device("cpu"),
    }
    back = again(obj)
    assert back["a"] == obj["a"]
    assert isinstance(back["ordered"], collections.OrderedDict)
    assert back["ordered"]["x"].tolist() == [0, 1, 2, 3]
    assert back["dtype"] is torch.float16
    assert back["size"] == torch.Size([2, 3]) and isinstance(back["size"], torch.Size)
    assert back["device"] == torch.device("cpu")


@pytest.mark.parametrize("name", ["bool", "uint8", "int16", "int64", "float16", "bfloat16"])
def test_dtypes(name):
    x = torch.arange(6).to(getattr(torch, name)).view(2, 3)
    y = again(x)
    assert y.dtype == x.dtype and y.tolist() == x.tolist()


def test_strided_scalar_and_empty():
    x = torch.arange(12.0).view(3, 4)
    for t in (x.t(), x[1:, ::2], x[0, 0], x[:0], torch.empty(0)):
        assert again(t).shape == t.shape and again(t).tolist() == t.tolist()


def test_shared_memory_is_shared_again():
    x = torch.arange(6.0)
    whole, part = again([x, x[2:4]])
    part.zero_()
    assert whole.tolist() == [0, 1, 0, 0, 4, 5]


def test_parameters_and_gradients():
    p = torch.nn.Parameter(torch.ones(2))
    q = again(p)
    assert isinstance(q, torch.nn.Parameter) and q.requires_grad
    assert again(torch.ones(1, requires_grad=True)).requires_grad


def test_training_continues_with_the_same_bits(tmp_path):
    def make():
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        return model, torch.optim.Adam(model.parameters(), lr=0.1)

    def step(model, optimizer):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).square().sum().backward()
        optimizer.step()

    model, optimizer = make()
    step(model, optimizer)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, tmp_path / "state.pt")
    step(model, optimizer)
    other, other_optimizer = make()
    state = torch.load(tmp_path / "state.pt")
    other.load_state_dict(state["model"])
    other_optimizer.load_state_dict(state["optimizer"])
    step(other, other_optimizer)
    assert (model.weight == other.weight).all()
    assert [p.name for p in tmp_path.iterdir()] == ["state.pt"]


class Anything:
    pass


def test_other_classes_need_trust():
    with pytest.raises(pickle.UnpicklingError, match="weights_only=False"):
        again(Anything())
    assert isinstance(again(Anything(), weights_only=False), Anything)


def file_with(**changes):
    file = io.BytesIO()
    torch.save(torch.arange(4.0), file)
    source, result = zipfile.ZipFile(file), io.BytesIO()
    with zipfile.ZipFile(result, "w") as archive:
        for name in source.namelist():
            content = changes.get(name.split("/")[-1], source.read(name))
            if content is not None:
                archive.writestr(name, content)
    return result


@pytest.mark.parametrize(
    "file",
    [
        io.BytesIO(b"no archive"),
        io.BytesIO(),
        file_with(**{"data.pkl": None}),
        file_with(**{"0": b"short"}),
        file_with(**{"0": None}),
        file_with(**{"data.pkl": b"\x80\x02"}),
        file_with(byteorder=b"big"),
    ],
)
def test_damaged_files(file):
    file.seek(0)
    with pytest.raises(RuntimeError):
        torch.load(file)


def test_a_tensor_outside_its_storage():
    from flambeau.serialization import _rebuild_tensor

    storage = torch.arange(4.0)
    for offset, size, stride in [(0, (5,), (1,)), (3, (2,), (1,)), (0, (2, 2), (3, 1))]:
        with pytest.raises(RuntimeError, match="does not fit"):
            _rebuild_tensor(storage, offset, size, stride)
    with pytest.raises(RuntimeError):
        _rebuild_tensor(storage, -1, (1,), (1,))
