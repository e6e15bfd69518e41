"""Deferred execution: the same bits as immediate execution, whatever happens inside the scope."""

import threading

import numpy
import pytest

import flambeau as torch
from flambeau import _C, nn

F = nn.functional


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


def both(function, *arguments):
    """Runs immediate and deferred on equal copies; returns both results and the arguments after."""
    first = [a.clone() for a in arguments]
    second = [a.clone() for a in arguments]
    expected = function(*first)
    found = torch.compile(function)(*second)
    assert same(expected, found)
    for a, b in zip(first, second):
        assert same(a, b)
    return found


def test_a_chain_is_one_launch():
    x = torch.randn(100)
    with torch.deferred():
        before = _C._launch_count()
        y = ((x * 2 + 1).exp() - 3).tanh()
        assert _C._launch_count() == before
        z = y.clone()
        del y
    assert _C._launch_count() == before + 1
    assert same(z, ((x * 2 + 1).exp() - 3).tanh())


def test_a_value_is_read_inside():
    def function(x):
        y = x * 2
        if y.sum().item() > 0:
            return y + 1
        return y - 1

    both(function, torch.ones(5))
    both(function, -torch.ones(5))


def test_a_size_that_depends_on_values():
    both(lambda x: (x * 2)[(x > 0)] + 1, torch.randn(50))


def test_views_and_writes():
    def function(x):
        y = x * 2
        y[1:3] = 7
        y.t()[0] += 1
        z = y.view(-1)
        z.mul_(3)
        y[0, 0] = -1
        return y + z.view(y.shape)

    both(function, torch.randn(4, 4))


def test_writes_into_arguments():
    def function(x, y):
        x.add_(y)
        y.copy_(x[::2].repeat(2))
        x[0] = y[1]
        return x * y

    both(function, torch.randn(6), torch.randn(6))


def test_swaps_read_what_was_there():
    def function(x, y):
        old = x.clone()
        x.copy_(y)
        y.copy_(old)
        return x - y

    both(function, torch.randn(8), torch.randn(8))


def test_memory_shared_with_numpy():
    array = numpy.arange(4, dtype=numpy.float32)
    x = torch.from_numpy(array)
    with torch.deferred():
        y = x * 2
        array[:] = 0
        z = x + 1
        x.add_(5)
        assert array.tolist() == [5, 5, 5, 5]
        exported = (y + 1).numpy()
        assert exported.tolist() == [1, 3, 5, 7]
    assert y.tolist() == [0, 2, 4, 6] and z.tolist() == [1, 1, 1, 1]


def test_random_numbers():
    def function(x):
        return F.dropout(x, 0.5) + torch.rand(x.shape) * torch.randn(x.shape)

    x = torch.ones(1000)
    torch.manual_seed(3)
    expected = function(x)
    torch.manual_seed(3)
    assert same(torch.compile(function)(x), expected)


def test_gradients_and_optimizer():
    def train(compiled):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        x, y = torch.randn(10, 6), torch.randint(0, 3, (10,))

        def step():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        step = torch.compile(step) if compiled else step
        losses = [step().item() for _ in range(5)]
        return losses, [p.detach() for p in model.parameters()]

    losses, parameters = train(False)
    deferred_losses, deferred_parameters = train(True)
    assert losses == deferred_losses
    assert all(same(a, b) for a, b in zip(parameters, deferred_parameters))


def test_the_second_derivative():
    def function(x):
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad((x.exp() * x).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        return h

    both(function, torch.randn(7))


def test_an_error_that_depends_on_values():
    index = torch.tensor([0, 9])
    with torch.deferred():
        x = torch.arange(5.0)
        good = x * 2
        bad = torch.index_select(x, 0, index)
        after = bad + 1
        with pytest.raises(IndexError):
            _C._flush_deferred()
        assert good.tolist() == [0, 2, 4, 6, 8]
        with pytest.raises(IndexError):
            after.tolist()
        later = x + 1
    assert later.tolist() == [1, 2, 3, 4, 5]


def test_an_error_leaves_the_scope():
    with pytest.raises(IndexError):
        with torch.deferred():
            torch.index_select(torch.ones(2), 0, torch.tensor([5]))
    assert not torch.is_compiling()
    assert (torch.ones(2) + 1).tolist() == [2, 2]


def test_a_python_exception_runs_what_was_recorded():
    x = torch.zeros(3)
    with pytest.raises(ValueError, match="mine"):
        with torch.deferred():
            x.add_(1)
            raise ValueError("mine")
    assert x.tolist() == [1, 1, 1] and not torch.is_compiling()


def test_another_thread_reads():
    seen = []
    with torch.deferred():
        y = torch.ones(1000) * 3
        thread = threading.Thread(target=lambda: seen.append(y.sum().item()))
        thread.start()
        thread.join()
        z = y + 1
    assert seen == [3000] and z.sum().item() == 4000


def test_many_calls_and_nested_scopes():
    def function(x):
        for _ in range(400):
            x = x * 1.001 + 0.5
        with torch.deferred():
            return x.sqrt()

    both(function, torch.rand(9))


def test_a_new_size_compiles_nothing():
    function = torch.compile(lambda x, y: (x @ y).softmax(-1).sum(0))
    for n in (5, 6, 7, 64):
        x, y = torch.randn(n, 4), torch.randn(4, n + 1)
        expected = (x @ y).softmax(-1).sum(0)
        assert same(function(x, y), expected)


def test_modules_and_settings():
    model = nn.Linear(3, 2)
    compiled = torch.compile(model)
    x = torch.randn(4, 3)
    assert same(compiled(x).detach(), model(x).detach())
    assert list(compiled.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    assert torch.compile(model, disable=True) is model
    with pytest.raises(NotImplementedError, match="backend"):
        torch.compile(model, backend="other")
    with pytest.raises(TypeError):
        torch.compile(3)
