"""Holds the operators against recorded values: results, gradients and the errors for wrong input.

values/OPERATOR.npz has arrays a0, a1, ... and the text `cases` that describes the calls (see
README.md here). Each call is made as a function, with non-contiguous inputs, as a method, in place
and with out=, wherever the operator has that form.
"""

import functools
import json
import pathlib

import numpy
import pytest

import flambeau

VALUES = pathlib.Path(__file__).parent / "values"

# Relative and absolute difference from the recorded value that a result may have; other dtypes are
# equal. A gradient, and an operator that solves or sums up much, may differ by more.
TOLERANCES = {
    "float32": (6e-6, 4e-5),
    "float64": (1e-7, 1e-7),
    "float16": (4e-3, 1e-3),
    "bfloat16": (3.2e-2, 1e-2),
    "complex64": (6e-6, 4e-5),
    "complex128": (1e-7, 1e-7),
}
WIDER = 50
ACCUMULATING = ("norm", "linalg.", "fft.", "matrix_exp", "logdet", "pinverse", "cholesky")


class Mismatch(Exception):
    """A result that differs from its record."""


def bfloat16_values(bits):
    """Values of bfloat16 numbers stored as int16."""
    return (bits.astype(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)


class Record:
    """One operator's file."""

    def __init__(self, path):
        with numpy.load(path, allow_pickle=False) as file:
            self.arrays = {name: file[name] for name in file.files if name != "cases"}
            self.__dict__.update(json.loads(str(file["cases"])))
        self.accumulating = any(word in self.op for word in ACCUMULATING)

    def array(self, entry):
        return self.arrays[f"a{entry['t']}"].reshape(entry["shape"])

    @property
    def function(self):
        return functools.reduce(getattr, self.path.split(".")[1:], flambeau)


class Inputs:
    """Makes the arguments of a call; `leaves` are the tensors whose gradients are recorded."""

    def __init__(self, record, strided=False):
        self.record = record
        self.strided = strided
        self.leaves = []

    def tensor(self, entry):
        tensor = flambeau.from_numpy(numpy.array(self.record.array(entry), order="C"))
        if entry["dtype"] == "bfloat16":
            tensor = tensor.view(flambeau.bfloat16)
        if self.strided and tensor.dim() and tensor.numel() > 1:
            wide = flambeau.zeros(*tensor.shape[:-1], 2 * tensor.shape[-1], dtype=tensor.dtype)
            wide[..., ::2] = tensor
            tensor = wide[..., ::2]
        if entry.get("grad"):
            tensor = tensor.detach().requires_grad_(True)
            self.leaves.append(tensor)
        return tensor

    def make(self, value):
        """The Python value of a JSON value."""
        if not isinstance(value, dict):
            return value
        if "t" in value:
            return self.tensor(value)
        ((kind, content),) = value.items()
        match kind:
            case "float":
                return float(content)
            case "complex":
                return complex(*content)
            case "dtype_value" | "memory_format" | "layout":
                return getattr(flambeau, content)
            case "device":
                return flambeau.device(content)
            case "ellipsis":
                return ...
            case "slice":
                return slice(*map(self.make, content))
            case "tuple":
                return tuple(map(self.make, content))
            case "list":
                return list(map(self.make, content))
            case "dict":
                return {key: self.make(item) for key, item in content.items()}
        raise ValueError(f"unknown kind of value: {kind}")

    def arguments(self, case):
        positional = [self.make(value) for value in case["args"]]
        return positional, {name: self.make(value) for name, value in case["kwargs"].items()}


def tensors(value):
    """The tensors of a result, in order."""
    if isinstance(value, flambeau.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in tensors(item)] if isinstance(value, (list, tuple)) else []


def entries(value):
    """The recorded tensors of a result, in order."""
    if not isinstance(value, dict):
        return []
    if "t" in value:
        return [value]
    ((_, content),) = value.items()
    if isinstance(content, dict):
        content = content.values()
    return [e for item in content for e in entries(item)] if not isinstance(content, str) else []


def expect_equal(what, got, expected):
    if got != expected:
        raise Mismatch(f"{what} is {got}, expected {expected}")


def expect_near(record, what, got, entry, wider):
    dtype = str(got.dtype).rpartition(".")[2]
    expect_equal(f"{what}: dtype", dtype, entry["dtype"])
    expect_equal(f"{what}: shape", list(got.shape), entry["shape"])
    got, expected = got.detach(), record.array(entry)
    if dtype == "bfloat16":
        got, expected = got.to(flambeau.float32), bfloat16_values(expected)
    if dtype.startswith("complex"):
        got = got.resolve_conj()
    got = got.numpy()
    if dtype in TOLERANCES:
        relative, absolute = (x * (WIDER if wider else 1) for x in TOLERANCES[dtype])
        good = numpy.isclose(got, expected, rtol=relative, atol=absolute, equal_nan=True)
    else:
        good = got == expected
    if not numpy.all(good):
        at = tuple(int(i[0]) for i in numpy.nonzero(~numpy.atleast_1d(good)))
        pair = (numpy.atleast_1d(x)[at] for x in (got, expected))
        raise Mismatch("{}{}: {}, expected {}".format(what, list(at), *pair))


def expect_result(record, result, case):
    recorded = entries(case["out"])
    if not recorded:
        if isinstance(case["out"], (bool, int, float)) and result != pytest.approx(case["out"]):
            raise Mismatch(f"returned {result!r}, expected {case['out']!r}")
        return
    results = tensors(result)
    expect_equal("number of tensors returned", len(results), len(recorded))
    for i, (got, entry) in enumerate(zip(results, recorded, strict=True)):
        expect_near(record, f"result {i}", got, entry, record.accumulating)


def expect_gradients(record, result, leaves, case):
    outputs = [t for t in tensors(result) if t.requires_grad]
    expect_equal("number of outputs with a gradient", len(outputs), len(case["cotangents"]))
    cotangents = [Inputs(record).tensor(entry) for entry in case["cotangents"]]
    gradients = flambeau.autograd.grad(outputs, leaves, cotangents, allow_unused=True)
    for i, (got, entry) in enumerate(zip(gradients, case["grads"], strict=True)):
        if entry is not None:
            if got is None:
                raise Mismatch(f"gradient {i} is missing")
            expect_near(record, f"gradient {i}", got, entry, wider=True)
        elif got is not None and (got != 0).any().item():
            raise Mismatch(f"gradient {i} is not zero")


def call_function(record, case, strided=False):
    inputs = Inputs(record, strided)
    positional, named = inputs.arguments(case)
    if record.property:
        result = getattr(positional[0], record.path.rpartition(".")[2])
    else:
        result = record.function(*positional, **named)
    expect_result(record, result, case)
    if "grads" in case:
        expect_gradients(record, result, inputs.leaves, case)


def call_method(record, case):
    (first, *positional), named = Inputs(record).arguments(case)
    expect_result(record, getattr(first, record.method)(*positional, **named), case)


def call_in_place(record, case):
    (first, *positional), named = Inputs(record).arguments(case)
    target = first.detach().clone()
    if getattr(target, record.inplace)(*positional, **named) is not target:
        raise Mismatch("an in-place method returns its own tensor")
    expect_result(record, target, case)


def call_with_out(record, case):
    positional, named = Inputs(record).arguments(case)
    target = flambeau.empty(0, dtype=getattr(flambeau, case["out"]["dtype"]))
    with flambeau.no_grad():
        if record.function(*positional, **named, out=target) is not target:
            raise Mismatch("out= is returned")
    expect_result(record, target, case)


def forms(record, case):
    """The ways in which a case can be called: (name, function)."""
    yield "function", call_function
    if record.property:
        return
    if getattr(record, "strided", True):
        yield "strided", functools.partial(call_function, strided=True)
    first = case["args"][0] if case["args"] else None
    on_tensor = isinstance(first, dict) and "t" in first
    single = isinstance(case["out"], dict) and "t" in case["out"]
    if record.method and on_tensor:
        yield "method", call_method
    if record.inplace and on_tensor and single:
        if all(first[key] == case["out"][key] for key in ("dtype", "shape")):
            yield "in place", call_in_place
    if record.supports_out and single:
        yield "out=", call_with_out


def expect_error(record, case):
    try:
        positional, named = Inputs(record).arguments(case)
        record.function(*positional, **named)
    except Exception as error:
        names = [kind.__name__ for kind in type(error).__mro__]
        if case["raises"] not in names:
            raise Mismatch(f"{case['raises']} expected, got {names[0]}: {error}") from error
    else:
        raise Mismatch(f"{case['raises']} expected, nothing raised")


def failures(record):
    calls = [
        (f"case {i} {case['dtype']} {name}", call, case)
        for i, case in enumerate(record.cases)
        for name, call in forms(record, case)
    ]
    calls += [(f"wrong input {i}", expect_error, case) for i, case in enumerate(record.errors)]
    for name, call, case in calls:
        try:
            call(record, case)
        except Exception as error:
            yield f"{name}: {type(error).__name__}: {error}"


@pytest.mark.parametrize("path", sorted(VALUES.glob("*.npz")), ids=lambda path: path.stem)
def test_operator(path):
    found = list(failures(Record(path)))
    assert not found, "\n".join(found[:10])


def test_every_passing_operator_has_values():
    passing = (VALUES.parent / "passing.txt").read_text().split()
    assert passing == sorted(set(passing)), "passing.txt is sorted and names nothing twice"
    left_out = (VALUES.parent / "without_values.txt").read_text().split()
    assert {path.stem for path in VALUES.glob("*.npz")} == set(passing) - set(left_out)
