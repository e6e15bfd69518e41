"""Schedulers made of schedulers."""

import bisect

from flambeau.optim.lr_scheduler.scheduler import (
    LRScheduler,
    check_optimizer,
    group_values,
    set_rate,
)


class _Combined(LRScheduler):
    """Several schedulers of one optimizer."""

    def _take(self, optimizer, schedulers):
        name = type(self).__name__
        if not schedulers:
            raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
        optimizer = optimizer or schedulers[0].optimizer
        check_optimizer(optimizer)
        for number, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(
                    f"{name} at index {number} should have `optimizer` as its attribute."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got "
                    f"scheduler {type(scheduler).__name__} at index {number} with another one"
                )
        self.optimizer = optimizer
        self._schedulers = list(schedulers)

    def state_dict(self):
        """Everything but the optimizer, with the states of the schedulers."""
        states = [scheduler.state_dict() for scheduler in self._schedulers]
        return {**super().state_dict(), "_schedulers": states}

    def load_state_dict(self, state_dict):
        """Takes what `state_dict` returned."""
        super().load_state_dict({n: v for n, v in state_dict.items() if n != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"]):
            scheduler.load_state_dict(state)


class SequentialLR(_Combined):
    """Schedulers one after the other; number i ends at step milestones[i]."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        self._take(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        # Each scheduler took its first step when it was made: only the first one's counts.
        self._undo_first_step(self._schedulers)
        self._start(self._schedulers[0])
        self._last_lr = self._schedulers[0].get_last_lr()

    @classmethod
    def _undo_first_step(cls, schedulers):
        for scheduler in schedulers:
            if isinstance(scheduler, _Combined):
                cls._undo_first_step(scheduler._schedulers)
            elif hasattr(scheduler, "last_epoch"):
                scheduler.last_epoch -= 1

    @classmethod
    def _start(cls, scheduler):
        if isinstance(scheduler, ChainedScheduler):
            for part in scheduler._schedulers:
                cls._start(part)
        elif isinstance(scheduler, SequentialLR):
            cls._start(scheduler._schedulers[0])
        else:
            scheduler._initial_step()

    def step(self):
        """Sets the rates of the next step."""
        self.last_epoch += 1
        number = bisect.bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[number]
        if number > 0 and self._milestones[number - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def _update_lr(self, epoch):
        """Begins again, as one part of a sequence."""
        self.last_epoch = epoch
        self._schedulers[0]._update_lr(epoch)
        self._last_lr = self._schedulers[0].get_last_lr()


class ChainedScheduler(_Combined):
    """Schedulers that all change the rate at each step."""

    def __init__(self, schedulers, optimizer=None):
        self._take(optimizer, schedulers)
        self._last_lr = group_values(self.optimizer, "lr")

    def step(self):
        """Sets the rates of the next step."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = group_values(self.optimizer, "lr")

    def _update_lr(self, epoch):
        """Begins again, as one part of a sequence: the factors of all at this step."""
        for group in self.optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        for scheduler in self._schedulers:
            scheduler.last_epoch = epoch - 1
            scheduler._update_lr()
        self._last_lr = group_values(self.optimizer, "lr")
