"""What a module saves: state dictionaries out and in, with the hooks around them.

A state dictionary maps dotted names to tensors; its attribute `_metadata` maps the prefix of each
module to `{"version": n}`, so that a module can read what an older version of it wrote.
"""

import collections

import flambeau
from flambeau._C import Tensor
from flambeau.nn.parameter import Parameter

_EXTRA_STATE_SUFFIX = "_extra_state"


class _IncompatibleKeys(
    collections.namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])
):
    """What `load_state_dict` returns."""

    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _quoted(keys):
    return ", ".join(f'"{key}"' for key in keys)


class ModuleState:
    """The part of Module that saves and loads."""

    _version = 1

    def get_extra_state(self):
        """Returns what a subclass wants to save besides tensors; called where it is overridden."""
        raise RuntimeError(f"{type(self).__name__} does not define get_extra_state()")

    def set_extra_state(self, state):
        """Takes back what `get_extra_state` returned; called where it is overridden."""
        raise RuntimeError(f"{type(self).__name__} does not define set_extra_state()")

    def _persistent_tensors(self):
        """Yields (name, tensor) of this module alone, in the order in which they are saved."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                yield name, parameter
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                yield name, buffer

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """Adds this module's own entries, without its children's."""
        for name, tensor in self._persistent_tensors():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not ModuleState.get_extra_state:
            destination[prefix + _EXTRA_STATE_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """Returns the persistent tensors of this module and of those below it by dotted name.

        The tensors share memory with the module; with `keep_vars` they are the parameters
        themselves. Entries are added to `destination` where it is given. Positional arguments are
        accepted in the order (destination, prefix, keep_vars) with a warning.
        """
        if args:
            import warnings

            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = collections.OrderedDict()
            destination._metadata = collections.OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata

        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            if hook(self, destination, prefix, local_metadata) is not None:
                raise RuntimeError("state_dict post-hook must return None")
        return destination

    def register_state_dict_post_hook(self, hook):
        """Calls `hook(module, state_dict, prefix, local_metadata)` after each `state_dict()`."""
        return self._state_dict_hooks.add(hook)

    def register_state_dict_pre_hook(self, hook):
        """Calls `hook(module, prefix, keep_vars)` before each `state_dict()`."""
        return self._state_dict_pre_hooks.add(hook)

    def register_load_state_dict_pre_hook(self, hook):
        """Calls `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` before this module takes its entries."""
        return self._load_state_dict_pre_hooks.add(hook)

    def register_load_state_dict_post_hook(self, hook):
        """Calls `hook(module, incompatible_keys)` after this module took its entries.

        The hook may change the two lists of keys in place, and with them whether loading fails.
        """
        return self._load_state_dict_post_hooks.add(hook)

    def _load_from_state_dict(
        self,
        state_dict,
        prefix,
        local_metadata,
        strict,
        missing_keys,
        unexpected_keys,
        error_msgs,
    ):
        """Takes this module's own entries and reports into the three lists."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                self,
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        local = dict(self._persistent_tensors())
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in local.items():
            key = prefix + name
            if key in state_dict:
                error = self._load_tensor(name, key, tensor, state_dict[key], assign)
                if error:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(key)

        extra_key = prefix + _EXTRA_STATE_SUFFIX
        has_extra = type(self).set_extra_state is not ModuleState.set_extra_state
        if has_extra and extra_key in state_dict:
            self.set_extra_state(state_dict[extra_key])
        elif has_extra and strict:
            missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)

        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra_key:
                    first, dot, _ = key[len(prefix) :].partition(".")
                    if first not in (self._modules if dot else local):
                        unexpected_keys.append(key)

    def _load_tensor(self, name, key, tensor, value, assign):
        """Copies or assigns one entry; returns what is wrong with it, or None."""
        if not isinstance(value, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                f"object from checkpoint but received {type(value)}"
            )
        if tensor.ndim == 0 and tuple(value.shape) == (1,):
            value = value[0]
        if tuple(value.shape) != tuple(tensor.shape):
            return (
                f"size mismatch for {key}: copying a param with shape {value.shape} from "
                f"checkpoint, the shape in current model is {tensor.shape}."
            )
        try:
            with flambeau.no_grad():
                if not assign:
                    tensor.copy_(value)
                elif not isinstance(tensor, Parameter):
                    setattr(self, name, value)
                elif isinstance(value, Parameter):
                    setattr(self, name, value.requires_grad_(tensor.requires_grad))
                else:
                    setattr(self, name, Parameter(value, tensor.requires_grad))
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{tensor.size()} and whose dimensions in the checkpoint are {value.size()}, an "
                f"exception occurred : {error.args}."
            )
        return None

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies the tensors of `state_dict` into this module and those below it.

        With `strict` the names must be exactly those of `state_dict()`. With `assign` the given
        tensors take the place of the module's, keeping its `requires_grad`. All that does not fit
        is listed in one RuntimeError; entries that fit are loaded also then. Returns the names
        that were missing and those that were not expected.
        """
        if not isinstance(state_dict, collections.abc.Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing_keys, unexpected_keys, error_msgs = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        # A copy, so that hooks and modules may change it.
        state_dict = collections.OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata

        def load(module, entries, prefix):
            local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local_metadata["assign_to_params_buffers"] = True
            module._load_from_state_dict(
                entries,
                prefix,
                local_metadata,
                True,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    load(child, {k: v for k, v in entries.items() if k.startswith(below)}, below)
            keys = _IncompatibleKeys(missing_keys, unexpected_keys)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                        "expected to return new values, if incompatible_keys need to be modified, "
                        "it should be done inplace."
                    )

        load(self, state_dict, "")
        if strict:
            if unexpected_keys:
                error_msgs.insert(
                    0, f"Unexpected key(s) in state_dict: {_quoted(unexpected_keys)}. "
                )
            if missing_keys:
                error_msgs.insert(0, f"Missing key(s) in state_dict: {_quoted(missing_keys)}. ")
        if error_msgs:
            listed = "\n\t".join(error_msgs)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}"
            )
        return _IncompatibleKeys(missing_keys, unexpected_keys)
