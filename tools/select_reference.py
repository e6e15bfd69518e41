"""Chooses the reference values that are kept in the repository, from the whole recorded collection.

usage: select_reference.py COLLECTION
For every operator of tests/reference/passing.txt, cases are taken from COLLECTION/OPERATOR.npz: the
smallest of each dtype, then in order of size each that shows something new (a rank, a keyword, a
kind of argument), until SHARE bytes are used up. tests/reference/values/ is made anew; equal
choices give equal files. Operators whose results are defined only up to a choice (a sign, a phase)
are written to without_values.txt: their defining property is tested elsewhere.
"""

import argparse
import json
import pathlib

import numpy

REFERENCE = pathlib.Path(__file__).resolve().parent.parent / "tests" / "reference"
UP_TO_CHOICE = {
    "geqrf",
    "linalg.eig",
    "linalg.eigh",
    "linalg.eigvals",
    "linalg.householder_product",
    "linalg.ldl_factor",
    "linalg.ldl_factor_ex",
    "linalg.lu_factor",
    "linalg.lu_factor_ex",
    "linalg.qr",
    "linalg.svd",
    "lu_unpack",
    "ormqr",
    "qr",
    "svd",
}
SHARE = 5500  # about 3 MB for all operators of the collection
FIRST = ("float32", "float64")  # dtypes whose smallest case is taken before all others
ENTRY_BYTES = 300  # what a file spends on an array beyond its data


def tensor_entries(value):
    """All tensor entries inside a JSON value, whatever its form."""
    if isinstance(value, dict):
        if "t" in value:
            yield value
            return
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from tensor_entries(item)


def features(case):
    """What a case shows."""
    yield "dtype", case["dtype"]
    yield "gradient", "grads" in case
    for name in case["kwargs"]:
        yield "keyword", name
    for entry in tensor_entries(case["args"]):
        yield "rank", len(entry["shape"])
        yield "empty", 0 in entry["shape"]
    kinds = [next(iter(v)) if isinstance(v, dict) else type(v).__name__ for v in case["args"]]
    yield "arguments", tuple(kinds)


def size(case, arrays):
    used = {entry["t"] for entry in tensor_entries(list(case.values()))}
    return sum(arrays[f"a{t}"].nbytes + ENTRY_BYTES for t in used)


def choose(meta, arrays):
    """Cases of one operator, at most SHARE bytes (always at least one case)."""
    by_size = sorted(meta["cases"], key=lambda case: size(case, arrays))
    dtypes = sorted({case["dtype"] for case in by_size}, key=lambda name: (name not in FIRST, name))
    smallest = [next(case for case in by_size if case["dtype"] == dtype) for dtype in dtypes]
    chosen, seen, used = [], set(), 0
    for case in smallest + by_size:
        new = set(features(case)) - seen
        if new and (not chosen or used + size(case, arrays) <= SHARE):
            chosen.append(case)
            seen |= new
            used += size(case, arrays)
    return [case for case in meta["cases"] if case in chosen]


def write(path, meta, arrays):
    """Writes the record with the arrays that it uses, numbered anew."""
    numbers = {}
    for entry in tensor_entries([meta["cases"], meta["errors"]]):
        entry["t"] = numbers.setdefault(entry["t"], len(numbers))
    kept = {f"a{new}": arrays[f"a{old}"] for old, new in numbers.items()}
    cases = json.dumps(meta, separators=(",", ":"))
    numpy.savez_compressed(path, cases=numpy.array(cases), **kept)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("collection", type=pathlib.Path)
    options = parser.parse_args()
    passing = (REFERENCE / "passing.txt").read_text().split()
    left_out = [name for name in passing if name in UP_TO_CHOICE]
    names = [name for name in passing if name not in UP_TO_CHOICE]
    values = REFERENCE / "values"
    values.mkdir(exist_ok=True)
    for path in values.glob("*.npz"):
        path.unlink()
    for name in names:
        with numpy.load(options.collection / f"{name}.npz", allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        meta = json.loads(str(arrays.pop("cases")))
        meta["cases"] = choose(meta, arrays)
        write(values / f"{name}.npz", meta, arrays)
    (REFERENCE / "without_values.txt").write_text("".join(f"{name}\n" for name in left_out))
    total = sum(path.stat().st_size for path in values.glob("*.npz"))
    print(f"{len(names)} operators, {total / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
