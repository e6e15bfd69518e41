"""Modules that hold modules or parameters."""

import pytest

import flambeau as torch
from flambeau import nn


def kinds(modules):
    return [type(module).__name__ for module in modules]


def test_sequential():
    net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 3))
    assert list(net[1:].state_dict()) == ["2.weight", "2.bias"]
    assert net.insert(1, nn.Tanh()) is net and kinds(net)[1] == "Tanh"
    del net[0]
    assert list(net.state_dict()) == ["2.weight", "2.bias"]
    assert isinstance(net.pop(-1), nn.Linear) and len(net) == 2
    net[0] = nn.Identity()
    assert kinds(net + nn.Sequential(nn.GELU())) == ["Identity", "ReLU", "GELU"]
    assert len(net * 2) == 4 and len(net.extend([nn.ReLU()])) == 3
    named = nn.Sequential({"first": nn.Linear(1, 1), "second": nn.ReLU()})
    assert list(named.state_dict()) == ["first.weight", "first.bias"] and named.second is named[1]
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"index {index} is out of range"):
            net[index]
    with pytest.raises(ValueError, match="Non-positive multiplication factor"):
        net * 0
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        nn.Sequential(3)


def test_module_list():
    modules = nn.ModuleList([nn.Linear(1, 2), nn.Linear(1, 2), nn.ReLU()])
    assert repr(modules) == (
        "ModuleList(\n  (0-1): 2 x Linear(in_features=1, out_features=2, bias=True)\n"
        "  (2): ReLU()\n)"
    )
    assert repr(nn.ModuleList()) == "ModuleList()"
    modules += [nn.Tanh()]
    modules.insert(0, nn.GELU())
    assert kinds(modules) == ["GELU", "Linear", "Linear", "ReLU", "Tanh"]
    assert list(modules.state_dict())[0] == "1.weight"
    del modules[1:3]
    assert isinstance(modules.pop(-1), nn.Tanh) and list(modules[::-1])[0] is modules[1]
    assert len(modules + [nn.ReLU()]) == 3
    with pytest.raises(TypeError, match="ModuleList.extend should be called with an iterable"):
        modules.extend(3)


def test_module_dict():
    modules = nn.ModuleDict([["a", nn.Linear(1, 2)], ["b", nn.ReLU()]])
    assert (
        list(modules) == ["a", "b"]
        and "a" in modules
        and list(modules.state_dict())[0] == "a.weight"
    )
    modules.update({"c": nn.Tanh()})
    assert isinstance(modules.pop("b"), nn.ReLU) and list(modules.keys()) == ["a", "c"]
    with pytest.raises(KeyError, match="already exists"):
        modules["keys"] = nn.ReLU()
    with pytest.raises(ValueError, match="#0 has length 3; 2 is required"):
        modules.update([(1, 2, 3)])


def test_parameter_list():
    values = nn.ParameterList([nn.Parameter(torch.ones(2)), torch.zeros(3, 1)])
    values.append(torch.ones(1)).extend([torch.ones(1)])
    assert [name for name, _ in values.named_parameters()] == ["0", "1", "2", "3"]
    assert len(values[1:3]) == 2 and values[-1] is values[3]
    assert "(1): Parameter containing: [torch.float32 of size 3x1]" in repr(values)
    with pytest.raises(TypeError, match="ParameterList.extend"):
        values.extend(torch.ones(2))


def test_parameter_dict():
    values = nn.ParameterDict({"b": torch.ones(2), "a": torch.zeros(1)})
    assert list(values) == ["a", "b"] and list(values.state_dict()) == ["a", "b"]
    assert all(isinstance(value, nn.Parameter) for value in values.values())
    assert list(values | {"c": torch.ones(1)}) == ["a", "b", "c"]
    assert values.get("z") is None and values.popitem()[0] == "b" and len(values) == 1
    with pytest.raises(TypeError, match="as it is not a string"):
        values[3] = torch.ones(1)
