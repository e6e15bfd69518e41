"""Runs every test of the release build: C++ (ctest), then Python, layering and values (pytest),
then a minute of random programs that must give the same bits in every way of running.

Prints the counts, the number of kernels compiled and the seconds. The kernel cache is a new, empty
folder, so that what is compiled is what the tests need.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "test-results"


def counts(files):
    """Sums tests, failures and skips over JUnit reports."""
    total = failed = skipped = 0
    for file in files:
        for suite in ElementTree.parse(file).getroot().iter("testsuite"):
            total += int(suite.get("tests", 0))
            failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped += int(suite.get("skipped", 0)) + int(suite.get("disabled", 0))
    return total - failed - skipped, failed, skipped


def run(title, command, environment):
    print(f"== {title}", flush=True)
    start = time.monotonic()
    status = subprocess.run(command, cwd=ROOT, env=environment).returncode
    return status, time.monotonic() - start


def main():
    shutil.rmtree(RESULTS, ignore_errors=True)
    (RESULTS / "gtest").mkdir(parents=True)
    cache = RESULTS / "kernels"
    environment = dict(
        os.environ,
        FLAMBEAU_CACHE_DIR=str(cache),
        GTEST_OUTPUT=f"xml:{RESULTS / 'gtest'}/",
    )
    cpp_status, cpp_seconds = run("C++", ["ctest", "--preset", "release", "-j", "2"], environment)
    del environment["GTEST_OUTPUT"]
    pytest = [sys.executable, "-m", "pytest", "-q", "--durations=5"]
    pytest += [f"--junit-xml={RESULTS / 'pytest.xml'}"]
    python_status, python_seconds = run("Python", pytest, environment)

    programs = [sys.executable, ROOT / "tools" / "compare_modes.py", "--seconds", "60"]
    programs_status, _ = run("random programs", [*programs, "--seed", "1"], environment)

    passed = failed = 0
    rows = (
        ("C++", (RESULTS / "gtest").glob("*.xml"), cpp_status, cpp_seconds),
        ("Python", RESULTS.glob("pytest.xml"), python_status, python_seconds),
    )
    print()
    for name, files, status, seconds in rows:
        good, bad, skipped = counts(files)
        # A program that crashed wrote no report: its failure is in the status alone.
        bad = max(bad, int(status != 0))
        print(f"{name}: {good} passed, {bad} failed, {skipped} skipped, {seconds:.0f} s")
        passed, failed = passed + good, failed + bad
    kernels = len(list(cache.glob("*.code")))
    print(f"kernels compiled: {kernels}")
    print(f"tests: {passed} passed, {failed} failed")
    if programs_status:
        print("random programs: different results")
    return int(cpp_status != 0 or python_status != 0 or programs_status != 0 or passed == 0)


if __name__ == "__main__":
    sys.exit(main())
