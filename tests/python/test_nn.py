"""Modules, losses, optimizers and data loading."""

import copy
import math

import pytest

import flambeau as torch
from flambeau import nn, optim
from flambeau.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, random_split

F = nn.functional


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(2)])
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x * self.scale


NAMES = [
    "scale",
    "first.weight",
    "first.bias",
    "blocks.0.0.weight",
    "blocks.0.0.bias",
    "blocks.1.0.weight",
    "blocks.1.0.bias",
]


def test_the_tree():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert list(net.state_dict()) == [NAMES[0], "steps", *NAMES[1:]]
    assert (
        repr(net.blocks[0])
        == "Sequential(\n  (0): Linear(in_features=4, out_features=4, bias=True)\n  (1): ReLU()\n)"
    )
    assert net.get_submodule("blocks.1.0").out_features == 4
    net.eval()
    assert not any(module.training for module in net.modules())
    net.double()
    assert (
        all(p.dtype is torch.float64 for p in net.parameters()) and net.steps.dtype is torch.int64
    )
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = net.nothing
    with pytest.raises(TypeError, match="as parameter 'scale'"):
        net.scale = torch.ones(1)
    assert net(torch.ones(2, 3, dtype=torch.float64)).shape == (2, 4)
    twin = copy.deepcopy(net)
    with torch.no_grad():
        twin.scale.fill_(5)
    assert net.scale.item() == 1


def test_state_dicts():
    a, b = Net(), Net()
    x = torch.randn(5, 3)
    assert (a(x) != b(x)).any()
    assert repr(b.load_state_dict(a.state_dict())) == "<All keys matched successfully>"
    assert (a(x) == b(x)).all()
    state = a.state_dict()
    del state["scale"]
    state["extra"] = torch.ones(1)
    with pytest.raises(
        RuntimeError,
        match="(?s)(Missing key.*scale|Unexpected key.*extra).*(Missing|Unexpected)",
    ):
        b.load_state_dict(state)
    keys = b.load_state_dict(state, strict=False)
    assert keys.missing_keys == ["scale"] and keys.unexpected_keys == ["extra"]
    state = a.state_dict()
    state["first.weight"] = torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="size mismatch for first.weight"):
        b.load_state_dict(state)


def test_hooks():
    net, seen = nn.Linear(2, 2), []
    net.register_forward_pre_hook(lambda m, args: seen.append("before"))
    handle = net.register_forward_hook(lambda m, args, result: result * 0)
    net.register_full_backward_hook(lambda m, grad_in, grad_out: seen.append("backward"))
    y = net(torch.ones(1, 2, requires_grad=True))
    assert seen == ["before"] and (y == 0).all()
    handle.remove()
    net(torch.ones(1, 2, requires_grad=True)).sum().backward()
    assert seen == ["before", "before", "backward"]


def test_dropout():
    torch.manual_seed(0)
    layer, x = nn.Dropout(0.25), torch.ones(40000, requires_grad=True)
    y = layer(x)
    y.sum().backward()
    kept = (y != 0).float().mean().item()
    assert abs(kept - 0.75) < 0.01 and (x.grad == y.detach()).all()
    assert layer.eval()(x) is x
    z = torch.ones(5, requires_grad=True)
    F.dropout(z, 1.0).sum().backward()
    assert z.grad.tolist() == [0] * 5


def test_layers():
    x = torch.randn(6, 8)
    y = nn.LayerNorm(8)(x)
    assert y.mean(1).abs().max() < 1e-6 and (y.var(1, correction=0) - 1).abs().max() < 1e-3
    table = nn.Embedding(5, 3, padding_idx=1)
    assert table.weight[1].tolist() == [0, 0, 0]
    table(torch.tensor([[1, 2], [2, 4]])).sum().backward()
    assert table.weight.grad.sum(1).tolist() == [0, 0, 6, 0, 3]
    assert nn.Flatten()(torch.ones(2, 3, 4)).shape == (2, 12)
    for module in (
        nn.GELU(),
        nn.SiLU(),
        nn.Tanh(),
        nn.Sigmoid(),
        nn.ELU(),
        nn.Softplus(),
        nn.LeakyReLU(0.2),
        nn.Softmax(dim=1),
    ):
        assert module(x).shape == x.shape
    assert F.relu(torch.tensor([-1.0, 2.0]), inplace=True).tolist() == [0, 2]


def test_losses():
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    target = torch.tensor([0, 1])
    expected = [math.log(1 + math.exp(-2)), math.log(1 + math.exp(-1))]
    assert nn.CrossEntropyLoss()(logits, target).item() == pytest.approx(
        sum(expected) / 2, rel=1e-6
    )
    assert F.cross_entropy(logits, target, reduction="none").tolist() == pytest.approx(
        expected, rel=1e-6
    )
    assert F.cross_entropy(logits, torch.tensor([0, -100])).item() == pytest.approx(
        expected[0], rel=1e-6
    )
    assert nn.MSELoss()(logits, torch.zeros(2, 2)).item() == 1.25
    assert nn.L1Loss(reduction="sum")(logits, torch.zeros(2, 2)).item() == 3
    assert nn.BCEWithLogitsLoss()(torch.zeros(3), torch.ones(3)).item() == pytest.approx(
        math.log(2)
    )
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        F.mse_loss(logits, logits, reduction="median")


def one_step(make, gradients, start=1.0):
    p = nn.Parameter(torch.tensor([start]))
    optimizer = make([p])
    values = []
    for gradient in gradients:
        p.grad = torch.tensor([gradient])
        optimizer.step()
        values.append(p.item())
    return values


def test_sgd():
    assert one_step(lambda p: optim.SGD(p, lr=0.5), [1.0, 2.0]) == [0.5, -0.5]
    assert one_step(lambda p: optim.SGD(p, lr=0.5, momentum=0.5), [1.0, 1.0]) == [0.5, -0.25]
    assert one_step(lambda p: optim.SGD(p, lr=0.5, momentum=0.5, nesterov=True), [1.0]) == [0.25]
    assert one_step(lambda p: optim.SGD(p, lr=0.5, weight_decay=1.0, maximize=True), [1.0]) == [1.0]
    with pytest.raises(ValueError, match="learning rate"):
        optim.SGD([nn.Parameter(torch.ones(1))], lr=-1)


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam(decoupled, amsgrad):
    lr, decay, eps, beta1, beta2 = 0.1, 0.01, 1e-8, 0.9, 0.999
    kind = optim.AdamW if decoupled else optim.Adam
    found = one_step(
        lambda p: kind(p, lr=lr, weight_decay=decay, amsgrad=amsgrad), [1.0, -0.5, 0.25]
    )
    p, m, v, largest = 1.0, 0.0, 0.0, 0.0
    for step, gradient in enumerate([1.0, -0.5, 0.25], 1):
        if decoupled:
            p -= lr * decay * p
        g = gradient if decoupled else gradient + decay * p
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        largest = max(largest, v)
        second = largest if amsgrad else v
        p -= lr / (1 - beta1**step) * m / (math.sqrt(second / (1 - beta2**step)) + eps)
        assert found[step - 1] == pytest.approx(p, rel=1e-5)


def test_optimizer_state():
    net = nn.Linear(2, 2)
    optimizer = optim.AdamW([{"params": [net.weight], "lr": 0.1}, {"params": [net.bias]}], lr=0.2)
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    assert net.weight.grad is None
    state = optimizer.state_dict()
    assert state["param_groups"][0]["lr"] == 0.1 and state["state"][1]["step"].item() == 1
    other = optim.AdamW([{"params": [net.weight]}, {"params": [net.bias]}], lr=0.5)
    other.load_state_dict(state)
    assert other.param_groups[1]["lr"] == 0.2
    assert (other.state[net.weight]["exp_avg"] == optimizer.state[net.weight]["exp_avg"]).all()


def test_schedulers():
    p = nn.Parameter(torch.ones(1))
    optimizer = optim.SGD([p], lr=1.0)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates == [1, 1, 0.5, 0.5, 0.25]
    optimizer = optim.SGD([p], lr=1.0)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    assert scheduler.get_last_lr() == [1]
    optimizer.step()
    scheduler.step()
    scheduler.step()
    assert scheduler.get_last_lr()[0] == pytest.approx(0.5)


def test_clip_grad_norm():
    p = nn.Parameter(torch.ones(2))
    p.grad = torch.tensor([3.0, 4.0])
    assert nn.utils.clip_grad_norm_([p], 1.0).item() == 5
    assert p.grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-5)


def test_data_loader():
    data = TensorDataset(torch.arange(10).reshape(5, 2), torch.arange(5))
    batches = list(DataLoader(data, batch_size=2))
    assert [b[1].tolist() for b in batches] == [[0, 1], [2, 3], [4]]
    assert batches[0][0].tolist() == [[0, 1], [2, 3]]
    assert (
        len(DataLoader(data, batch_size=2)) == 3
        and len(DataLoader(data, batch_size=2, drop_last=True)) == 2
    )
    torch.manual_seed(1)
    first = [b[1].tolist() for b in DataLoader(data, batch_size=2, shuffle=True)]
    torch.manual_seed(1)
    assert [b[1].tolist() for b in DataLoader(data, batch_size=2, shuffle=True)] == first
    assert sorted(sum(first, [])) == [0, 1, 2, 3, 4]

    class Words(Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return {"length": i, "word": "a" * i, "values": [float(i), torch.ones(2) * i]}

    batch = next(iter(DataLoader(Words(), batch_size=3)))
    assert batch["length"].tolist() == [0, 1, 2] and batch["word"] == ["", "a", "aa"]
    assert batch["values"][1].tolist() == [[0, 0], [1, 1], [2, 2]]

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(5))

    assert [b.tolist() for b in DataLoader(Stream(), batch_size=2)] == [[0, 1], [2, 3], [4]]
    parts = random_split(data, [0.6, 0.4])
    assert [len(p) for p in parts] == [3, 2]


def test_a_network_learns():
    torch.manual_seed(0)
    x = torch.rand(200, 2) * 2 - 1
    y = (x[:, 0] * x[:, 1] > 0).to(torch.int64)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = optim.Adam(net.parameters(), lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    assert (net(x).argmax(1) == y).float().mean() > 0.95
