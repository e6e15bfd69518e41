"""Optimizers and schedulers against what PyTorch 2.14.1 makes of the same problem in float64."""

import copy
import math
import pickle
import warnings

import pytest

import flambeau as torch
from flambeau import nn, optim

# fmt: off
TRAJECTORIES = [
    (lambda p: optim.SGD(p, lr=0.1),
     [0.065010215474, -1.367308247357, -0.173709528331, -0.933999297625]),
    (lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.25, weight_decay=0.1),
     [-0.379912968066, -0.719474673537, -0.436506585645, -1.792238967465]),
    (lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1),
     [-0.693140278643, -0.770216255446, -0.705986274776, -1.893531653197]),
    (lambda p: optim.SGD(p, lr=0.01, momentum=0.5, maximize=True),
     [1.357761284771, -2.452782913797, 0.722670585009, 1.012942983851]),
    (lambda p: optim.Adam(p, lr=0.1),
     [0.509903775881, -1.51636043516, 0.012473535325, -0.229257974176]),
    (lambda p: optim.Adam(p, 0.1, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.2, amsgrad=True),
     [0.51066410214, -1.515863657663, 0.014167416985, -0.226132486784]),
    (lambda p: optim.Adam(p, lr=0.1, maximize=True),
     [1.501927976453, -2.50133870117, 1.001481018132, 0.749600198594]),
    (lambda p: optim.AdamW(p, lr=0.1),
     [0.505981488423, -1.507566312451, 0.011027534721, -0.229232428443]),
    (lambda p: optim.AdamW(p, lr=0.1, betas=(0.8, 0.9), weight_decay=0.5, amsgrad=True),
     [0.335641063492, -1.126205817491, -0.049626477557, -0.216311245368]),
]
SCHEDULES = [
    (lambda o, S: S.LambdaLR(o, lambda step: 1 / (1 + step)),
     [1 / (1 + step) for step in range(9)]),
    (lambda o, S: S.MultiplicativeLR(o, lambda step: 1 - step / 10),
     [1.0, 0.9, 0.72, 0.504, 0.3024, 0.1512, 0.06048, 0.018144, 0.0036288]),
    (lambda o, S: S.StepLR(o, 3, gamma=0.5), [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25]),
    (lambda o, S: S.MultiStepLR(o, [2, 2, 5], gamma=0.5),
     [1, 1, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125]),
    (lambda o, S: S.ConstantLR(o, factor=0.25, total_iters=3), [0.25] * 3 + [1] * 6),
    (lambda o, S: S.LinearLR(o, start_factor=0.25, total_iters=3), [0.25, 0.5, 0.75] + [1] * 6),
    (lambda o, S: S.ExponentialLR(o, gamma=0.5), [0.5**step for step in range(9)]),
    (lambda o, S: S.PolynomialLR(o, total_iters=4, power=2.0),
     [1, 0.5625, 0.25, 0.0625] + [0] * 5),
    (lambda o, S: S.CosineAnnealingLR(o, T_max=4, eta_min=0.1),
     [1, 0.868198051534, 0.55, 0.231801948466, 0.1, 0.231801948466, 0.55, 0.868198051534, 1]),
    (lambda o, S: S.CosineAnnealingWarmRestarts(o, T_0=2, T_mult=2),
     [1, 0.5, 1, 0.853553390593, 0.5, 0.146446609407, 1, 0.961939766256, 0.853553390593]),
    (lambda o, S: S.CyclicLR(o, 0.25, 1.0, step_size_up=2, mode="triangular2"),
     [0.25, 0.625, 1, 0.625, 0.25, 0.4375, 0.625, 0.4375, 0.25]),
    (lambda o, S: S.OneCycleLR(o, max_lr=0.5, total_steps=10),
     [0.02, 0.26, 0.5, 0.475242316007, 0.405872826975, 0.305631010968, 0.194370989032,
      0.094129173025, 0.024759683993]),
    (lambda o, S: S.OneCycleLR(o, 0.5, 10, three_phase=True, anneal_strategy="linear"),
     [0.02, 0.26, 0.5, 0.26, 0.02, 0.0160004, 0.0120008, 0.0080012, 0.0040016]),
    (lambda o, S: S.SequentialLR(o, [S.LinearLR(o, 0.25, 1.0, 3), S.CosineAnnealingLR(o, 6)], [3]),
     [0.25, 0.5, 0.75, 1, 0.933012701892, 0.75, 0.5, 0.25, 0.066987298108]),
    (lambda o, S: S.SequentialLR(
        o, [S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.5), S.StepLR(o, 1)], [2, 5]),
     [0.1, 0.1, 1, 0.5, 0.25, 1, 0.1, 0.01, 0.001]),
    (lambda o, S: S.ChainedScheduler([S.ConstantLR(o, 0.5, 4), S.ExponentialLR(o, 0.5)]),
     [0.5, 0.25, 0.125, 0.0625, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]),
]
# fmt: on


def parameter(*values):
    return nn.Parameter(torch.tensor(values or (1.0, 1.0)))


@pytest.mark.parametrize("number", range(len(TRAJECTORIES)))
def test_trajectory(number):
    make, expected = TRAJECTORIES[number]
    p = nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64))
    q = nn.Parameter(torch.tensor([[0.25]], dtype=torch.float64))
    optimizer = make([p, q])
    for _ in range(5):
        optimizer.zero_grad()
        ((p * p).sum() * q.exp() + p.sum()).sum().backward()
        optimizer.step()
    assert p.tolist() + q.flatten().tolist() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_first_adam_step_is_the_rate(dtype):
    """The corrected moments of one gradient g are g and g^2: the step is lr * g / (|g| + eps)."""
    p = nn.Parameter(torch.tensor([1.0, -1.0], dtype=dtype))
    optimizer = optim.Adam([p], lr=0.125)
    p.grad = torch.tensor([0.5, -2.0], dtype=dtype)
    optimizer.step()
    assert p.tolist() == pytest.approx([0.875, -0.875], rel=1e-6)
    assert optimizer.state[p]["exp_avg"].dtype is dtype
    assert optimizer.state[p]["step"].dtype is torch.float32


def test_parameters_of_several_dtypes_and_strides():
    whole = torch.arange(6.0).reshape(2, 3)
    p, q = nn.Parameter(whole.t()), nn.Parameter(torch.ones(2, dtype=torch.float64))
    optimizer = optim.SGD([p, q], lr=0.5)
    (p.sum() * 2 + q.sum()).backward()
    optimizer.step()
    assert p.tolist() == [[-1, 2], [0, 3], [1, 4]] and q.tolist() == [0.5, 0.5]


def test_parameters_without_gradient_are_left():
    p, q = parameter(), parameter()
    optimizer = optim.AdamW([p, q], lr=0.1, weight_decay=0.5)
    p.sum().backward()
    optimizer.step()
    assert q.tolist() == [1, 1] and q not in optimizer.state


def test_step_does_not_read_the_graph_and_returns_the_loss():
    p = parameter()
    optimizer = optim.SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2
    assert p.tolist() == [0, 0] and p.is_leaf and p.requires_grad


def test_zero_grad():
    p = parameter()
    optimizer = optim.SGD([p])
    p.sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0, 0]
    optimizer.zero_grad()
    assert p.grad is None


def test_state_dict_is_that_of_the_field():
    p, q = parameter(), parameter(1.0)
    optimizer = optim.Adam([{"params": [p]}, {"params": [q], "lr": 0.5}], amsgrad=True)
    (p.sum() + q.sum()).backward()
    optimizer.step()
    state = optimizer.state_dict()
    assert [group["params"] for group in state["param_groups"]] == [[0], [1]]
    assert list(state["state"][0]) == ["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"]
    assert [name for name in state["param_groups"][0]] == [
        "lr",
        "betas",
        "eps",
        "weight_decay",
        "amsgrad",
        "maximize",
        "foreach",
        "capturable",
        "differentiable",
        "fused",
        "decoupled_weight_decay",
        "params",
    ]


@pytest.mark.parametrize(
    "make", [lambda p: optim.SGD(p, lr=0.1, momentum=0.9), lambda p: optim.AdamW(p, lr=0.1)]
)
def test_training_goes_on_from_a_saved_state(make):
    def advance(p, optimizer):
        optimizer.zero_grad()
        (p * p * p).sum().backward()
        optimizer.step()

    p = parameter(1.0, -0.5)
    optimizer = make([p])
    for _ in range(3):
        advance(p, optimizer)
    q = nn.Parameter(p.detach().clone())
    resumed = make([q])
    resumed.load_state_dict(optimizer.state_dict())
    pickled = pickle.loads(pickle.dumps(optimizer))
    (r,) = pickled.param_groups[0]["params"]
    for tensor, other in ((p, optimizer), (q, resumed), (r, pickled)):
        advance(tensor, other)
    assert p.tolist() == q.tolist() == r.tolist()
    assert copy.deepcopy(optimizer).state_dict()["state"].keys() == {0}


def test_groups():
    p, q = parameter(), parameter()
    optimizer = optim.SGD([p], lr=1.0)
    optimizer.add_param_group({"params": q, "lr": 0.25})
    (p.sum() + q.sum()).backward()
    optimizer.step()
    assert p.tolist() == [0, 0] and q.tolist() == [0.75, 0.75]
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": [q]})
    named = optim.SGD(nn.Linear(1, 2).named_parameters())
    assert named.param_groups[0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="with/without names"):
        named.add_param_group({"params": [p]})
    assert "lr: 0.25\n" in repr(optimizer) and repr(optimizer).startswith(
        "SGD (\nParameter Group 0"
    )


def test_hooks():
    p, seen = parameter(), []
    optimizer = optim.SGD([p])
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("before", args[0] is o)))
    handle = optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "note": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: seen.append(state.pop("note")))
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    optimizer.step()
    handle.remove()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == [("before", True), "after", ("before", True), 1, "loaded"]


def test_a_subclass_runs_hooks_once_and_chooses_its_gradient_mode():
    class Slow(optim.SGD):
        def step(self, closure=None):
            modes.append(torch.is_grad_enabled())
            return super().step(closure)

    modes, seen = [], []
    optimizer = Slow([parameter()])
    optimizer.register_step_post_hook(lambda *_: seen.append(1))
    optimizer.step()
    assert modes == [True] and seen == [1]


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda p: optim.SGD([]), ValueError, "empty parameter list"),
        (lambda p: optim.SGD(p), TypeError, "iterable of Tensors or dicts"),
        (lambda p: optim.SGD([p * 2]), ValueError, "non-leaf"),
        (lambda p: optim.SGD([3]), TypeError, "one of the params is int"),
        (lambda p: optim.SGD([("a", p), p]), ValueError, "names are missing"),
        (lambda p: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires"),
        (lambda p: optim.SGD([p], momentum=-1), ValueError, "Invalid momentum value: -1"),
        (lambda p: optim.Adam([p], betas=(0.9, 1.0)), ValueError, "parameter at index 1: 1.0"),
        (lambda p: optim.Adam([p], eps=-1), ValueError, "Invalid epsilon value: -1"),
        (lambda p: optim.AdamW([p], differentiable=True), NotImplementedError, "AdamW: diff"),
        (lambda p: optim.AdamW([p], foreach=True, fused=True), RuntimeError, "`fused` and"),
    ],
)
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make(parameter())


def rates(make, steps=9, metrics=None):
    optimizer = optim.SGD([parameter()], lr=1.0, momentum=0.5)
    scheduler = make(optimizer, optim.lr_scheduler)
    assert isinstance(scheduler, optim.lr_scheduler.LRScheduler)
    found = []
    for step in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        assert scheduler.get_last_lr() == [found[-1]]
        optimizer.step()
        scheduler.step(*([metrics[step]] if metrics else []))
    return found


@pytest.mark.parametrize("number", range(len(SCHEDULES)))
def test_schedule(number):
    make, expected = SCHEDULES[number]
    assert rates(make) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("number", range(len(SCHEDULES)))
def test_schedule_goes_on_from_a_saved_state(number):
    make, expected = SCHEDULES[number]
    optimizer = optim.SGD([parameter()], lr=1.0, momentum=0.5)
    scheduler = make(optimizer, optim.lr_scheduler)
    for _ in range(4):
        optimizer.step()
        scheduler.step()
    other = optim.SGD([parameter()], lr=1.0, momentum=0.5)
    resumed = make(other, optim.lr_scheduler)
    other.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(scheduler.state_dict())
    found = []
    for _ in range(5):
        found.append(other.param_groups[0]["lr"])
        other.step()
        resumed.step()
    assert found == pytest.approx(expected[4:], rel=1e-9, abs=1e-12)


def test_a_sequence_inside_a_sequence_keeps_its_milestones():
    def make(optimizer, S):
        parts = [S.ConstantLR(optimizer, 0.5, 2), S.ExponentialLR(optimizer, 0.5)]
        inner = S.SequentialLR(optimizer, parts, [2])
        return S.SequentialLR(optimizer, [inner, S.StepLR(optimizer, 1, 0.25)], [4])

    assert rates(make, 7) == [0.5, 0.5, 1, 0.5, 1, 0.25, 0.0625]


def test_plateau():
    metrics = [1.0, 0.5, 0.5, 0.6, 0.5, 0.4, 0.4, 0.4, 0.4]
    found = rates(
        lambda o, S: S.ReduceLROnPlateau(o, factor=0.5, patience=1, cooldown=1), 9, metrics
    )
    assert found == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25]
    settings = {"factor": 0.5, "patience": 2, "threshold_mode": "abs", "threshold": 0.2}
    found = rates(lambda o, S: S.ReduceLROnPlateau(o, "max", min_lr=0.3, **settings), 9, metrics)
    assert found == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.3, 0.3]


def test_one_cycle_moves_momentum_the_other_way():
    optimizer = optim.AdamW([parameter()])
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=4)
    betas = [optimizer.param_groups[0]["betas"]]
    for _ in range(3):
        optimizer.step()
        scheduler.step()
        betas.append(optimizer.param_groups[0]["betas"])
    assert betas[0] == (0.95, 0.999) and betas[3][0] == pytest.approx(0.95)
    assert min(first for first, _ in betas) < 0.9
    with pytest.raises(ValueError, match="Tried to step 5 times"):
        for _ in range(2):
            scheduler.step()


def test_a_rate_that_is_a_tensor_stays_the_same_tensor():
    rate = torch.tensor(1.0)
    optimizer = optim.SGD([parameter()], lr=rate)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.5


def test_scheduler_before_optimizer_is_warned_of():
    optimizer = optim.SGD([parameter()])
    scheduler = optim.lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match=r"before `optimizer.step\(\)`"):
        scheduler.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda o, S: S.StepLR(3, 1), TypeError, "int is not an Optimizer"),
        (lambda o, S: S.StepLR(o, 1, last_epoch=3), KeyError, "'initial_lr' is not specified"),
        (lambda o, S: S.LambdaLR(o, [math.sin] * 2), ValueError, "Expected 1 lr_lambdas"),
        (lambda o, S: S.LinearLR(o, start_factor=0), ValueError, "Starting multiplicative factor"),
        (lambda o, S: S.OneCycleLR(o, 1.0), ValueError, "either total_steps OR"),
        (lambda o, S: S.SequentialLR(o, [S.StepLR(o, 1)], [1]), ValueError, "one more than"),
        (lambda o, S: S.ReduceLROnPlateau(o, factor=1.0), ValueError, "Factor should be < 1.0"),
    ],
)
def test_scheduler_errors(make, error, text):
    with pytest.raises(error, match=text):
        make(optim.SGD([parameter()]), optim.lr_scheduler)
