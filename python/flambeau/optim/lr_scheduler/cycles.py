"""Schedules that rise and fall."""

import math

from flambeau.optim.lr_scheduler.scheduler import (
    LRScheduler,
    check_optimizer,
    one_per_group,
    set_rate,
)


def _positive(name, value):
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")


def _check_momentum(optimizer, option):
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(f"optimizer must support momentum or beta1 with `{option}` option enabled")


def _set_momentum(group, value):
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines from the initial rate to `eta_min`: the first takes `T_0` steps, each further
    one `T_mult` times as many as the one before.

    Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017.
    """

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        _positive("T_0", T_0)
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        turn = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * turn for base in self.base_lrs]

    def step(self, epoch=None):
        """Sets the rates of the next step, or of step `epoch`, which may lie between steps."""
        if epoch is None:
            epoch = self.last_epoch + 1
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        self._update_lr(epoch)

    def _update_lr(self, epoch):
        self.T_cur, self.T_i = epoch, self.T_0
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult
        super()._update_lr(math.floor(epoch))


class CyclicLR(LRScheduler):
    """Up from `base_lr` to `max_lr` in `step_size_up` steps, down in `step_size_down`, again and
    again; the height shrinks by half each cycle ('triangular2'), by gamma each step ('exp_range'),
    or by `scale_fn` of the cycle or of the step. Momentum goes the other way.

    Source: Smith, "Cyclical learning rates for training neural networks", 2017.
    """

    def __init__(
        self,
        optimizer,
        base_lr,
        max_lr,
        step_size_up=2000,
        step_size_down=None,
        mode="triangular",
        gamma=1.0,
        scale_fn=None,
        scale_mode="cycle",
        cycle_momentum=True,
        base_momentum=0.8,
        max_momentum=0.9,
        last_epoch=-1,
    ):
        check_optimizer(optimizer)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        base_lrs = one_per_group("base_lr", base_lr, optimizer)
        self.max_lrs = one_per_group("max_lr", max_lr, optimizer)
        step_size_down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + step_size_down)
        self.step_ratio = step_size_up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn = scale_fn
        self.scale_mode = "iterations" if mode == "exp_range" and not scale_fn else scale_mode
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            _check_momentum(optimizer, "cycle_momentum")
            self.base_momentums = one_per_group("base_momentum", base_momentum, optimizer)
            self.max_momentums = one_per_group("max_momentum", max_momentum, optimizer)
        if last_epoch == -1:
            for number, group in enumerate(optimizer.param_groups):
                set_rate(group, base_lrs[number])
                if cycle_momentum:
                    _set_momentum(group, self.max_momentums[number])
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x):
        """The height of cycle, or step, `x`."""
        if self._scale_fn is not None:
            return self._scale_fn(x)
        if self.mode == "triangular2":
            return 1 / 2.0 ** (x - 1)
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self):
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        up = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height = up * self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, base, largest in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums
            ):
                _set_momentum(group, largest - (largest - base) * height)
        return [
            base + (largest - base) * height for base, largest in zip(self.base_lrs, self.max_lrs)
        ]

    def state_dict(self):
        """Everything but the optimizer; a function `scale_fn` is left out."""
        state = super().state_dict()
        del state["_scale_fn"]
        return state


class OneCycleLR(LRScheduler):
    """One cycle of `total_steps` steps: from max_lr / div_factor up to `max_lr` in the part
    `pct_start` of them, then down to the initial rate / final_div_factor; with `three_phase` first
    down to the initial rate in as many steps as up. Momentum goes the other way.

    Source: Smith and Topin, "Super-convergence: very fast training of neural networks using large
    learning rates", 2018.
    """

    def __init__(
        self,
        optimizer,
        max_lr,
        total_steps=None,
        epochs=None,
        steps_per_epoch=None,
        pct_start=0.3,
        anneal_strategy="cos",
        cycle_momentum=True,
        base_momentum=0.85,
        max_momentum=0.95,
        div_factor=25.0,
        final_div_factor=1e4,
        three_phase=False,
        last_epoch=-1,
    ):
        check_optimizer(optimizer)
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError(
                    "You must define either total_steps OR (epochs AND steps_per_epoch)"
                )
            _positive("epochs", epochs)
            _positive("steps_per_epoch", steps_per_epoch)
            total_steps = epochs * steps_per_epoch
        _positive("total_steps", total_steps)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self.total_steps = total_steps
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = self._phases(pct_start, three_phase)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            _check_momentum(optimizer, "cycle_momentum")
        if last_epoch == -1:
            max_lrs = one_per_group("max_lr", max_lr, optimizer)
            base_momentums = one_per_group("base_momentum", base_momentum, optimizer)
            max_momentums = one_per_group("max_momentum", max_momentum, optimizer)
            for number, group in enumerate(optimizer.param_groups):
                group["max_lr"] = max_lrs[number]
                group["initial_lr"] = max_lrs[number] / div_factor
                group["min_lr"] = group["initial_lr"] / final_div_factor
                if cycle_momentum:
                    group["max_momentum"] = max_momentums[number]
                    group["base_momentum"] = base_momentums[number]
                    _set_momentum(group, max_momentums[number])
        super().__init__(optimizer, last_epoch)

    def _phases(self, pct_start, three_phase):
        """Each phase: its last step, and the options of a group it leads from and to."""
        top = float(pct_start * self.total_steps) - 1
        phases = [(top, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
        if three_phase:
            phases += [
                (2 * top, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (self.total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            phases += [(self.total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        return [dict(zip(names, phase)) for phase in phases]

    def _between(self, start, end, part):
        if self._anneal_func_type == "linear":
            return start + (end - start) * part
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def get_lr(self):
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        start = 0.0
        for phase in self._schedule_phases:
            if step <= phase["end_step"]:
                break
            start = phase["end_step"] if phase is not self._schedule_phases[-1] else start
        part = (step - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                start_value, end_value = (
                    group[phase["start_momentum"]],
                    group[phase["end_momentum"]],
                )
                _set_momentum(group, self._between(start_value, end_value, part))
        return rates
