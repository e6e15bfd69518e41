"""Own derivatives (autograd.Function), gradcheck and checkpoint."""

import gc
import weakref

import pytest

import flambeau as torch
from flambeau.autograd import Function, grad, gradcheck, gradgradcheck
from flambeau.autograd.function import once_differentiable
from flambeau.utils.checkpoint import checkpoint, checkpoint_sequential


class Square(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor

    @staticmethod
    def backward(ctx, c):
        (x,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return c * 2 * x * ctx.factor, None


class Exp(Function):
    @staticmethod
    def forward(x):
        return x.exp(), x.long()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output[0])

    @staticmethod
    def backward(ctx, c, of_integers):
        (y,) = ctx.saved_tensors
        return c * y


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def test_first_and_second_derivative():
    x = leaf(1.0, 2.0)
    y = Square.apply(x, 3.0)
    assert y.tolist() == [3, 12] and y.grad_fn.name() == "SquareBackward"
    (g,) = grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [6, 12]
    assert grad(g.sum(), x)[0].tolist() == [6, 6]


def test_setup_context_and_a_saved_output():
    x = leaf(1.0, 2.0)
    y, integers = Exp.apply(x)
    assert y.requires_grad and not integers.requires_grad
    (g,) = grad(y.sum(), x, create_graph=True)
    assert g.tolist() == y.tolist()
    assert grad(g.sum(), x)[0].tolist() == y.tolist()


def test_without_gradients_nothing_is_recorded():
    with torch.no_grad():
        assert Square.apply(leaf(1.0), 1.0).grad_fn is None
    assert Square.apply(torch.ones(2), 1.0).grad_fn is None


def test_written_input():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, c):
            return c * 2

    a = torch.ones(2, requires_grad=True)
    b = a * 1
    assert Double.apply(b) is b
    b.sum().backward()
    assert a.grad.tolist() == [2, 2]


@pytest.mark.parametrize("materialize", [True, False])
def test_unused_outputs(materialize):
    seen = []

    class Pair(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(materialize)
            return x * 1, y * 1

        @staticmethod
        def backward(ctx, a, b):
            seen.append(b)
            return a, b

    x = leaf(1.0)
    Pair.apply(x, x * 2)[0].sum().backward()
    assert x.grad.tolist() == [1]
    assert (seen[0] is None) == (not materialize)


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @once_differentiable
        def backward(ctx, c):
            return c * 2

    x, c = leaf(1.0), leaf(1.0)
    (g,) = grad(Once.apply(x), x, c, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        g.backward()


def test_errors():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, c):
            return c

    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        Wrong.apply(x, x).backward()
    y = Square.apply(x, 1.0)
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.backward()
    y = Square.apply(x, 1.0)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    with pytest.raises(NotImplementedError):
        Function.apply(x)


def test_a_cycle_through_the_context_is_collected():
    class Token:
        pass

    token = []

    class Keep(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.result, ctx.token = y, Token()
            token.append(weakref.ref(ctx.token))
            return y

        @staticmethod
        def backward(ctx, c):
            return c

    y = Keep.apply(leaf(1.0))
    del y
    gc.collect()
    assert token[0]() is None


def doubles(n):
    return (torch.arange(n, dtype=torch.float64) * 0.37 + 0.2).requires_grad_()


def test_gradcheck():
    assert gradcheck(lambda a: (a * a).sin(), (doubles(3),))
    assert gradgradcheck(lambda a, b: (a * b).exp(), (doubles(3), doubles(3)))
    z = torch.complex(doubles(3).detach(), doubles(3).detach() + 1).requires_grad_()
    assert gradcheck(lambda a: a * a, (z,))
    with pytest.raises(RuntimeError, match="mismatch"):
        gradcheck(lambda a: a.detach() * a, (doubles(3),))
    assert not gradcheck(lambda a: a.detach() * a, (doubles(3),), raise_exception=False)
    with pytest.raises(ValueError):
        gradcheck(lambda a: a, (torch.ones(1),))


CONVOLUTIONS = [
    ("conv1d", (2, 4, 7), (6, 2, 3), {"stride": 2, "padding": 1, "groups": 2}),
    ("conv2d", (1, 2, 5, 6), (3, 2, 3, 2), {"padding": 1, "dilation": 2}),
    ("conv2d", (1, 2, 6, 5), (2, 2, 2, 2), {"stride": (2, 1)}),
    ("conv3d", (1, 1, 3, 3, 4), (2, 1, 2, 2, 2), {}),
    ("conv_transpose2d", (1, 2, 3, 3), (2, 1, 3, 3), {"stride": 2, "padding": 1}),
]


@pytest.mark.parametrize("name, input, weight, options", CONVOLUTIONS)
def test_second_derivatives_of_convolutions(name, input, weight, options):
    def make(shape):
        count = 1
        for n in shape:
            count *= n
        return doubles(count).detach().cos().reshape(shape).requires_grad_()

    function = getattr(torch.nn.functional, name)
    inputs = (make(input), make(weight))
    assert gradcheck(lambda x, w: function(x, w, **options), inputs)
    assert gradgradcheck(lambda x, w: function(x, w, **options).tanh(), inputs)


POOLS = [
    lambda F, x: F.max_pool2d(x, 2),
    lambda F, x: F.max_pool2d(x, 3, 2, 1),
    lambda F, x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    lambda F, x: F.adaptive_avg_pool2d(x, (2, 3)),
    lambda F, x: F.batch_norm(x, None, None, training=True),
    lambda F, x: F.group_norm(x, 2),
    lambda F, x: F.pad(x, (1, 1, 2, 0), "reflect"),
    lambda F, x: F.scaled_dot_product_attention(x, x.flip(2), x, is_causal=True),
]


@pytest.mark.parametrize("function", POOLS)
def test_derivatives_of_pooling_and_norms(function):
    x = (torch.arange(60, dtype=torch.float64) * 1.7).cos().reshape(1, 2, 5, 6).requires_grad_()
    assert gradcheck(lambda t: function(torch.nn.functional, t), (x,))


def test_checkpoint():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(4, 2)
    )
    x = torch.randn(5, 3, requires_grad=True)

    def gradients(run):
        model.zero_grad()
        x.grad = None
        torch.manual_seed(1)
        run().sum().backward()
        return [p.grad.clone() for p in model.parameters()] + [x.grad.clone()]

    class Holder:
        inner = model

        def run(self, t):
            return self.inner(t)

    expected = gradients(lambda: model(x))
    for run in (
        lambda: checkpoint(model, x, use_reentrant=False),
        lambda: checkpoint(lambda t: model(t), x, use_reentrant=True),
        lambda: checkpoint(Holder().run, x, use_reentrant=False),
        lambda: checkpoint_sequential(model, 2, x, use_reentrant=False),
    ):
        assert all((a == b).all() for a, b in zip(expected, gradients(run)))
