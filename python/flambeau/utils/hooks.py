"""Handles of registered hooks."""

import itertools
import weakref

_ids = itertools.count()


class RemovableHandle:
    """Takes one entry out of a dictionary of hooks, by `remove()` or at the end of a `with`.

    `id` is the entry's key, never used twice. The dictionary is held weakly: a handle does not keep
    a module alive. `extra_dict` is one more dictionary, or several, that may hold the same key.
    """

    def __init__(self, hooks_dict, *, extra_dict=None):
        self.id = next(_ids)
        extra = extra_dict or ()
        extra = (extra,) if isinstance(extra, dict) else tuple(extra)
        self._dicts = tuple(weakref.ref(entry) for entry in (hooks_dict, *extra))

    def remove(self):
        for reference in self._dicts:
            entries = reference()
            if entries is not None:
                entries.pop(self.id, None)

    def __getstate__(self):
        return self.id, [reference() for reference in self._dicts]

    def __setstate__(self, state):
        self.id, entries = state
        # A dictionary that died before pickling is replaced by one that dies at once.
        self._dicts = tuple(
            weakref.ref(HookDict() if entry is None else entry) for entry in entries
        )
        # Ids given out from here on must not meet the restored one.
        global _ids
        _ids = itertools.count(max(self.id + 1, next(_ids)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


class HookDict(dict):
    """Hooks by handle id, called in insertion order; can be referred to weakly."""

    def add(self, hook, *, prepend=False, marks=()):
        """Stores `hook` under a new handle's id, also as a key of each dictionary in `marks`."""
        handle = RemovableHandle(self, extra_dict=marks)
        if prepend:
            later = dict(self)
            self.clear()
            self[handle.id] = hook
            self.update(later)
        else:
            self[handle.id] = hook
        for mark in marks:
            mark[handle.id] = True
        return handle
