"""Times flambeau and torch by turns and writes the ratios to docs/benchmarks.md.

usage: compare.py --peer PYTHON [--rounds N] [--no-write] [NAME ...]
PYTHON is an interpreter that has torch. Each round starts a process for each library, in an order
that alternates; of every case the minimum over the rounds counts. NAME chooses cases.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import subprocess
import sys

import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent
REPORT = ROOT / "docs" / "benchmarks.md"
GOALS = {
    "add, 1 element": 0.5,
    "add, 1 element, gradient recorded": 0.6,
    "matmul f32 1024": 1.0,
    "training step, MLP 784-512-10, batch 128": 1.0,
    cases.IMPORT: 0.1,
}
TEMPLATE = """# Benchmarks

Time of this library divided by that of {peer}, in one run: below 1, this library is faster.
The libraries take turns, each in its own process, with {threads} threads; of every case the minimum
over {rounds} rounds counts.

```
make bench
```

{table}

Geometric mean without `import`: **{mean:.2f}**.

Machine: {machine}. Python {python}.
"""


def measure(python, module, names):
    """One process: seconds by case."""
    command = [python, ROOT / "benchmarks" / "cases.py", module, *names]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def merge(best, found):
    for name, value in found.items():
        best[name] = value if isinstance(value, str) else min(value, best.get(name, math.inf))


def compare(peer, rounds, names):
    """Minimum seconds by case, for this library and for the peer."""
    ours, theirs = {}, {}
    turns = [(sys.executable, "flambeau", ours), (peer, "torch", theirs)]
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for python, module, best in turns if number % 2 == 0 else reversed(turns):
            merge(best, measure(python, module, names))
    return ours, theirs


def duration(seconds):
    for unit, scale in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def table(ours, theirs):
    lines = ["| case | flambeau | torch | ratio | goal |", "|---|---|---|---|---|"]
    for name in [*cases.CASES, cases.IMPORT]:
        if name in ours and name in theirs:
            ratio, goal = ours[name] / theirs[name], GOALS.get(name)
            columns = [name, duration(ours[name]), duration(theirs[name]), f"{ratio:.2f}"]
            lines.append(f"| {' | '.join(columns)} | {goal if goal is not None else ''} |")
    return "\n".join(lines)


def geometric_mean(ours, theirs):
    shared = [name for name in cases.CASES if name in ours and name in theirs]
    return math.exp(sum(math.log(ours[name] / theirs[name]) for name in shared) / len(shared))


def machine():
    model = platform.machine()
    flags = set()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            model = value.strip()
        elif key.strip() == "flags":
            flags = set(value.split())
    vectors = "AVX-512" if "avx512f" in flags else "AVX2"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} CPUs, {vectors}, {memory:.0f} GiB"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-write", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    if unknown := set(options.names) - set(cases.CASES):
        parser.error(f"no such case: {', '.join(unknown)}; there are: {', '.join(cases.CASES)}")
    ours, theirs = compare(options.peer, options.rounds, options.names)
    rows, mean = table(ours, theirs), geometric_mean(ours, theirs)
    print(f"{rows}\n\ngeometric mean without import: {mean:.2f}")
    if not options.no_write and not options.names:
        REPORT.write_text(
            TEMPLATE.format(
                peer=theirs["_version"],
                threads=cases.THREADS,
                rounds=options.rounds,
                table=rows,
                mean=mean,
                machine=machine(),
                python=platform.python_version(),
            )
        )
        print(f"written to {REPORT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
