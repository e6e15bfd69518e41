"""Programs written for PyTorch, run as they are: each checks what it learned."""

import pathlib
import subprocess
import sys

import pytest

PROGRAMS = sorted((pathlib.Path(__file__).parent.parent / "programs").glob("*.py"))


def test_there_are_programs():
    assert len(PROGRAMS) >= 5


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program(path):
    done = subprocess.run(
        [sys.executable, "-m", "flambeau", str(path)], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
