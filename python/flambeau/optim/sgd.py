"""Stochastic gradient descent."""

import flambeau
from flambeau.optim.optimizer import Optimizer, check_options


class SGD(Optimizer):
    """p -= lr * g with g = grad + weight_decay * p, or with momentum b = momentum * b +
    (1 - dampening) * g and p -= lr * b; nesterov takes g + momentum * b.

    Source: Sutskever et al., "On the importance of initialization and momentum in deep learning",
    2013.
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        momentum=0,
        dampening=0,
        weight_decay=0,
        nesterov=False,
        *,
        maximize=False,
        foreach=None,
        differentiable=False,
        fused=None,
    ):
        if lr < 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        check_options("SGD", foreach, differentiable, fused)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    @flambeau.no_grad()
    def step(self, closure=None):
        """One step; returns the closure's loss."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if group["momentum"] == 0:
                self._step(group, params, [], False)
                continue
            fresh = [p for p in params if self.state[p].get("momentum_buffer") is None]
            known = [p for p in params if self.state[p].get("momentum_buffer") is not None]
            for p in fresh:
                self.state[p]["momentum_buffer"] = flambeau.empty_like(p)
            for chosen, first in ((fresh, True), (known, False)):
                buffers = [self.state[p]["momentum_buffer"] for p in chosen]
                self._step(group, chosen, buffers, first)
        return loss

    @staticmethod
    def _step(group, params, buffers, first):
        if params:
            flambeau._fused_sgd_(
                params,
                [p.grad for p in params],
                buffers,
                weight_decay=group["weight_decay"],
                momentum=group["momentum"],
                lr=group["lr"],
                dampening=group["dampening"],
                nesterov=group["nesterov"],
                maximize=group["maximize"],
                is_first_step=first,
            )
