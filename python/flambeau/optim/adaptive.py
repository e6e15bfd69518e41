"""Optimizers whose step adapts to each element, written as tensor arithmetic.

The arithmetic of a group's step is recorded and runs as one kernel over all its parameters (a
recording that grows long runs in pieces).
"""

import math

import flambeau
from flambeau.optim.optimizer import Optimizer, check_options


class _Recorded(Optimizer):
    """What these optimizers share.

    A subclass has `_new_state(p, group)`, the state of a parameter besides its `step`, and
    `_update(p, grad, state, group, step)`: tensor arithmetic that writes p and the state, with
    `step` counted from 1.
    """

    def __init__(self, params, defaults):
        check_options(
            type(self).__name__,
            defaults.get("foreach"),
            defaults.get("differentiable"),
            defaults.get("fused"),
        )
        super().__init__(params, defaults)

    @flambeau.no_grad()
    def step(self, closure=None):
        """One step; returns the closure's loss."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for p in params:
                if not self.state[p]:
                    self.state[p].update({"step": flambeau.zeros(()), **self._new_state(p, group)})
            steps = [int(self.state[p]["step"]) + 1 for p in params]
            with flambeau.deferred():
                for p, step in zip(params, steps):
                    state = self.state[p]
                    state["step"].add_(1)
                    grad = -p.grad if group["maximize"] else p.grad
                    self._update(p, grad, state, group, step)
        return loss


def _check(condition, text, value):
    if not condition:
        raise ValueError(f"Invalid {text}: {value}")


def _check_betas(betas):
    for index, beta in enumerate(betas):
        _check(0 <= beta < 1, f"beta parameter at index {index}", beta)


def _decayed(p, grad, group):
    decay = group["weight_decay"]
    return grad + decay * p if decay else grad


class RMSprop(_Recorded):
    """Steps by the gradient over the root of its running mean square. Source: Hinton, lecture 6e of
    "Neural networks for machine learning", 2012; centered: Graves, 2013."""

    def __init__(
        self,
        params,
        lr=1e-2,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0,
        momentum=0,
        centered=False,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        _check(lr >= 0, "learning rate", lr)
        _check(eps >= 0, "epsilon value", eps)
        _check(momentum >= 0, "momentum value", momentum)
        _check(weight_decay >= 0, "weight_decay value", weight_decay)
        _check(alpha >= 0, "alpha value", alpha)
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "capturable": capturable,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
            },
        )

    def _new_state(self, p, group):
        names = ["square_avg"]
        if group["momentum"] > 0:
            names.append("momentum_buffer")
        if group["centered"]:
            names.append("grad_avg")
        return {name: flambeau.zeros_like(p) for name in names}

    def _update(self, p, grad, state, group, step):
        grad = _decayed(p, grad, group)
        alpha, square = group["alpha"], state["square_avg"]
        square.mul_(alpha).add_(grad * grad * (1 - alpha))
        mean = square
        if group["centered"]:
            state["grad_avg"].lerp_(grad, 1 - alpha)
            mean = square - state["grad_avg"] * state["grad_avg"]
        scaled = grad / (mean.sqrt() + group["eps"])
        if group["momentum"] > 0:
            scaled = state["momentum_buffer"].mul_(group["momentum"]).add_(scaled)
        p.sub_(scaled * group["lr"])


class Adagrad(_Recorded):
    """Steps by the gradient over the root of the sum of its squares. Source: Duchi, Hazan and
    Singer, "Adaptive subgradient methods", 2011."""

    def __init__(
        self,
        params,
        lr=1e-2,
        lr_decay=0,
        weight_decay=0,
        initial_accumulator_value=0,
        eps=1e-10,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        fused=None,
    ):
        _check(lr >= 0, "learning rate", lr)
        _check(lr_decay >= 0, "lr_decay value", lr_decay)
        _check(weight_decay >= 0, "weight_decay value", weight_decay)
        _check(
            initial_accumulator_value >= 0,
            "initial_accumulator_value value",
            initial_accumulator_value,
        )
        _check(eps >= 0, "epsilon value", eps)
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "fused": fused,
            },
        )

    def _new_state(self, p, group):
        return {"sum": flambeau.full_like(p, group["initial_accumulator_value"])}

    def _update(self, p, grad, state, group, step):
        grad = _decayed(p, grad, group)
        rate = group["lr"] / (1 + (step - 1) * group["lr_decay"])
        state["sum"].add_(grad * grad)
        p.sub_(grad / (state["sum"].sqrt() + group["eps"]) * rate)


class Adadelta(_Recorded):
    """Steps in units of the parameter. Source: Zeiler, "ADADELTA", 2012."""

    def __init__(
        self,
        params,
        lr=1.0,
        rho=0.9,
        eps=1e-6,
        weight_decay=0,
        foreach=None,
        *,
        capturable=False,
        maximize=False,
        differentiable=False,
    ):
        _check(lr >= 0, "learning rate", lr)
        _check(0 <= rho <= 1, "rho value", rho)
        _check(eps >= 0, "epsilon value", eps)
        _check(weight_decay >= 0, "weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "rho": rho,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "capturable": capturable,
                "foreach": foreach,
                "differentiable": differentiable,
            },
        )

    def _new_state(self, p, group):
        return {"square_avg": flambeau.zeros_like(p), "acc_delta": flambeau.zeros_like(p)}

    def _update(self, p, grad, state, group, step):
        grad = _decayed(p, grad, group)
        rho, eps, square, moved = (
            group["rho"],
            group["eps"],
            state["square_avg"],
            state["acc_delta"],
        )
        square.mul_(rho).add_(grad * grad * (1 - rho))
        delta = (moved + eps).sqrt() / (square + eps).sqrt() * grad
        moved.mul_(rho).add_(delta * delta * (1 - rho))
        p.sub_(delta * group["lr"])


class Rprop(_Recorded):
    """Steps by the gradient's sign, longer while it stays. Source: Riedmiller and Braun, 1993."""

    def __init__(
        self,
        params,
        lr=1e-2,
        etas=(0.5, 1.2),
        step_sizes=(1e-6, 50),
        *,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        _check(lr >= 0, "learning rate", lr)
        _check(0 < etas[0] < 1 < etas[1], "eta values", tuple(etas))
        super().__init__(
            params,
            {
                "lr": lr,
                "etas": tuple(etas),
                "step_sizes": tuple(step_sizes),
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _new_state(self, p, group):
        return {"prev": flambeau.zeros_like(p), "step_size": flambeau.full_like(p, group["lr"])}

    def _update(self, p, grad, state, group, step):
        shrink, grow = group["etas"]
        low, high = group["step_sizes"]
        agreement = (grad * state["prev"]).sign()
        factor = flambeau.where(agreement > 0, grow, 1.0)
        factor = flambeau.where(agreement < 0, shrink, factor)
        size = (state["step_size"] * factor).clamp(low, high)
        grad = flambeau.where(agreement < 0, flambeau.zeros_like(grad), grad)
        state["step_size"].copy_(size)
        state["prev"].copy_(grad)
        p.sub_(grad.sign() * size)


class ASGD(_Recorded):
    """Gradient descent with a mean of its parameters. Source: Polyak and Juditsky, 1992."""

    def __init__(
        self,
        params,
        lr=1e-2,
        lambd=1e-4,
        alpha=0.75,
        t0=1e6,
        weight_decay=0,
        foreach=None,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
        _check(lr >= 0, "learning rate", lr)
        _check(weight_decay >= 0, "weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "lambd": lambd,
                "alpha": alpha,
                "t0": t0,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _new_state(self, p, group):
        return {
            "eta": flambeau.tensor(float(group["lr"])),
            "mu": flambeau.ones(()),
            "ax": flambeau.zeros_like(p),
        }

    def _update(self, p, grad, state, group, step):
        grad = _decayed(p, grad, group)
        lr, lambd, alpha, t0 = (group[k] for k in ("lr", "lambd", "alpha", "t0"))

        def eta_of(t):
            return lr / (1 + lambd * lr * t) ** alpha if t else lr

        eta, mu = eta_of(step - 1), 1 / max(1, step - 1 - t0)
        p.mul_(1 - lambd * eta).sub_(grad * eta)
        if mu == 1:
            state["ax"].copy_(p)
        else:
            state["ax"].add_((p - state["ax"]) * mu)
        state["eta"].fill_(eta_of(step))
        state["mu"].fill_(1 / max(1, step - t0))


class Adamax(_Recorded):
    """Adam with the largest gradient in the place of the root mean square. Source: Kingma and Ba,
    2015."""

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
        _check(lr >= 0, "learning rate", lr)
        _check(eps >= 0, "epsilon value", eps)
        _check_betas(betas)
        _check(weight_decay >= 0, "weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(betas),
                "eps": eps,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _new_state(self, p, group):
        return {"exp_avg": flambeau.zeros_like(p), "exp_inf": flambeau.zeros_like(p)}

    def _update(self, p, grad, state, group, step):
        grad = _decayed(p, grad, group)
        beta1, beta2 = group["betas"]
        state["exp_avg"].lerp_(grad, 1 - beta1)
        largest = flambeau.maximum(state["exp_inf"] * beta2, grad.abs() + group["eps"])
        state["exp_inf"].copy_(largest)
        p.sub_(state["exp_avg"] / largest * (group["lr"] / (1 - beta1**step)))


class NAdam(_Recorded):
    """Adam with Nesterov's momentum. Source: Dozat, "Incorporating Nesterov momentum into Adam",
    2016."""

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        momentum_decay=4e-3,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        _check(lr >= 0, "learning rate", lr)
        _check(eps >= 0, "epsilon value", eps)
        _check_betas(betas)
        _check(weight_decay >= 0, "weight_decay value", weight_decay)
        _check(momentum_decay >= 0, "momentum_decay value", momentum_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(betas),
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def _new_state(self, p, group):
        return {
            "mu_product": flambeau.ones(()),
            "exp_avg": flambeau.zeros_like(p),
            "exp_avg_sq": flambeau.zeros_like(p),
        }

    def _update(self, p, grad, state, group, step):
        beta1, beta2 = group["betas"]
        lr, decay = group["lr"], group["momentum_decay"]
        if group["decoupled_weight_decay"]:
            p.mul_(1 - lr * group["weight_decay"])
        else:
            grad = _decayed(p, grad, group)
        mu = beta1 * (1 - 0.5 * 0.96 ** (step * decay))
        mu_next = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * decay))
        product = state["mu_product"].mul_(mu)
        state["exp_avg"].lerp_(grad, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).add_(grad * grad * (1 - beta2))
        scale = (state["exp_avg_sq"] / (1 - beta2**step)).sqrt() + group["eps"]
        p.sub_(grad / scale * (lr * (1 - mu) / (1 - product)))
        p.sub_(state["exp_avg"] / scale * (lr * mu_next / (1 - product * mu_next)))


class RAdam(_Recorded):
    """Adam that waits until the variance of its step is known. Source: Liu et al., "On the variance
    of the adaptive learning rate and beyond", 2019."""

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        _check(lr >= 0, "learning rate", lr)
        _check(eps >= 0, "epsilon value", eps)
        _check_betas(betas)
        _check(weight_decay >= 0, "weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(betas),
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "decoupled_weight_decay": decoupled_weight_decay,
                "differentiable": differentiable,
            },
        )

    def _new_state(self, p, group):
        return {"exp_avg": flambeau.zeros_like(p), "exp_avg_sq": flambeau.zeros_like(p)}

    def _update(self, p, grad, state, group, step):
        beta1, beta2 = group["betas"]
        if group["decoupled_weight_decay"]:
            p.mul_(1 - group["lr"] * group["weight_decay"])
        else:
            grad = _decayed(p, grad, group)
        state["exp_avg"].lerp_(grad, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).add_(grad * grad * (1 - beta2))
        corrected = state["exp_avg"] / (1 - beta1**step)
        second = 1 - beta2**step
        most = 2 / (1 - beta2) - 1
        length = most - 2 * step * beta2**step / second
        if length > 5:
            rectified = math.sqrt(
                (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
            )
            adaptive = math.sqrt(second) / (state["exp_avg_sq"].sqrt() + group["eps"])
            p.sub_(corrected * group["lr"] * adaptive * rectified)
        else:
            p.sub_(corrected * group["lr"])
