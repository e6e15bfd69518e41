"""What schedulers share: counting steps and writing the rates into the optimizer's groups."""

import warnings

from flambeau._C import Tensor
from flambeau.optim.optimizer import Optimizer


def check_optimizer(optimizer):
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def group_values(optimizer, name):
    """One option of all groups; tensors are copied, since they are written in place."""
    values = [group[name] for group in optimizer.param_groups]
    return [value.clone() if isinstance(value, Tensor) else value for value in values]


def set_rate(group, rate):
    """Gives a group its rate; a rate that is a tensor stays the same tensor."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def one_per_group(name, value, optimizer):
    """A list with one value for each group, from such a list or from one value for all."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"{name} must have the same length as optimizer.param_groups: {count}")
    return list(value)


class LRScheduler:
    """The base class: `step()` moves to the next rate of each group.

    A subclass defines `get_lr`, which returns the rates of step `last_epoch`, mostly from the
    present ones, so that several schedulers can change one optimizer. One that knows the rates of
    any step from `base_lrs` alone also defines `_get_closed_form_lr`.
    """

    def __init__(self, optimizer, last_epoch=-1):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                rate = group["lr"]
                group.setdefault("initial_lr", rate.clone() if isinstance(rate, Tensor) else rate)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming "
                    "scheduler with last_epoch >= 0: load the optimizer's state first"
                )
        self.base_lrs = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self):
        """Sets the rates of the first step; `_is_initial` tells `get_lr` of it."""
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_lr(self):
        """The rate of each group at step `last_epoch`."""
        raise NotImplementedError

    def get_last_lr(self):
        """The rates that were set last."""
        return self._last_lr

    def step(self, epoch=None):
        """Sets the rates of the next step, or of step `epoch`."""
        if self._step_count == 1 and not self.optimizer.has_stepped:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first rate "
                "of the schedule is skipped. Call `optimizer.step()` first.",
                stacklevel=2,
            )
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if epoch is not None and hasattr(self, "_get_closed_form_lr"):
            rates = self._get_closed_form_lr()
        else:
            rates = self.get_lr()
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = group_values(self.optimizer, "lr")

    def state_dict(self):
        """Everything but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict):
        """Takes what `state_dict` returned."""
        self.__dict__.update(state_dict)

    def _rates(self):
        return group_values(self.optimizer, "lr")

    def _scaled(self, factor):
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _from_base(self, factor):
        return [base * factor for base in self.base_lrs]
