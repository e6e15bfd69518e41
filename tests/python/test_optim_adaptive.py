"""Optimizers against values recorded from PyTorch 2.14.1: eight steps on two parameters."""

import pytest

import flambeau as torch

RECORDED = [
    (
        "RMSprop",
        {},
        [
            -0.44014,
            0.82236,
            1.07568,
            0.19352,
            -0.69074,
            -0.92012,
            0.55986,
            0.71395,
            -0.34234,
            -0.9503,
        ],
        ["square_avg", "step"],
    ),
    (
        "RMSprop",
        {"momentum": 0.9, "centered": True, "weight_decay": 0.1},
        [
            -1.78686,
            0.73448,
            1.56559,
            0.46041,
            -0.18642,
            -0.86223,
            -0.76706,
            1.38674,
            -0.03424,
            -0.53995,
        ],
        ["grad_avg", "momentum_buffer", "square_avg", "step"],
    ),
    (
        "Adagrad",
        {"lr_decay": 0.1, "weight_decay": 0.01, "initial_accumulator_value": 0.1},
        [
            -0.03461,
            0.84058,
            0.92168,
            0.14655,
            -0.74986,
            -0.95431,
            0.96702,
            0.55487,
            -0.40939,
            -0.98544,
        ],
        ["step", "sum"],
    ),
    (
        "Adadelta",
        {"weight_decay": 0.1},
        [
            -0.02673,
            0.83724,
            0.91414,
            0.14163,
            -0.7541,
            -0.95142,
            0.97328,
            0.54493,
            -0.41212,
            -0.9884,
        ],
        ["acc_delta", "square_avg", "step"],
    ),
    (
        "Rprop",
        {},
        [
            -0.16499,
            0.83587,
            0.9409,
            0.15987,
            -0.7333,
            -0.96792,
            0.83501,
            0.56518,
            -0.41515,
            -0.97124,
        ],
        ["prev", "step", "step_size"],
    ),
    (
        "ASGD",
        {"t0": 2, "weight_decay": 0.1, "lambd": 0.1},
        [
            -0.07924,
            0.82479,
            0.9055,
            0.14202,
            -0.74278,
            -0.93051,
            0.94134,
            0.54279,
            -0.39979,
            -0.97623,
        ],
        ["ax", "eta", "mu", "step"],
    ),
    (
        "Adamax",
        {"weight_decay": 0.1},
        [
            -0.016,
            0.83986,
            0.91257,
            0.14398,
            -0.75198,
            -0.95715,
            0.98399,
            0.54549,
            -0.41212,
            -0.98615,
        ],
        ["exp_avg", "exp_inf", "step"],
    ),
    (
        "NAdam",
        {"weight_decay": 0.1},
        [
            -0.01282,
            0.83938,
            0.91235,
            0.14226,
            -0.75413,
            -0.95625,
            0.98718,
            0.54382,
            -0.41338,
            -0.98801,
        ],
        ["exp_avg", "exp_avg_sq", "mu_product", "step"],
    ),
    (
        "NAdam",
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
        [
            0.01281,
            0.84093,
            0.90369,
            0.1396,
            -0.75717,
            -0.9589,
            1.01121,
            0.53529,
            -0.41767,
            -0.98924,
        ],
        ["exp_avg", "exp_avg_sq", "mu_product", "step"],
    ),
    (
        "RAdam",
        {"weight_decay": 0.1},
        [
            -0.0051,
            0.84148,
            0.91004,
            0.14246,
            -0.75513,
            -0.95778,
            0.9967,
            0.54234,
            -0.41432,
            -0.98858,
        ],
        ["exp_avg", "exp_avg_sq", "step"],
    ),
    (
        "RAdam",
        {"betas": (0.9, 0.5), "weight_decay": 0.1, "decoupled_weight_decay": True},
        [
            -0.008,
            0.84101,
            0.9099,
            0.14251,
            -0.75481,
            -0.95732,
            0.99488,
            0.54214,
            -0.41407,
            -0.98831,
        ],
        ["exp_avg", "exp_avg_sq", "step"],
    ),
]


def parameters():
    first = torch.sin(torch.arange(6.0)).reshape(2, 3)
    return [torch.nn.Parameter(first), torch.nn.Parameter(torch.cos(torch.arange(4.0)))]


def step(optimizer, params, i):
    for j, p in enumerate(params):
        p.grad = torch.cos(torch.arange(float(p.numel())).reshape(p.shape) * (i + 1) + j)
    optimizer.step()


@pytest.mark.parametrize("name, options, expected, state", RECORDED)
def test_steps(name, options, expected, state):
    params = parameters()
    optimizer = getattr(torch.optim, name)(params, **options)
    for i in range(8):
        step(optimizer, params, i)
    values = [x for p in params for x in p.detach().flatten().tolist()]
    assert values == pytest.approx(expected, abs=3e-5)
    assert sorted(optimizer.state_dict()["state"][0]) == state


@pytest.mark.parametrize("name, options, expected, state", RECORDED)
def test_a_loaded_state_goes_on_with_the_same_bits(name, options, expected, state):
    params = parameters()
    optimizer = getattr(torch.optim, name)(params, **options)
    for i in range(3):
        step(optimizer, params, i)
    others = [torch.nn.Parameter(p.detach().clone()) for p in params]
    other = getattr(torch.optim, name)(others, **options)
    other.load_state_dict(optimizer.state_dict())
    for i in range(3, 6):
        step(optimizer, params, i)
        step(other, others, i)
    assert all((a == b).all() for a, b in zip(params, others))


def test_a_step_is_few_launches():
    params = [torch.nn.Parameter(torch.ones(3, 2)) for _ in range(8)]
    optimizer = torch.optim.RMSprop(params)
    for i in range(3):
        step(optimizer, params, i)
    before = torch._C._launch_count()
    optimizer.step()
    assert torch._C._launch_count() - before <= 2


def test_bad_options():
    for name in ("RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD"):
        with pytest.raises(ValueError, match="Invalid learning rate: -1"):
            getattr(torch.optim, name)(parameters(), lr=-1)
