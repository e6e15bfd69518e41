"""What derives from the operator table: a stub that parses, and a page with every operator."""

import ast
import importlib.util
import pathlib

from flambeau import _C

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("make_reference", ROOT / "tools/make_reference.py")
make_reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_reference)


def test_the_stub_parses():
    module = ast.parse(make_reference.stub(make_reference.table()))
    functions = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
    assert {"add", "softmax", "where", "cat"} <= functions
    (tensor,) = (n for n in module.body if isinstance(n, ast.ClassDef) and n.name == "Tensor")
    methods = {node.name for node in tensor.body if isinstance(node, ast.FunctionDef)}
    assert {"add", "add_", "sum", "view", "index_put_"} <= methods


def test_every_operator_has_a_page_and_documentation():
    text = "".join(page for _, page in make_reference.pages(make_reference.table()))
    for schema, forms, doc in _C._operator_schemas():
        assert doc.strip(), schema
        if forms and not schema.startswith("_"):
            assert schema in text


def test_functions_carry_documentation():
    import flambeau as torch

    assert "scaled to sum to one" in torch.softmax.__doc__
