"""Guards the operators that pass the recorded reference values.

usage: check_reference.py [--collection DIR] [--update] [--only-passing]
DIR is the whole collection with its program check.py (../shared/golden beside the repository by
default). An operator of tests/reference/passing.txt that fails now is an error; one that passes now
is printed, and with --update added to the list and to the values kept in the repository. The list
only grows: a name that any earlier commit had must be there. Without the collection, the values
kept in the repository are run.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
PASSING = ROOT / "tests" / "reference" / "passing.txt"
BATCH = 40


def failures(collection, names):
    """Failures by operator. A run that crashes or hangs is halved until the operator is found."""
    if not names:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        chosen = pathlib.Path(folder, "values")
        chosen.mkdir()
        for name in names:
            (chosen / f"{name}.npz").symlink_to(collection / "dev" / f"{name}.npz")
        report = pathlib.Path(folder, "report.json")
        command = [sys.executable, collection / "check.py", "flambeau", "--variants"]
        command += ["--dir", chosen, "--json", report, "--fails", "0"]
        limit = 60 + 5 * len(names)
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=limit)
            reason = f"the program ended with status {result.returncode} {result.stderr[-300:]}"
        except subprocess.TimeoutExpired:
            reason = f"not finished after {limit} s"
        if report.exists():
            return json.loads(report.read_text())
    if len(names) == 1:
        return {names[0]: [reason]}
    half = len(names) // 2
    return failures(collection, names[:half]) | failures(collection, names[half:])


def check_batches(collection, names):
    """Failures by operator, from one program per processor."""
    batches = [names[i : i + BATCH] for i in range(0, len(names), BATCH)]
    found = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for part in pool.map(lambda batch: failures(collection, batch), batches):
            found |= part
    return found


def removed_names(passing):
    """Names that some earlier commit had in the list and that are gone."""
    command = ["git", "log", "-p", "--format=", "--", str(PASSING)]
    log = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    lines = (line for line in log.stdout.splitlines() if line[:1] in "+-")
    return sorted({line[1:] for line in lines if line[:3] not in ("+++", "---")} - set(passing))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = ROOT.parent / "shared" / "golden"
    parser.add_argument("--collection", type=pathlib.Path, default=default)
    parser.add_argument("--update", action="store_true", help="add what passes now to the list")
    parser.add_argument("--only-passing", action="store_true", help="look for nothing new")
    options = parser.parse_args()
    collection = options.collection.resolve()
    passing = PASSING.read_text().split()
    if removed := removed_names(passing):
        print(f"passing.txt only grows; gone: {', '.join(removed)}", file=sys.stderr)
        return 1
    if not (collection / "check.py").exists():
        print("reference values: the choice kept in the repository")
        command = [sys.executable, "-m", "pytest", "-q", "tests/reference"]
        return subprocess.run(command, cwd=ROOT).returncode

    start = time.monotonic()
    known = check_batches(collection, passing)
    broken = {name: found for name in passing if (found := known.get(name, ["no such values"]))}
    for name, found in broken.items():
        print(f"{name} passed before and fails now ({len(found)} cases): {found[0]}")
    print(f"{len(passing) - len(broken)} of {len(passing)} operators of passing.txt pass", end="; ")
    print(f"{time.monotonic() - start:.0f} s")

    if not options.only_passing:
        everything = sorted(path.stem for path in (collection / "dev").glob("*.npz"))
        rest = check_batches(collection, [name for name in everything if name not in known])
        new = [name for name, found in rest.items() if not found]
        print(f"{len(new)} of {len(rest)} other operators pass: {' '.join(new)}")
        if new and options.update:
            PASSING.write_text("".join(f"{name}\n" for name in sorted({*passing, *new})))
            select = [sys.executable, ROOT / "tools" / "select_reference.py", collection / "dev"]
            subprocess.run(select, check=True)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
