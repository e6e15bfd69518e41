"""Module: a named tree of parameters, buffers and other modules with a `forward`."""

import itertools

import flambeau
from flambeau._C import Tensor
from flambeau.nn.modules.calling import ModuleCall
from flambeau.nn.modules.state import ModuleState
from flambeau.nn.parameter import Buffer, Parameter
from flambeau.utils.hooks import HookDict
from flambeau.utils.naming import type_name

_HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def indented(text):
    first, *rest = text.split("\n")
    return "\n".join([first, *("  " + line for line in rest)])


class Module(ModuleCall, ModuleState):
    """The base class of everything that holds parameters.

    Assigning a Parameter, a Buffer or a Module to an attribute registers it. `training` tells
    modules that behave differently while training; `train()` and `eval()` set it in the whole tree.
    """

    def __init__(self, *args, **kwargs):
        if args or kwargs:
            given = f"{len(args)} positional" if args else f"keyword '{next(iter(kwargs))}'"
            raise TypeError(f"{type(self).__name__}.__init__() got unexpected arguments: {given}")
        set_attribute = super().__setattr__
        set_attribute("training", True)
        set_attribute("_parameters", {})
        set_attribute("_buffers", {})
        set_attribute("_non_persistent_buffers_set", set())
        set_attribute("_modules", {})
        for name in _HOOKS:
            set_attribute(name, HookDict())

    # Attributes.

    def _kinds(self):
        attributes = self.__dict__
        if "_modules" not in attributes:
            raise AttributeError(
                f"cannot assign to {type(self).__name__} before Module.__init__() call"
            )
        return attributes["_parameters"], attributes["_buffers"], attributes["_modules"]

    def _forget(self, name):
        self.__dict__.pop(name, None)
        for entries in self._kinds():
            entries.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __setattr__(self, name, value):
        if isinstance(value, Parameter):
            self._kinds()
            self._forget(name)
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            _, _, modules = self._kinds()
            if name not in modules:
                self._forget(name)
            modules[name] = value
        elif isinstance(value, Buffer):
            self._kinds()
            self._forget(name)
            self.register_buffer(name, value, value.persistent)
        else:
            self._set_plain(name, value)

    def _set_plain(self, name, value):
        attributes = self.__dict__
        if name in attributes.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type_name(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            attributes["_parameters"][name] = None
        elif name in attributes.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type_name(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            attributes["_modules"][name] = None
        elif name in attributes.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{type_name(value)}' as buffer '{name}' "
                    "(torch.nn.Buffer, torch.Tensor or None expected)"
                )
            attributes["_buffers"][name] = value
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name):
        attributes = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            entries = attributes.get(kind)
            if entries is not None and name in entries:
                return entries[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name):
        for entries in self._kinds():
            if name in entries:
                del entries[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self):
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[:1].isdigit())

    def _check_name(self, name, what):
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {type_name(name)}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')

    def register_parameter(self, name, param):
        """Adds a parameter, or None for one that may come later, under `name`."""
        parameters, _, _ = self._kinds()
        self._check_name(name, "parameter")
        if hasattr(self, name) and name not in parameters:
            raise KeyError(f"attribute '{name}' already exists")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type_name(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and not param.is_leaf:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                "created explicitly."
            )
        parameters[name] = param

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a tensor that is state but not trained; `state_dict` has it if `persistent`."""
        _, buffers, _ = self._kinds()
        self._check_name(name, "buffer")
        if hasattr(self, name) and name not in buffers:
            raise KeyError(f"attribute '{name}' already exists")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type_name(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name, module):
        """Adds a child module, or None, under `name`."""
        _, _, modules = self._kinds()
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{type_name(module)} is not a Module subclass")
        self._check_name(name, "module")
        if hasattr(self, name) and name not in modules:
            raise KeyError(f"attribute '{name}' already exists")
        modules[name] = module

    register_module = add_module

    # The tree.

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """Yields (dotted name, module) of this module and all below it."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, below, remove_duplicate)

    def modules(self, remove_duplicate=True):
        """Yields this module and all below it, each once unless `remove_duplicate` is false."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self):
        """Yields (name, module) of the modules directly below, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        """Yields the modules directly below, each once."""
        return (module for _, module in self.named_children())

    def _named_members(self, kind, prefix, recurse, remove_duplicate):
        seen = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in modules:
            for name, tensor in module.__dict__[kind].items():
                if tensor is None or id(tensor) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(tensor))
                yield f"{path}.{name}" if path else name, tensor

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """Yields (dotted name, parameter), each parameter once."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        """Yields the parameters, each once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """Yields (dotted name, buffer), each buffer once."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """Yields the buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def get_submodule(self, target):
        """Returns the module of a dotted name."""
        module = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return module

    def set_submodule(self, target, module, strict=False):
        """Puts a module in the place of a dotted name; with `strict` there must be one already."""
        path, _, name = target.rpartition(".")
        if not name:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if not isinstance(getattr(parent, name, module), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def _get_member(self, target, kind, what):
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module.__dict__[kind]:
            raise AttributeError(f"{type(module).__name__} has no {what} `{name}`")
        return module.__dict__[kind][name]

    def get_parameter(self, target):
        """Returns the parameter of a dotted name."""
        return self._get_member(target, "_parameters", "parameter")

    def get_buffer(self, target):
        """Returns the buffer of a dotted name."""
        return self._get_member(target, "_buffers", "buffer")

    # What is done to all of it.

    def apply(self, fn):
        """Calls `fn` on each module of the tree, children first; returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn, recurse=True):
        """Replaces the data of each parameter, its gradient, and each buffer by `fn` of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            with flambeau.no_grad():
                parameter.data = fn(parameter.data)
                if parameter.grad is not None:
                    parameter.grad = fn(parameter.grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args, **kwargs):
        """Moves to a dtype, a device, or those of a tensor; a dtype applies to floating-point and
        complex tensors only."""
        dtype, rest = kwargs.pop("dtype", None), []
        for argument in args:
            if isinstance(argument, flambeau.dtype):
                dtype = argument
            elif isinstance(argument, Tensor):
                dtype = argument.dtype
                rest.append(argument.device)
            else:
                rest.append(argument)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )

        def convert(tensor):
            own = tensor.is_floating_point() or tensor.is_complex()
            result = tensor.to(*rest, **kwargs) if rest or kwargs else tensor
            return result.to(dtype) if dtype is not None and own else result

        return self._apply(convert)

    def float(self):
        """Casts floating-point tensors to float32."""
        return self._to_float(flambeau.float32)

    def double(self):
        """Casts floating-point tensors to float64."""
        return self._to_float(flambeau.float64)

    def half(self):
        """Casts floating-point tensors to float16."""
        return self._to_float(flambeau.float16)

    def bfloat16(self):
        """Casts floating-point tensors to bfloat16."""
        return self._to_float(flambeau.bfloat16)

    def type(self, dst_type):
        """Casts all tensors to a dtype."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def cpu(self):
        """Moves to the CPU."""
        return self._apply(lambda tensor: tensor.to("cpu"))

    def to_empty(self, *, device, recurse=True):
        """Moves to a device without values."""
        return self._apply(lambda t: flambeau.empty_like(t, device=device), recurse=recurse)

    def _to_float(self, dtype):
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def train(self, mode=True):
        """Sets `training` in the whole tree; returns self."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """train(False)."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Sets `requires_grad` of each parameter; returns self."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Forgets gradients, or makes them zero."""
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                parameter.grad = parameter.grad.detach().zero_()

    # Text.

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What stands in the parentheses of `repr` besides children."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {indented(repr(m))}" for name, m in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({extra})"
        if not lines and not children:
            return f"{self._get_name()}()"
        inside = "\n  ".join(itertools.chain(lines, children))
        return f"{self._get_name()}(\n  {inside}\n)"

    # Copies.

    def __getstate__(self):
        return self.__dict__.copy()

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name in _HOOKS:
            self.__dict__.setdefault(name, HookDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
