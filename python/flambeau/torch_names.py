"""Modules of this package under PyTorch's names: after `install()`, `import torch.nn` gives
`flambeau.nn`, the same module object.

`python -m flambeau` runs programs this way. Processes that multiprocessing starts, by whichever
method, have the names too; other child processes do not. Only `torch` and `torch.*` are taken:
torchvision and its like are packages of their own.
"""

import importlib.util
import pathlib
import sys
from importlib.machinery import ModuleSpec

__all__ = ["install", "real_name"]

_OURS = __name__.partition(".")[0]


def real_name(name):
    """The module of this package that `name` stands for; None if it is not one of PyTorch's."""
    if name == "torch" or name.startswith("torch."):
        return _OURS + name[len("torch") :]
    return None


class _Finder:
    """Finds `torch` and `torch.*`; leaves every other name to the finders after it."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        name = real_name(fullname)
        if name is None:
            return None
        found = importlib.util.find_spec(name)
        if found is None:
            return None
        spec = ModuleSpec(fullname, _Loader, origin=found.origin)
        spec.submodule_search_locations = found.submodule_search_locations
        return spec


class _Loader:
    """Puts the module itself in the place of the empty one that the import system made: so its own
    name and spec stay as they are."""

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        name = module.__spec__.name
        sys.modules[name] = importlib.import_module(real_name(name))


class _InstallWhenUnpickled:
    """Calls `install` of this very package in the process that unpickles it."""

    def __reduce__(self):
        folder = str(pathlib.Path(__file__).resolve().parents[1])
        source = (
            f"import sys\nsys.path.insert(0, {folder!r})\n"
            f"from {__name__} import install\ninstall()\nsys.path.remove({folder!r})"
        )
        return exec, (source, {})


def _install_in_children():
    """A child that is not forked reads its preparation data before it imports the main module."""
    from multiprocessing import spawn

    prepare = spawn.get_preparation_data

    def get_preparation_data(name):
        return {**prepare(name), "torch_names": _InstallWhenUnpickled()}

    spawn.get_preparation_data = get_preparation_data


def install():
    """Makes `torch` and `torch.*` names of this package's modules, here and in processes that
    multiprocessing starts. A second call does nothing; after an import of another `torch` it is an
    ImportError."""
    if _Finder in sys.meta_path:
        return
    if "torch" in sys.modules:
        raise ImportError(
            f"install(): another torch is imported already, from "
            f"{getattr(sys.modules['torch'], '__file__', 'an unknown place')}; "
            "allowed: a process that has not imported torch",
            name="torch",
        )
    sys.meta_path.insert(0, _Finder)
    _install_in_children()
