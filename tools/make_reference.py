"""Writes what derives from the operator table: the stub and the reference pages.

usage: make_reference.py [--out DIR]

python/flambeau/_C.pyi gets a signature for each function and method, for editors and type checkers;
DIR (build/reference) gets a page for each namespace with schema and documentation of its operators.
"""

import argparse
import collections
import pathlib
import re

from flambeau import _C

ROOT = pathlib.Path(__file__).resolve().parent.parent
FUNCTION, METHOD, INPLACE, OUT = 1, 2, 4, 8
SPACES = ("nn.functional.", "linalg.", "special.", "fft.", "signal.windows.")
TYPES = {
    "Tensor": "Tensor",
    "Tensor[]": "Sequence[Tensor]",
    "Tensor?[]": "Sequence[Tensor | None]",
    "int": "int",
    "SymInt": "int",
    "int[]": "Sequence[int] | int",
    "SymInt[]": "Sequence[int] | int",
    "float": "float",
    "Scalar": "complex",
    "bool": "bool",
    "str": "str",
    "ScalarType": "dtype",
    "Device": "device | str",
    "Layout": "object",
    "MemoryFormat": "object",
}
KEYWORDS = {"from", "lambda", "is", "in", "not", "or", "and", "if", "class", "global", "import"}


class Signature:
    """One overload: names, arguments as Python writes them, result."""

    def __init__(self, schema, forms, doc):
        self.schema, self.forms, self.doc = schema, forms, doc
        names, _, rest = schema.partition("(")
        self.names = []
        for name in names.split("|"):
            space = next((s for s in SPACES if name.startswith(s)), "")
            self.names.append((space.rstrip("."), name[len(space) :].partition(".")[0]))
        arguments, _, result = rest.rpartition(") -> ")
        self.arguments = [a.strip() for a in re.split(r",(?![^\[]*\])", arguments) if a.strip()]
        lists = result.startswith("(") or result.endswith("[]")
        self.result = (
            "tuple[Tensor, ...]" if lists else "Tensor" if result.startswith("Tensor") else "Any"
        )

    def parameters(self, form):
        """The text between the parentheses of `def`."""
        parts, keyword = [], False
        for number, argument in enumerate(self.arguments):
            if argument == "*":
                parts.append("*")
                keyword = True
                continue
            declared, _, default = argument.partition("=")
            kind, name = declared.rsplit(" ", 1)
            kind = re.sub(r"\(\w!?\)|(?<=\[)\d+(?=\])", "", kind)
            optional = kind.endswith("?")
            text = TYPES.get(kind.rstrip("?"), "Any") + (" | None" if optional else "")
            if number == 0 and form != FUNCTION:
                parts.append("self")
                continue
            if name in KEYWORDS:
                name += "_"
            parts.append(f"{name}: {text}" + (" = ..." if default else ""))
        if form == FUNCTION and self.forms & OUT:
            parts += [] if keyword else ["*"]
            parts.append("out: Any = ...")
        return ", ".join(parts)


def table():
    return [Signature(*row) for row in _C._operator_schemas() if not row[0].startswith("_")]


def definitions(signatures, indent, form, inplace=False):
    lines = []
    for name in sorted(signatures):
        overloads = signatures[name]
        spelled = name + "_" if inplace else name
        for signature in overloads:
            if len(overloads) > 1:
                lines.append(f"{indent}@overload")
            lines.append(
                f"{indent}def {spelled}({signature.parameters(form)}) -> {signature.result}: ..."
            )
    return lines


def by_name(signatures, form, space=""):
    chosen = collections.defaultdict(list)
    for signature in signatures:
        if not signature.forms & form:
            continue
        for own_space, name in signature.names:
            if own_space == space and name.isidentifier() and name not in KEYWORDS:
                chosen[name].append(signature)
    return chosen


def stub(signatures):
    lines = [
        '"""Made by tools/make_reference.py from the operator table."""',
        "",
        "from collections.abc import Sequence",
        "from typing import Any, overload",
        "",
        "class dtype: ...",
        "class device: ...",
        "",
        "class Tensor:",
        "    def __getattr__(self, name: str) -> Any: ...",
    ]
    methods = by_name(signatures, METHOD)
    lines += definitions(methods, "    ", METHOD)
    lines += definitions(by_name(signatures, INPLACE), "    ", INPLACE, inplace=True)
    lines.append("")
    lines += definitions(by_name(signatures, FUNCTION), "", FUNCTION)
    lines += ["", "def __getattr__(name: str) -> Any: ...", ""]
    return "\n".join(lines)


def pages(signatures):
    """Text by page name."""
    spaces = sorted({space for s in signatures for space, _ in s.names})
    for space in spaces:
        title = f"flambeau.{space}" if space else "flambeau"
        lines = [f"# {title}", ""]
        forms = FUNCTION if space else FUNCTION | METHOD | INPLACE
        listed = by_name(signatures, forms, space)
        for name in sorted(listed):
            lines.append(f"## {name}")
            for signature in listed[name]:
                kinds = [
                    ("function", FUNCTION),
                    ("method", METHOD),
                    ("in place", INPLACE),
                    ("out=", OUT),
                ]
                shown = ", ".join(text for text, form in kinds if signature.forms & form)
                lines += [f"`{signature.schema}` ({shown})", "", signature.doc.strip(), ""]
        yield title, "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "reference")
    options = parser.parse_args()
    signatures = table()
    (ROOT / "python" / "flambeau" / "_C.pyi").write_text(stub(signatures))
    options.out.mkdir(parents=True, exist_ok=True)
    for title, text in pages(signatures):
        (options.out / f"{title}.md").write_text(text)
    print(f"{len(signatures)} overloads: python/flambeau/_C.pyi and {options.out}")


if __name__ == "__main__":
    main()
