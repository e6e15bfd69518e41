"""What optimizers share: groups of parameters with options, and the state of each parameter."""

import collections
import copy
import itertools

import flambeau
from flambeau._C import Tensor
from flambeau.utils.hooks import HookDict
from flambeau.utils.naming import type_name

required = object()  # the default of an option that every group must give


class Optimizer:
    """The base class of optimizers.

    `params` is an iterable of tensors, of (name, tensor) pairs, or of dictionaries with `params`
    and options of that group; `defaults` are the options of groups that do not say otherwise.
    """

    def __init__(self, params, defaults):
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type_name(params)}"
            )
        self.defaults = defaults
        self.state = collections.defaultdict(dict)
        self.param_groups = []
        self._step_pre_hooks = HookDict()
        self._step_post_hooks = HookDict()
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
        if params and isinstance(params[0], tuple):
            group["param_names"] = [name for name, _ in params]
            params = [tensor for _, tensor in params]
        for tensor in params:
            if not isinstance(tensor, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but got {type_name(tensor)}")
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
        """Calls `hook(optimizer, args, kwargs)` before each step."""
        return self._step_pre_hooks.add(hook)

    def register_step_post_hook(self, hook):
        """Calls `hook(optimizer, args, kwargs)` after each step."""
        return self._step_post_hooks.add(hook)

    def state_dict(self):
        """State by number of the parameter, and groups that name parameters by number."""
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
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Takes what `state_dict` returned; groups must be as long as this optimizer's."""
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

    def __getstate__(self):
        return {name: self.__dict__[name] for name in ("defaults", "state", "param_groups")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.__dict__.setdefault("_step_pre_hooks", HookDict())
        self.__dict__.setdefault("_step_post_hooks", HookDict())

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


def _with_hooks(step):
    def hooked(self, *args, **kwargs):
        for hook in self._step_pre_hooks.values():
            changed = hook(self, args, kwargs)
            if changed is not None:
                args, kwargs = changed
        with flambeau.no_grad():
            result = step(self, *args, **kwargs)
        for hook in self._step_post_hooks.values():
            hook(self, args, kwargs)
        return result

    hooked.__name__ = hooked.__qualname__ = "step"
    hooked.__doc__ = step.__doc__
    return hooked
