"""The tape: gradients, hooks, errors."""

import os
import threading

import pytest

import flambeau as torch


def test_backward_accumulates():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    for times in (1, 2):
        (x * x).sum().backward()
        assert x.grad.tolist() == [2 * times, 4 * times]
    x.grad = None
    x.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_grad_and_create_graph():
    x = torch.tensor(3.0, requires_grad=True)
    (g,) = torch.autograd.grad(x**3, x, create_graph=True)
    (h,) = torch.autograd.grad(g, x, create_graph=True)
    (third,) = torch.autograd.grad(h, x)
    assert (g.item(), h.item(), third.item()) == (27, 18, 6)
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(x * 2, torch.ones(1, requires_grad=True))
    y = torch.ones(1, requires_grad=True)
    assert torch.autograd.grad(x * 2, y, allow_unused=True) == (None,)


def test_modes():
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad

    @torch.no_grad()
    def function():
        return x * 2

    assert not function().requires_grad and not (x * 2).detach().requires_grad
    assert not (x > 0).requires_grad


def test_errors():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.ones(1).backward()
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x[0] = 1
    z = x * 1
    w = z.exp()
    w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        w.sum().backward()
    with pytest.raises(RuntimeError, match="out=... arguments don't support automatic"):
        torch.add(x, x, out=torch.zeros(2))


def test_writes_through_views():
    x = torch.ones(4, requires_grad=True)
    y = x * 1
    y[1:3] *= 3
    y.view(2, 2)[0, 0] = 10
    (y * torch.arange(4.0)).sum().backward()
    assert x.grad.tolist() == [0, 3, 6, 3]


def test_hooks():
    x = torch.ones(2, requires_grad=True)
    seen = []
    handle = x.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
    y = x * 3
    y.retain_grad()
    y.register_hook(lambda g: seen.append("y"))
    y.sum().backward()
    assert seen == ["y", [3, 3]] and x.grad.tolist() == [6, 6] and y.grad.tolist() == [1, 1]
    handle.remove()
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_complex_gradients_are_conjugate():
    z = torch.tensor([1 + 2j], requires_grad=True)
    (z * z.conj()).real.sum().backward()
    assert z.grad.tolist() == [2 + 4j]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.exp() / (1 + x.abs())).sum(),
        lambda x: x.softmax(0).log().mean(),
        lambda x: (x @ x.t()).tanh().sum(),
        lambda x: x.var(1).sqrt().sum(),
        lambda x: torch.nn.functional.layer_norm(x, (4,)).pow(3).sum(),
        lambda x: torch.cat([x, x * 2]).cumsum(0).sin().sum(),
        lambda x: x[torch.tensor([0, 0, 2])].prod(1).sum(),
        lambda x: torch.where(x > 0, x * x, x.exp()).max(1).values.sum(),
    ],
)
def test_against_differences(function):
    torch.manual_seed(2)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(function(x), x)
    step = 1e-6
    for i in range(3):
        for j in range(4):
            moved = x.detach().clone()
            moved[i, j] += step
            up = function(moved)
            moved[i, j] -= 2 * step
            difference = (up - function(moved)).item() / (2 * step)
            assert abs(difference - gradient[i, j].item()) < 1e-6 * (1 + abs(difference))


def test_threads_share_a_leaf():
    x = torch.zeros(50, requires_grad=True)

    def work():
        for _ in range(50):
            (x * 1).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.grad.tolist() == [200] * 50


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_while_others_compile():
    """A child of a fork computes, whatever other threads held at that moment."""
    stop = threading.Event()

    def compile_on_and_on():
        number = 0
        while not stop.is_set():
            number += 1
            x = torch.ones(*[1 + (number >> bit & 1) for bit in range(6)])
            for _ in range(1 + number % 5):
                x = (x * 2 + number).softmax(number % 6)

    threads = [threading.Thread(target=compile_on_and_on) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                big = torch.ones(300, 300, requires_grad=True)
                (big @ big).exp().mean().backward()
                os._exit(0 if big.grad.shape == (300, 300) else 3)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
