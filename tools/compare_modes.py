"""Makes random programs from the operator table and runs each in several ways that must not differ.

usage: compare_modes.py [--seconds S] [--seed N] [--programs N]

A program is a list of operator calls over a few tensors: sizes 0 and 1, several dtypes, views,
writes in place, gradients. It runs immediately with 2 threads, with 1, deferred, with operands that
lie in memory in another order, and with other vector widths; all tensors and gradients are compared
byte by byte (a NaN equals a NaN, -0 differs from +0). An error must be the same in every way.
On a difference the program is made as short as possible and printed.
"""

import argparse
import random
import re
import sys
import time

import flambeau as torch
from flambeau import _C

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64)
SIZES = (0, 1, 1, 2, 3, 4, 7, 8, 9, 17, 33, 65, 130)
# What depends on memory that is not initialised, or gives no tensor.
LEFT_OUT = re.compile(r"^(_|empty|new_empty|item|is_|set_|to\b)|_like_op")
ARGUMENT = re.compile(
    r"\s*(?P<type>[A-Za-z]+(?:\(\w!?\))?(?:\[\d*\])?\??(?:\[\d*\])?)\s+(?P<name>\w+)(?:=(?P<default>.*))?$"
)


class Operator:
    """A schema as far as this program can call it: (type, name, has a default) by argument."""

    def __init__(self, text, forms):
        names, _, rest = text.partition("(")
        self.name = names.split("|")[0].split(".int")[0]
        self.text = text
        self.inplace = bool(forms & 4)
        self.method = bool(forms & 2)
        arguments = rest[: rest.rindex(") ->")]
        self.arguments = []
        keyword = False
        for part in re.split(r",(?![^\[]*\])", arguments) if arguments else []:
            if part.strip() == "*":
                keyword = True
                continue
            match = ARGUMENT.match(part)
            if not match:
                raise ValueError(part)
            kind = match["type"].replace("(a!)", "")
            self.arguments.append((kind, match["name"], match["default"] is not None, keyword))

    def path(self):
        """The names that lead to the function from the package."""
        base = self.text.partition("(")[0].split("|")[0]
        known = ("nn.functional.", "linalg.", "special.", "fft.", "signal.windows.")
        prefix = next((p for p in known if base.startswith(p)), "")
        return [*prefix.split(".")[:-1], base[len(prefix) :].split(".")[0]]

    def function(self):
        value = torch
        path = self.path()
        for part in path[:-1]:
            value = getattr(value, part)
        if not path[:-1] and not hasattr(value, path[-1]):
            value = torch.Tensor
        return getattr(value, path[-1])


def operators():
    table = []
    for text, forms, _ in _C._operator_schemas():
        name = text.split("(")[0]
        if LEFT_OUT.search(name) or "-> Tensor" not in text:
            continue
        try:
            operator = Operator(text, forms)
            operator.function()
        except (ValueError, AttributeError):
            continue
        kinds = [kind for kind, _, default, _ in operator.arguments if not default]
        if "Tensor" in kinds and all(kind in MAKERS for kind in kinds):
            table.append(operator)
    return table


def number(rng):
    return rng.choice([0, 1, 2, -1, 3, 0.5, -1.5, 2.25, 1e-3])


MAKERS = {
    "Tensor": None,
    "Tensor[]": None,
    "Scalar": number,
    "float": lambda rng: float(number(rng)),
    "int": lambda rng: rng.choice([0, 0, 1, -1, -2, 2]),
    "SymInt": lambda rng: rng.choice([0, 1, 2, 3, -1]),
    "int[]": lambda rng: [rng.choice([0, 1, -1])],
    "int[1]": lambda rng: [rng.choice([0, 1, -1])],
    "SymInt[]": lambda rng: [rng.choice([1, 2, 3, -1]) for _ in range(rng.randint(1, 3))],
    "bool": lambda rng: rng.random() < 0.5,
}
OPTIONAL = {
    "Scalar": number,
    "int": MAKERS["int"],
    "bool": MAKERS["bool"],
    "float": MAKERS["float"],
}


FUSED = "deferred and fused"
OTHER_ORDER = "operands in another order in memory"
# Views where the layout allows one, else copies: a write to the result reaches the operand or not.
SOMETIMES_VIEWS = {"flatten", "reshape", "reshape_as", "ravel", "contiguous", "unflatten", "view"}


class Step:
    """A call: the operator, whether in place, variables and other arguments by position or name."""

    def __init__(self, operator, inplace, positional, named):
        self.operator, self.inplace = operator, inplace
        self.positional, self.named = positional, named

    def run(self, variables):
        def value(argument):
            kind, content = argument
            if kind == "variable":
                return variables[content]
            return [variables[i] for i in content] if kind == "variables" else content

        positional = [value(a) for a in self.positional]
        named = {name: value(a) for name, a in self.named.items()}
        if self.inplace:
            return getattr(positional[0], self.operator.path()[-1] + "_")(*positional[1:], **named)
        return self.operator.function()(*positional, **named)

    def __str__(self):
        def shown(argument):
            kind, content = argument
            if kind == "variable":
                return f"v{content}"
            return (
                "[" + ", ".join(f"v{i}" for i in content) + "]"
                if kind == "variables"
                else repr(content)
            )

        arguments = [shown(a) for a in self.positional]
        arguments += [f"{name}={shown(a)}" for name, a in self.named.items()]
        name = ".".join(self.operator.path()) + ("_" if self.inplace else "")
        return f"{name}({', '.join(arguments)})"


class Program:
    def __init__(self, inputs, steps):
        self.inputs = inputs  # (sizes, dtype, requires grad, seed)
        self.steps = steps

    def layout_matters(self):
        """Whether the program means something else when operands lie in another order."""
        names = {step.operator.path()[-1] for step in self.steps}
        return (
            any(step.inplace for step in self.steps)
            and bool(names & SOMETIMES_VIEWS)
            or bool(names & {"view", "contiguous"})
        )

    def __str__(self):
        lines = [
            f"v{i} = {dtype} {list(sizes)}{' requires grad' if grad else ''}, seed {seed}"
            for i, (sizes, dtype, grad, seed) in enumerate(self.inputs)
        ]
        lines += [f"v{len(self.inputs) + i} = {step}" for i, step in enumerate(self.steps)]
        return "\n".join(lines)


def make_input(sizes, dtype, seed, order):
    """Values from the seed; `order` reverses the dims in memory."""
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        x = torch.randint(0, 2, sizes, generator=generator).to(torch.bool)
    elif dtype.is_floating_point:
        x = (torch.randn(sizes, generator=generator, dtype=torch.float64) * 2).to(dtype)
    elif dtype.is_complex:
        parts = torch.randn((*sizes, 2), generator=generator)
        x = torch.complex(parts[..., 0], parts[..., 1])
    else:
        low = 0 if dtype is torch.uint8 else -9
        x = torch.randint(low, 10, sizes, generator=generator).to(dtype)
    if order and x.dim() > 1:
        dims = list(reversed(range(x.dim())))
        x = x.permute(dims).contiguous().permute(dims)
    elif order and x.dim() == 1:
        x = torch.stack([x, x], 1)[:, 0]
    return x


def random_program(rng, table):
    shapes = [tuple(rng.choice(SIZES) for _ in range(rng.randint(0, 3))) for _ in range(2)]
    inputs = []
    for _ in range(rng.randint(2, 4)):
        dtype = rng.choice(DTYPES if rng.random() < 0.4 else (torch.float32,))
        sizes = rng.choice(shapes) if rng.random() < 0.8 else tuple(1 for _ in rng.choice(shapes))
        grad = (dtype.is_floating_point or dtype.is_complex) and rng.random() < 0.5
        inputs.append((sizes, dtype, grad, rng.randrange(10**6)))
    steps = []
    for number_of_step in range(rng.randint(1, 8)):
        operator = rng.choice(table)
        count = len(inputs) + number_of_step
        inplace = operator.inplace and rng.random() < 0.3
        positional, named = [], {}
        for kind, name, default, keyword in operator.arguments:
            base = kind.rstrip("?")
            if default and (base not in OPTIONAL or rng.random() < 0.7):
                continue
            if base == "Tensor":
                # Later results are chosen more often, so that chains grow.
                chosen = count - 1 if rng.random() < 0.5 else rng.randrange(count)
                argument = ("variable", chosen)
            elif base == "Tensor[]":
                argument = ("variables", [rng.randrange(count) for _ in range(rng.randint(1, 3))])
            else:
                argument = ("value", MAKERS[base](rng))
            if default or keyword:
                named[name] = argument
            else:
                positional.append(argument)
        steps.append(Step(operator, inplace, positional, named))
    return Program(inputs, steps)


def content(tensor):
    """What is compared: dtype, shape, bytes, with every NaN the same."""
    t = tensor.detach()
    if t.is_complex():
        t = torch.stack([torch.real(t), torch.imag(t)], -1)
    if t.dtype is torch.bfloat16:
        t = t.to(torch.float32)
    array = t.numpy().copy()
    if array.dtype.kind == "f":
        array[array != array] = float("nan")
    return str(tensor.dtype), tuple(tensor.shape), array.tobytes()


def execute(program, order=False, deferred=False, flush=True):
    """Contents of all variables and gradients, or the name of an error's type, by step."""
    torch.manual_seed(7)
    variables = []
    for sizes, dtype, grad, seed in program.inputs:
        x = make_input(sizes, dtype, seed, order)
        variables.append(x.requires_grad_() if grad else x)
    leaves = [v for v in variables if v.requires_grad]
    outcome = []

    def run():
        for step in program.steps:
            try:
                result = step.run(variables)
                if isinstance(result, tuple | list):
                    result = result[0] if result else variables[0]
                if not isinstance(result, torch.Tensor) or result.numel() > 10**6:
                    raise TypeError("no tensor")
                if flush:
                    _C._flush_deferred()  # raises here what depends on values
                variables.append(result)
                outcome.append("ok")
            except Exception as error:
                outcome.append(type(error).__name__)
                if step.inplace:
                    return False  # what a failed write leaves is not defined
                variables.append(variables[0])
        results = [v for v in variables if v.requires_grad and not v.is_leaf]
        if results:
            try:
                torch.autograd.backward(results, [torch.ones_like(r) for r in results])
                outcome.append("ok")
            except Exception as error:
                outcome.append(type(error).__name__)
        return True

    if deferred:
        with torch.deferred():
            whole = run()
    else:
        whole = run()
    if not whole:
        return outcome, [], []
    gradients = [None if leaf.grad is None else content(leaf.grad) for leaf in leaves]
    return outcome, [content(v) for v in variables], gradients


def ways():
    """Names of ways to run and functions that run a program so."""
    yield "1 thread", with_threads(1)
    yield "3 threads", with_threads(3)
    yield "deferred, run call by call", lambda p: execute(p, deferred=True)
    yield FUSED, lambda p: execute(p, deferred=True, flush=False)
    yield OTHER_ORDER, lambda p: execute(p, order=True)
    features, width = _C._get_target()
    for other in (16, 32, 64):
        if other != width:
            yield f"vectors of {other} bytes", with_target(features, other)


def with_threads(count):
    def run(program):
        before = torch.get_num_threads()
        torch.set_num_threads(count)
        try:
            return execute(program)
        finally:
            torch.set_num_threads(before)

    return run


def with_target(features, width):
    def run(program):
        before = _C._get_target()
        _C._set_target(features, width)
        try:
            return execute(program)
        finally:
            _C._set_target(*before)

    return run


def difference(program):
    """The way of running that differs and what differs, or None."""
    expected = execute(program)
    for name, run in ways():
        if name == OTHER_ORDER and program.layout_matters():
            continue
        if name == FUSED and any(o != "ok" for o in expected[0]):
            continue  # errors come later there
        found = run(program)
        if found == expected:
            continue
        for what, a, b in zip(("errors", "values", "gradients"), expected, found):
            if a != b:
                index = next(
                    (i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b))
                )
                return name, f"{what} differ at {index}"
    return None


def shortened(program, way):
    """The program without what is not needed for a difference in this way of running."""
    steps = list(program.steps)
    for i in reversed(range(len(steps))):
        later = steps[i + 1 :]
        place = len(program.inputs) + i

        def uses(argument, place=place):
            kind, value = argument
            return (
                value >= place
                if kind == "variable"
                else kind == "variables" and max(value) >= place
            )

        if any(uses(a) for s in later for a in (*s.positional, *s.named.values())):
            continue
        candidate = Program(program.inputs, steps[:i] + later)
        found = difference(candidate)
        if found and found[0] == way:
            steps = steps[:i] + later
    return Program(program.inputs, steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--programs", type=int, default=10**9)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else int(time.time())
    table = operators()
    print(f"{len(table)} operators, first seed {seed}", flush=True)
    torch.set_num_threads(2)
    start, count, calls, good = time.monotonic(), 0, 0, 0
    while time.monotonic() - start < options.seconds and count < options.programs:
        rng = random.Random(seed + count)
        program = random_program(rng, table)
        found = difference(program)
        if found:
            program = shortened(program, found[0])
            print(f"seed {seed + count}: {': '.join(difference(program) or found)}\n{program}")
            return 1
        outcome = execute(program)[0]
        calls += len(program.steps)
        good += sum(o == "ok" for o in outcome[: len(program.steps)])
        count += 1
    seconds = time.monotonic() - start
    print(
        f"{count} programs of {calls} calls ({good} without an error) are equal in "
        f"{len(list(ways())) + 1} ways, {seconds:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
