"""What happens when a module is called: `forward` and the hooks around it."""

from flambeau.nn.modules.backward_hooks import BackwardHooks


class ModuleCall:
    """The part of Module that runs it."""

    def forward(self, *args, **kwargs):
        """Computes the module's result; each subclass defines it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args, **kwargs):
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
        ):
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_with_hooks(self, args, kwargs):
        called = set()
        result = None
        try:
            args, kwargs = self._run_forward_pre_hooks(args, kwargs)
            backward = None
            if self._backward_hooks or self._backward_pre_hooks:
                backward = BackwardHooks(
                    self,
                    list(self._backward_hooks.values()),
                    list(self._backward_pre_hooks.values()),
                )
                args = backward.wrap_inputs(args)
            result = self.forward(*args, **kwargs)
            for key, hook in list(self._forward_hooks.items()):
                called.add(key)
                changed = self._run_forward_hook(key, hook, args, kwargs, result)
                if changed is not None:
                    result = changed
            if backward:
                result = backward.wrap_outputs(result)
            return result
        except Exception:
            for key, hook in list(self._forward_hooks.items()):
                if key in self._forward_hooks_always_called and key not in called:
                    self._run_after_error(key, hook, args, kwargs, result)
            raise

    def _run_forward_pre_hooks(self, args, kwargs):
        for key, hook in list(self._forward_pre_hooks.items()):
            if key in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is None:
                    continue
                if not isinstance(changed, tuple) or len(changed) != 2:
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {changed}."
                    )
                args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs

    def _run_forward_hook(self, key, hook, args, kwargs, result):
        if key in self._forward_hooks_with_kwargs:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)

    def _run_after_error(self, key, hook, args, kwargs, result):
        """Runs a hook that wants to see failed calls too; its own error must not hide the first."""
        try:
            self._run_forward_hook(key, hook, args, kwargs, result)
        except Exception as error:
            import warnings

            warnings.warn(
                "module forward hook with ``always_call=True`` raised an exception that was "
                f"silenced as another error was raised in forward: {error}",
                stacklevel=4,
            )

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Calls `hook(module, args)` before each `forward`; a result other than None replaces the
        arguments. With `with_kwargs` it is `hook(module, args, kwargs)`, and it may return both.
        """
        marks = (self._forward_pre_hooks_with_kwargs,) if with_kwargs else ()
        return self._forward_pre_hooks.add(hook, prepend=prepend, marks=marks)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Calls `hook(module, args, output)` after each `forward`; a result other than None
        replaces the output. With `with_kwargs` it is `hook(module, args, kwargs, output)`. With
        `always_call` it also runs where the call raised an exception.
        """
        marks = []
        if with_kwargs:
            marks.append(self._forward_hooks_with_kwargs)
        if always_call:
            marks.append(self._forward_hooks_always_called)
        return self._forward_hooks.add(hook, prepend=prepend, marks=marks)

    def register_full_backward_hook(self, hook, prepend=False):
        """Calls `hook(module, grad_input, grad_output)` when the gradients of the module's
        positional inputs are known; a result other than None replaces `grad_input`."""
        return self._backward_hooks.add(hook, prepend=prepend)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Calls `hook(module, grad_output)` before gradients pass through the module; a result
        other than None replaces `grad_output`."""
        return self._backward_pre_hooks.add(hook, prepend=prepend)
