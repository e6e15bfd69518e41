"""A schedule that follows a metric."""

import math

from flambeau.optim.lr_scheduler.scheduler import (
    LRScheduler,
    check_optimizer,
    group_values,
    one_per_group,
    set_rate,
)


class ReduceLROnPlateau(LRScheduler):
    """The rate times `factor` when a metric has not become better for `patience` steps."""

    def __init__(
        self,
        optimizer,
        mode="min",
        factor=0.1,
        patience=10,
        threshold=1e-4,
        threshold_mode="rel",
        cooldown=0,
        min_lr=0,
        eps=1e-8,
    ):
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.min_lrs = one_per_group("min_lr", min_lr, optimizer)
        self.eps = eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = 0
        self.cooldown_counter = 0
        self.last_epoch = 0
        self._last_lr = group_values(optimizer, "lr")

    @property
    def in_cooldown(self):
        """Whether bad steps do not count yet, after the rate became lower."""
        return self.cooldown_counter > 0

    def _is_better(self, value):
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            bound = self.best * (1 + sign * self.threshold)
        else:
            bound = self.best + sign * self.threshold
        return sign * value > sign * bound

    def step(self, metrics, epoch=None):
        """Looks at the metric and lowers the rate where it is time."""
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = group_values(self.optimizer, "lr")

    def _reduce(self):
        groups = self.optimizer.param_groups
        # Groups that were added later have no bound of their own: they take the last one.
        bounds = self.min_lrs + self.min_lrs[-1:] * (len(groups) - len(self.min_lrs))
        for group, bound in zip(groups, bounds):
            old = float(group["lr"])
            new = max(old * self.factor, bound)
            if old - new > self.eps:
                set_rate(group, new)
