"""Adam, and Adam with decoupled weight decay."""

import flambeau
from flambeau.optim.optimizer import Optimizer, check_options


class Adam(Optimizer):
    """Steps by the first moment over the root of the second, both corrected for their zero start.

    Source: Kingma and Ba, "Adam: a method for stochastic optimization", 2015; amsgrad: Reddi et
    al., "On the convergence of Adam and beyond", 2018.
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        amsgrad=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
        fused=None,
        decoupled_weight_decay=False,
    ):
        if lr < 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if eps < 0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for index, beta in enumerate(betas):
            if not 0 <= beta < 1:
                raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
        if weight_decay < 0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        check_options(type(self).__name__, foreach, differentiable, fused)
        defaults = {
            "lr": lr,
            "betas": tuple(betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _state_of(self, p, amsgrad):
        state = self.state[p]
        if not state:
            state["step"] = flambeau.zeros(())
            state["exp_avg"] = flambeau.zeros_like(p)
            state["exp_avg_sq"] = flambeau.zeros_like(p)
            if amsgrad:
                state["max_exp_avg_sq"] = flambeau.zeros_like(p)
        return state

    @flambeau.no_grad()
    def step(self, closure=None):
        """One step; returns the closure's loss."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            amsgrad = group["amsgrad"]
            states = [self._state_of(p, amsgrad) for p in params]
            decoupled = group["decoupled_weight_decay"]
            operator = flambeau._fused_adamw_ if decoupled else flambeau._fused_adam_
            beta1, beta2 = group["betas"]
            operator(
                params,
                [p.grad for p in params],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [state["max_exp_avg_sq"] for state in states] if amsgrad else [],
                [state["step"] for state in states],
                lr=group["lr"],
                beta1=beta1,
                beta2=beta2,
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                amsgrad=amsgrad,
                maximize=group["maximize"],
            )
        return loss


class AdamW(Adam):
    """Adam that takes the decay from the parameter and not through the gradient.

    Source: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=1e-2,
        amsgrad=False,
        *,
        maximize=False,
        foreach=None,
        capturable=False,
        differentiable=False,
        fused=None,
    ):
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
