"""What optimizers share: groups of parameters with options, and the state of each parameter."""

import collections
import copy
import functools
import itertools

import flambeau
from flambeau._C import Tensor
from flambeau.utils.hooks import HookDict
from flambeau.utils.naming import type_name

required = object()  # the default of an option that every group must give

_HOOKS = (
    "_step_pre_hooks",
    "_step_post_hooks",
    "_state_dict_pre_hooks",
    "_state_dict_post_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class Optimizer:
    """The base class of optimizers.

    `params` is an iterable of tensors, of (name, tensor) pairs, or of dictionaries with `params`
    and options of that group; `defaults` are the options of groups that do not say otherwise.
    A subclass defines `step`. `has_stepped` tells schedulers whether it was called.
    """

    has_stepped = False

    def __init__(self, params, defaults):
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type_name(params)}"
            )
        self.defaults = defaults
        self.state = collections.defaultdict(dict)
        self.param_groups = []
        for name in _HOOKS:
            setattr(self, name, HookDict())
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.step)

    def add_param_group(self, param_group):
        """Adds parameters, a dictionary with `params` and their options, while training."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type_name(param_group)}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        params = [params] if isinstance(params, Tensor) else list(params)
        names = [entry[0] for entry in params if isinstance(entry, tuple)]
        if names:
            if len(names) != len(params):
                raise ValueError(
                    "all optimizer params should be with/without names. Some param names are "
                    "missing"
                )
            group["param_names"] = names
            params = [tensor for _, tensor in params]
        for tensor in params:
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    f"{type_name(tensor)}"
                )
            if not (tensor.is_leaf or tensor.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        if len({id(p) for p in params}) != len(params):
            raise ValueError("optimizer contains a parameter group with duplicate parameters")
        group["params"] = params
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            group.setdefault(name, default)
        if any(("param_names" in other) != bool(names) for other in self.param_groups):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with' if names else 'without'} names to the optimizer"
            )
        known = {id(p) for other in self.param_groups for p in other["params"]}
        if any(id(p) in known for p in params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def step(self, closure=None):
        """Changes the parameters by their gradients; returns the closure's loss."""
        raise NotImplementedError

    def _loss_of(self, closure):
        if closure is None:
            return None
        with flambeau.enable_grad():
            return closure()

    def zero_grad(self, set_to_none=True):
        """Forgets gradients, or makes them zero."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if set_to_none:
                    p.grad = None
                else:
                    p.grad = p.grad.detach().zero_()

    def register_step_pre_hook(self, hook):
        """Calls `hook(optimizer, args, kwargs)` before each step; what it returns other than None
        replaces both."""
        return self._step_pre_hooks.add(hook)

    def register_step_post_hook(self, hook):
        """Calls `hook(optimizer, args, kwargs)` after each step."""
        return self._step_post_hooks.add(hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """Calls `hook(optimizer)` before each `state_dict()`."""
        return self._state_dict_pre_hooks.add(hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """Calls `hook(optimizer, state_dict)` after each `state_dict()`; a result other than None
        replaces it."""
        return self._state_dict_post_hooks.add(hook, prepend=prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """Calls `hook(optimizer, state_dict)` with a copy before each `load_state_dict`; a result
        other than None replaces it."""
        return self._load_state_dict_pre_hooks.add(hook, prepend=prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """Calls `hook(optimizer)` after each `load_state_dict`."""
        return self._load_state_dict_post_hooks.add(hook, prepend=prepend)

    def state_dict(self):
        """State by number of the parameter, and groups that name parameters by number."""
        for hook in self._state_dict_pre_hooks.values():
            hook(self)
        number = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                number.setdefault(id(p), len(number))
            packed = {name: value for name, value in group.items() if name != "params"}
            packed["params"] = [number[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {
            number[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        result = {"state": state, "param_groups": groups}
        return _replaced_by(self._state_dict_post_hooks, self, result)

    def load_state_dict(self, state_dict):
        """Takes what `state_dict` returned; groups must be as long as this optimizer's."""
        state_dict = _replaced_by(self._load_state_dict_pre_hooks, self, dict(state_dict))
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        for mine, other in zip(self.param_groups, saved):
            if len(mine["params"]) != len(other["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    "optimizer's group"
                )
        numbers = itertools.chain.from_iterable(group["params"] for group in saved)
        params = itertools.chain.from_iterable(group["params"] for group in self.param_groups)
        by_number = dict(zip(numbers, params))
        self.state = collections.defaultdict(dict)
        for number, entries in state_dict["state"].items():
            if number in by_number:
                p = by_number[number]
                self.state[p] = {name: _as_state(p, name, v) for name, v in entries.items()}
            else:
                self.state[number] = copy.deepcopy(entries)
        for mine, other in zip(self.param_groups, saved):
            options = {n: copy.deepcopy(v) for n, v in other.items() if n != "params"}
            mine.update(options)
        for hook in self._load_state_dict_post_hooks.values():
            hook(self)

    def __getstate__(self):
        return {name: self.__dict__[name] for name in ("defaults", "state", "param_groups")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name in _HOOKS:
            self.__dict__.setdefault(name, HookDict())

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def _as_state(parameter, name, value):
    """A copy of saved state in the dtype of its parameter; counters of steps keep theirs."""
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    if name == "step" or not value.is_floating_point():
        return value.clone()
    return value.to(parameter.dtype, copy=True)


def _replaced_by(hooks, optimizer, state_dict):
    for hook in hooks.values():
        changed = hook(optimizer, state_dict)
        state_dict = state_dict if changed is None else changed
    return state_dict


def check_options(name, foreach, differentiable, fused):
    """`foreach` and `fused` are accepted for scripts that pass them: steps are always fused."""
    if differentiable:
        raise NotImplementedError(f"{name}: differentiable=True is not implemented; allowed: False")
    if foreach and fused:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def _with_hooks(step):
    @functools.wraps(step)
    def hooked(self, *args, **kwargs):
        if type(self).step is not hooked:
            return step(self, *args, **kwargs)  # called by the step of a subclass
        args = (self, *args)  # as hooks see them
        for hook in self._step_pre_hooks.values():
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not isinstance(changed, tuple) or len(changed) != 2:
                    raise RuntimeError(
                        "step pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {changed}."
                    )
                args, kwargs = changed
        result = step(*args, **kwargs)
        self.has_stepped = True
        for hook in self._step_post_hooks.values():
            hook(self, args, kwargs)
        return result

    return hooked
