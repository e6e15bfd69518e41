"""`python -m flambeau`: programs see what they see under `python`, and torch is Flambeau."""

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

import flambeau

PACKAGE = str(pathlib.Path(flambeau.__file__).resolve().parents[1])
OURS = ("-m", "flambeau")


def run(folder, *arguments, options=(), status=0, **variables):
    environment = dict(os.environ, PYTHONPATH=PACKAGE, PYTHONDONTWRITEBYTECODE="1", **variables)
    result = subprocess.run(
        [sys.executable, *options, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == status, result.stderr
    return result


IMPORTS = """
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim.lr_scheduler
import torch.utils.data
import torch.linalg
from torch import optim
from torch.nn import Linear
from torch.utils.data import DataLoader, TensorDataset

import flambeau
import flambeau.nn

assert torch is flambeau and sys.modules["torch"] is flambeau
assert torch.nn is flambeau.nn is nn is sys.modules["torch.nn"]
assert F is flambeau.nn.functional and optim is flambeau.optim
assert torch.linalg is flambeau.linalg and DataLoader is flambeau.utils.data.DataLoader
assert nn.__spec__.name == nn.__name__ == "flambeau.nn"

import importlib.util
assert importlib.util.find_spec("torch.linalg").name == "flambeau.linalg"
assert importlib.util.find_spec("torch.none") is None
for name in ("torch.none", "torch.nn.none", "torchless", "torch_package"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name == name and str(error) == f"No module named {name!r}"
    else:
        raise AssertionError(name)

model = nn.Sequential(Linear(2, 1))
loader = DataLoader(TensorDataset(torch.ones(4, 2), torch.ones(4, 1)), batch_size=2)
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
print("trained")
"""


def test_imports(tmp_path):
    (tmp_path / "train.py").write_text(IMPORTS)
    assert run(tmp_path, *OURS, "train.py").stdout == "trained\n"


def test_imports_from_an_imported_module(tmp_path):
    (tmp_path / "train.py").write_text(IMPORTS)
    (tmp_path / "first.py").write_text("import train")
    assert run(tmp_path, *OURS, "first.py").stdout == "trained\n"


STATE = """
import sys, __main__
print(sys.argv, sys.path[0], __name__, __package__, globals().get("__file__"))
print(__spec__ and __spec__.name, type(__loader__).__name__, type(__builtins__).__name__)
print(__main__.__dict__ is globals(), sys.modules["__main__"] is __main__, __doc__)
sys.exit(3)
"""


def state_of(tmp_path, *arguments, **keywords):
    """What `python` and `python -m flambeau` show; they are the same."""
    plain = run(tmp_path, *arguments, status=3, **keywords)
    ours = run(tmp_path, *OURS, *arguments, status=3, **keywords)
    assert ours.stdout == plain.stdout and ours.stderr == plain.stderr == ""
    assert ours.stdout.splitlines()[-1].startswith("True True")
    return ours.stdout


def test_state_of_a_script(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/program.py").write_text('"""Text."""' + STATE)
    assert "['sub/program.py', '-m', 'x']" in state_of(tmp_path, "sub/program.py", "-m", "x")
    (tmp_path / "link.py").symlink_to("sub/program.py")
    assert str(tmp_path / "sub") in state_of(tmp_path, "link.py")
    state_of(tmp_path, str(tmp_path / "sub/program.py"), options=["-P"])


def test_state_of_code(tmp_path):
    assert "['-c', '1']" in state_of(tmp_path, "-c", STATE, "1")
    state_of(tmp_path, "-c", STATE, options=["-P"])


def test_state_of_a_module(tmp_path):
    (tmp_path / "pack/inner").mkdir(parents=True)
    (tmp_path / "pack/__init__.py").write_text("")
    (tmp_path / "pack/inner/__init__.py").write_text("")
    (tmp_path / "pack/inner/__main__.py").write_text(STATE)
    (tmp_path / "pack/program.py").write_text("from . import inner" + STATE)
    assert f"['{tmp_path}/pack/program.py', 'x']" in state_of(tmp_path, "-m", "pack.program", "x")
    assert "pack.inner.__main__" in state_of(tmp_path, "-m", "pack.inner")


def test_state_of_a_folder_and_an_archive(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/__main__.py").write_text(STATE)
    state_of(tmp_path, "folder", "x")
    with zipfile.ZipFile(tmp_path / "archive.pyz", "w") as archive:
        archive.writestr("__main__.py", STATE)
    state_of(tmp_path, "archive.pyz", "x")


ERRORS = {
    "raised": "def f():\n    raise ValueError('no')\n\nf()",
    "caused": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError(1) from e",
    "interrupted": "raise KeyboardInterrupt",
    "misspelt": "x = (1,\ny = 2\n",
    "hooked": "import sys\nsys.excepthook = lambda k, e, t: print(k, t.tb_lineno, t.tb_next)\n1/0",
    "missing": "import none_of_this_name",
    "at_exit": "import atexit\natexit.register(print, 'end')\n1 / 0",
    "text": "import sys\nsys.exit('text')",
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_look_as_usual(tmp_path, name):
    (tmp_path / "program.py").write_text(ERRORS[name])
    status = {"interrupted": -2}.get(name, 1)
    plain = run(tmp_path, "program.py", status=status)
    ours = run(tmp_path, *OURS, "program.py", status=status)
    assert (ours.stdout, ours.stderr) == (plain.stdout, plain.stderr)
    assert plain.stderr or name == "hooked"


@pytest.mark.parametrize(
    "arguments, status",
    [
        (["none.py"], 2),
        (["."], 1),
        (["-m", "none"], 1),
        (["-m", "json"], 1),
    ],
)
def test_programs_that_are_not_there(tmp_path, arguments, status):
    plain = run(tmp_path, *arguments, status=status)
    ours = run(tmp_path, *OURS, *arguments, status=status)
    assert ours.stderr.count("\n") == 1 and ours.stdout == ""
    if arguments[0] != "-m":
        assert ours.stderr == plain.stderr


@pytest.mark.parametrize(
    "name, text",
    [
        ("torch.none", "has no module flambeau.none"),
        ("torch.nn.none", "has no module flambeau.nn.none"),
        ("torchless", "torchless is a package of its own, which is not installed here"),
    ],
)
def test_missing_modules(tmp_path, name, text):
    error = run(tmp_path, *OURS, "-c", f"import {name}", status=1).stderr
    assert f"ModuleNotFoundError: No module named '{name}'" in error and text in error


def test_other_packages_are_left_alone(tmp_path):
    (tmp_path / "torchless.py").write_text("import torch\nname = torch.__name__")
    assert run(tmp_path, *OURS, "-c", "import torchless as t; print(t.name)").stdout == "flambeau\n"


def test_another_torch_is_an_error(tmp_path):
    (tmp_path / "torch.py").write_text("")
    code = "import torch, flambeau.torch_names as names; names.install()"
    error = run(tmp_path, "-c", code, status=1).stderr
    assert "ImportError: install(): another torch is imported already" in error
    assert f"{tmp_path}/torch.py" in error
    # What is found later does not count.
    assert run(tmp_path, *OURS, "-c", "import torch; print(torch.nn)").stdout


def test_usage(tmp_path):
    assert "-m flambeau SCRIPT" in run(tmp_path, *OURS, "--help").stdout
    for arguments, given in ((["-x"], "'-x'"), ([], "nothing"), (["-m"], "'-m'")):
        assert f"Given: {given}" in run(tmp_path, *OURS, *arguments, status=2).stderr


CHILDREN = """
import multiprocessing
import os
import sys

import torch


class Square(torch.nn.Module):
    def forward(self, x):
        return x * x


def work(module, number):
    import torch.nn as nn

    assert isinstance(module, nn.Module) and torch.__name__ == "flambeau"
    return module(torch.tensor(number)).item()


if __name__ == "__main__":
    os.chdir("/")  # a relative PYTHONPATH and the first folder lead nowhere from here
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(1) as pool:
        print(pool.starmap(work, [(Square(), 2), (Square(), 3)]))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children(tmp_path, method):
    (tmp_path / "program.py").write_text(CHILDREN)
    assert run(tmp_path, *OURS, "program.py", method).stdout == "[4, 9]\n"


def test_children_of_a_module_by_a_relative_path(tmp_path):
    (tmp_path / "program.py").write_text(CHILDREN)
    os.symlink(PACKAGE, tmp_path / "python")
    environment = dict(os.environ, PYTHONPATH="python")
    result = subprocess.run(
        [sys.executable, *OURS, "-m", "program", "spawn"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stdout == "[4, 9]\n", result.stderr
