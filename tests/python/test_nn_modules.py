"""Modules: values, text, state, initial values, gradients seen together.

Values of activations and losses are those of PyTorch 2.14.1 in float64.
"""

import copy
import math
import pickle
import warnings

import pytest

import flambeau as torch
from flambeau import nn

F = nn.functional
POINTS = [-4.0, -1.0, -0.25, 0.0, 0.5, 2.0, 7.0]

ACTIVATIONS = """
ReLU()                    0 0 0 0 0.5 2 7
ReLU6()                   0 0 0 0 0.5 2 6
GELU()                    -0.000126685 -0.158655 -0.100323 0 0.345731 1.9545 7
GELU(approximate="tanh")  -7.02459e-05 -0.158808 -0.100325 0 0.345714 1.9546 7
SiLU()                    -0.0719448 -0.268941 -0.109456 0 0.31123 1.76159 6.99362
Mish()                    -0.0725917 -0.303401 -0.129927 0 0.375245 1.94396 6.99999
Tanh()                    -0.999329 -0.761594 -0.244919 0 0.462117 0.964028 0.999998
Sigmoid()                 0.0179862 0.268941 0.437823 0.5 0.622459 0.880797 0.999089
LogSigmoid()              -4.01815 -1.31326 -0.825939 -0.693147 -0.474077 -0.126928 -0.000911466
LeakyReLU(0.2)            -0.8 -0.2 -0.05 0 0.5 2 7
ELU(0.5)                  -0.490842 -0.31606 -0.1106 0 0.5 2 7
CELU(0.5)                 -0.499832 -0.432332 -0.196735 0 0.5 2 7
SELU()                    -1.7259 -1.11133 -0.38889 0 0.52535 2.1014 7.35491
Softplus(beta=2.0)        0.000167703 0.063464 0.237038 0.346574 0.656631 2.00907 7
Hardtanh(-0.5, 1.5)       -0.5 -0.5 -0.25 0 0.5 1.5 1.5
Hardsigmoid()             0 0.333333 0.458333 0.5 0.583333 0.833333 1
Hardswish()               -0 -0.333333 -0.114583 0 0.291667 1.66667 7
Hardshrink()              -4 -1 0 0 0 2 7
Softshrink()              -3.5 -0.5 -0 0 0 1.5 6.5
Softsign()                -0.8 -0.5 -0.2 0 0.333333 0.666667 0.875
Tanhshrink()              -3.00067 -0.238406 -0.00508134 0 0.0378828 1.03597 6
Threshold(0.1, -3.0)      -3 -3 -3 -3 0.5 2 7
Softmax(dim=0) 1.65328e-05 0.00033207 0.000702993 0.000902661 0.00148824 0.00666981 0.989888
LogSoftmax(dim=0)         -11.0102 -8.01016 -7.26016 -7.01016 -6.51016 -5.01016 -0.0101638
Softmin(dim=0)            0.904793 0.045047 0.0212787 0.0165719 0.0100513 0.00224276 1.51116e-05
GLU(dim=0)                -2 -0.622459 -0.220199
"""

LOSSES = """
CrossEntropyLoss()(x, y)                                  0.520343953039
CrossEntropyLoss(weight=w, label_smoothing=0.1)(x, y)     0.526520335912
CrossEntropyLoss()(x, z / z.sum(1, keepdim=True))         1.307681615377
NLLLoss(weight=w)(x, y)                                   -1.65
NLLLoss(ignore_index=0, reduction="sum")(x, y)            -2.0
MSELoss()(x, z)                                           1.357916666667
L1Loss(reduction="sum")(x, z)                             5.85
SmoothL1Loss(beta=0.5)(x, z)                              0.735416666667
HuberLoss(delta=0.75)(x, z)                               0.476041666667
BCELoss()(x.sigmoid(), z)                                 0.764127760194
BCELoss(weight=w)(x.sigmoid(), z)                         0.903084549415
BCEWithLogitsLoss(pos_weight=w)(x, z)                     0.982791051285
KLDivLoss(reduction="batchmean")(F.log_softmax(x, 1), z)  1.73390836673
KLDivLoss(reduction="sum", log_target=True)(x, z)         4.664626870731
"""

TEXTS = """
Linear(3, 4, bias=False)       Linear(in_features=3, out_features=4, bias=False)
Identity(5, a=1)               Identity()
Flatten(0, 1)                  Flatten(start_dim=0, end_dim=1)
Unflatten(1, (2, 3))           Unflatten(dim=1, unflattened_size=(2, 3))
ReLU(inplace=True)             ReLU(inplace=True)
GELU()                         GELU(approximate='none')
LeakyReLU(0.2, True)           LeakyReLU(negative_slope=0.2, inplace=True)
ELU(0.5, inplace=True)         ELU(alpha=0.5, inplace=True)
Hardtanh(inplace=True)         Hardtanh(min_val=-1.0, max_val=1.0, inplace=True)
ReLU6()                        ReLU6()
Hardshrink()                   Hardshrink(0.5)
Threshold(1, 2)                Threshold(threshold=1, value=2)
Softmax(dim=1)                 Softmax(dim=1)
Dropout(0.1)                   Dropout(p=0.1, inplace=False)
LayerNorm(3, bias=False)       LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=False)
RMSNorm(3)                     RMSNorm((3,), eps=None, elementwise_affine=True)
Embedding(3, 4, -1)            Embedding(3, 4, padding_idx=2)
Embedding(3, 4, norm_type=1.0) Embedding(3, 4, norm_type=1.0)
CrossEntropyLoss()             CrossEntropyLoss()
"""


def rows(table):
    return table.strip().split("\n")


def split_call(row):
    """A call, up to the two spaces or the parenthesis that end it, and the rest."""
    depth = 0
    for position, character in enumerate(row):
        depth += (character == "(") - (character == ")")
        if character == " " and depth == 0:
            return row[:position], row[position:].strip()
    raise ValueError(row)


@pytest.mark.parametrize("row", rows(ACTIVATIONS))
def test_activation_values(row):
    call, expected = split_call(row)
    expected = [float(value) for value in expected.split()]
    module = eval(f"nn.{call}")
    points = POINTS[:6] if call.startswith("GLU") else POINTS  # halves need an even number
    x = torch.tensor(points, dtype=torch.float64)
    assert module(x).tolist() == pytest.approx(expected, rel=1e-5, abs=1e-9)
    assert x.tolist() == points


@pytest.mark.parametrize("row", rows(LOSSES))
def test_loss_values(row):
    call, expected = row.rsplit(maxsplit=1)
    names = {
        "F": F,
        "x": torch.tensor([[1.0, -0.5, 2.0], [0.25, 0.0, -1.5]], dtype=torch.float64),
        "y": torch.tensor([2, 0]),
        "z": torch.tensor([[0.5, 0.25, 0.9], [0.0, 1.0, 0.75]], dtype=torch.float64),
        "w": torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64),
    }
    assert eval(f"nn.{call}", {**names, "nn": nn}).item() == pytest.approx(float(expected))


@pytest.mark.parametrize("row", rows(TEXTS))
def test_text(row):
    call, expected = split_call(row)
    assert repr(eval(f"nn.{call}")) == expected


def test_old_loss_arguments():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.0])
    assert F.mse_loss(x, y, size_average=False).item() == 5
    assert F.l1_loss(x, y, None, False).tolist() == [1, 2]
    assert nn.MSELoss(size_average=False).reduction == "sum"
    assert nn.L1Loss(None, False).reduction == "none"


def test_weighted_mean_divides_by_the_weights():
    x, y, w = torch.tensor([1.0, 2.0]), torch.zeros(2), torch.tensor([1.0, 3.0])
    assert F.mse_loss(x, y, weight=w).item() == (1 + 3 * 4) / 4
    assert F.l1_loss(x, y, weight=w).item() == (1 + 3 * 2) / 4
    assert F.l1_loss(x, y, weight=w, reduction="sum").item() == 7


INPLACE = {
    "relu": (),
    "relu6": (),
    "elu": (0.5,),
    "celu": (0.5,),
    "selu": (),
    "silu": (),
    "mish": (),
    "leaky_relu": (0.1,),
    "hardtanh": (-0.5, 0.5),
    "hardsigmoid": (),
    "hardswish": (),
    "threshold": (0.1, 20.0),
}


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_writes_and_has_the_same_derivative(name):
    function, settings = getattr(F, name), INPLACE[name]
    gradients = []
    for inplace in (False, True):
        x = torch.tensor(POINTS, requires_grad=True)
        y = x * 0.75
        z = function(y, *settings, inplace)
        assert (z is y) == inplace
        (z * z).sum().backward()
        gradients.append(x.grad.tolist())
    assert gradients[0] == pytest.approx(gradients[1], rel=1e-6)


def test_inplace_module_trains():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(inplace=True), nn.Linear(3, 1))
    net(torch.ones(4, 2)).sum().backward()
    assert net[2].bias.grad.item() == 4 and net[0].weight.grad.shape == (3, 2)


def test_softmax_chooses_a_dim_with_a_warning():
    x = torch.ones(2, 4)
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        assert F.softmax(x).tolist() == [[0.25] * 4] * 2
    with pytest.warns(UserWarning, match="log_softmax"):
        nn.LogSoftmax()(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert F.softmax(x, 1, 3, torch.float64).dtype is torch.float64


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.again = self.inner
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("hidden", torch.ones(1), persistent=False)
        self.register_parameter("absent", None)

    def forward(self, x):
        return self.inner(x) * self.scale + self.mean


def test_names_of_shared_modules():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == ["scale", "inner.weight", "inner.bias"]
    assert len(list(net.parameters())) == 3
    assert len(list(net.named_parameters(remove_duplicate=False))) == 5
    assert [name for name, _ in net.named_buffers()] == ["mean", "hidden"]
    assert list(net.state_dict(prefix="p.")) == [
        "p.scale",
        "p.mean",
        "p.inner.weight",
        "p.inner.bias",
        "p.again.weight",
        "p.again.bias",
    ]
    assert len(list(net.modules())) == 2 and len(list(net.modules(remove_duplicate=False))) == 3


def test_submodules():
    net = Net()
    net.set_submodule("inner", nn.Identity())
    assert isinstance(net.inner, nn.Identity)
    with pytest.raises(AttributeError, match="Net has no attribute `other`"):
        net.set_submodule("other", nn.ReLU(), strict=True)
    with pytest.raises(AttributeError, match="`scale` is not an nn.Module"):
        net.set_submodule("scale", nn.ReLU())
    with pytest.raises(ValueError, match="without a target name"):
        net.set_submodule("", nn.ReLU())


def test_load_keeps_or_assigns():
    net, state = Net(), Net().double().state_dict()
    state["scale"] = torch.full((2,), 3.0, dtype=torch.float64)
    parameter = net.scale
    net.load_state_dict(state)
    assert net.scale is parameter and net.scale.dtype is torch.float32
    assert net.scale.tolist() == [3, 3]
    net.load_state_dict(state, assign=True)
    assert net.scale.dtype is torch.float64 and isinstance(net.scale, nn.Parameter)
    result = net.load_state_dict({"scale": state["scale"], "z": torch.ones(1)}, strict=False)
    assert repr(result).startswith("_IncompatibleKeys(missing_keys=['mean', 'inner.weight'")


def test_conversions_keep_identity():
    net = Net()
    net(torch.ones(1, 2)).sum().backward()
    parameter = net.scale
    assert net.double() is net and net.scale is parameter and parameter.is_leaf
    assert parameter.grad.dtype is torch.float64 and net.mean.dtype is torch.float64
    assert net.to("cpu", torch.bfloat16).scale.dtype is torch.bfloat16
    assert net.cpu().float().scale.dtype is torch.float32
    assert net.to_empty(device="cpu").scale.shape == (2,)
    with pytest.raises(TypeError, match="only accepts floating point or complex"):
        net.to(torch.int64)


def test_copies():
    net = Net()
    twin = copy.deepcopy(net)
    assert twin.again is twin.inner and twin.scale is not net.scale
    again = pickle.loads(pickle.dumps(nn.Sequential(nn.Linear(2, 2), nn.ReLU(True), nn.GELU())))
    assert repr(again[1]) == "ReLU(inplace=True)" and again(torch.ones(1, 2)).shape == (1, 2)


def test_backward_hooks_change_gradients():
    layer, seen = nn.Linear(2, 2), []
    with torch.no_grad():
        layer.weight.copy_(torch.eye(2))
    layer.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 2,))

    def hook(module, grad_input, grad_output):
        seen.append(grad_output[0].tolist())
        return (grad_input[0] * 3,)

    layer.register_full_backward_hook(hook)
    x = torch.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    assert seen == [[[2, 2]]] and x.grad.tolist() == [[6, 6]]


def test_default_initial_values():
    torch.manual_seed(0)
    layer = nn.Linear(400, 300)
    bound = 1 / math.sqrt(400)
    for tensor in (layer.weight, layer.bias):
        assert tensor.abs().max().item() <= bound and tensor.abs().max().item() > 0.9 * bound
    assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
    assert nn.Embedding(300, 200).weight.std().item() == pytest.approx(1, rel=0.02)


INITIALIZERS = {
    "uniform_": ((-1.0, 2.0), 0.5, 3 / math.sqrt(12)),
    "normal_": ((1.0, 2.0), 1.0, 2.0),
    "xavier_uniform_": ((3.0,), 0.0, 3 * math.sqrt(2 / 500)),
    "xavier_normal_": ((3.0,), 0.0, 3 * math.sqrt(2 / 500)),
    "kaiming_uniform_": ((1.0,), 0.0, math.sqrt(1 / 200)),
    "kaiming_normal_": ((0, "fan_out", "relu"), 0.0, math.sqrt(2 / 300)),
    # The standard deviation of a normal that is cut at two of its own.
    "trunc_normal_": ((), 0.0, 0.8796),
}


@pytest.mark.parametrize("name", INITIALIZERS)
def test_initial_distributions(name):
    arguments, mean, std = INITIALIZERS[name]
    torch.manual_seed(0)
    weight = getattr(nn.init, name)(torch.empty(300, 200), *arguments)
    assert weight.mean().item() == pytest.approx(mean, abs=0.02 * std)
    assert weight.std().item() == pytest.approx(std, rel=0.02)


def test_exact_initial_values():
    assert nn.init.constant_(torch.empty(2), 3).tolist() == [3, 3]
    assert nn.init.eye_(torch.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert nn.init.dirac_(torch.empty(2, 1, 3), 2).tolist() == [[[0, 1, 0]]] * 2
    assert (nn.init.sparse_(torch.empty(10, 4), 0.3) == 0).sum(0).tolist() == [3] * 4
    for shape in ((3, 5), (5, 3), (4, 2, 2)):
        w = nn.init.orthogonal_(torch.empty(shape), gain=2).reshape(shape[0], -1)
        product = w @ w.t() if w.shape[0] <= w.shape[1] else w.t() @ w
        assert (product - 4 * torch.eye(product.shape[0])).abs().max().item() < 1e-5
    assert nn.init.calculate_gain("leaky_relu", 0.2) == pytest.approx(math.sqrt(2 / 1.04))
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        nn.init.calculate_gain("sine")
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.xavier_uniform_(torch.empty(3))


def with_gradients():
    parameters = [nn.Parameter(torch.zeros(size)) for size in (3, 4, 1)]
    parameters[0].grad = torch.tensor([1.0, -2.0, 3.0])
    parameters[1].grad = torch.tensor([1.0, 5.0, -7.0, 2.0])
    return parameters


@pytest.mark.parametrize(
    "order, norm",
    [(1, 21), (2, math.sqrt(93)), (3, 513 ** (1 / 3)), (math.inf, 7), (0, 2), (-math.inf, 1)],
)
def test_clip_grad_norm(order, norm):
    parameters = with_gradients()
    assert nn.utils.clip_grad_norm_(parameters, 0.5, order).item() == pytest.approx(norm)
    assert parameters[1].grad[2].item() == pytest.approx(-7 * 0.5 / norm, rel=1e-5)


def test_other_clipping():
    parameters = with_gradients()
    nn.utils.clip_grad_norm_(parameters, 100.0)
    assert parameters[0].grad.tolist() == [1, -2, 3]
    nn.utils.clip_grad_value_(parameters, 2.5)
    assert parameters[1].grad.tolist() == [1, 2.5, -2.5, 2]
    nn.utils.clip_grads_with_norm_(parameters, 1.0, torch.tensor(2.0))
    assert parameters[0].grad.tolist() == pytest.approx([0.5, -1, 1.25], rel=1e-6)
    parameters[0].grad[0] = math.nan
    with pytest.raises(RuntimeError, match="is non-finite"):
        nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)


def test_parameters_as_a_vector():
    parameters = with_gradients()
    nn.utils.vector_to_parameters(torch.arange(8.0), parameters)
    assert parameters[1].tolist() == [3, 4, 5, 6]
    assert nn.utils.parameters_to_vector(parameters).tolist() == list(range(8))
