"""The rules of tools/check_layering.py, on this tree and on wrong ones."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("check_layering", ROOT / "tools/check_layering.py")
layering = importlib.util.module_from_spec(spec)
spec.loader.exec_module(layering)


def test_this_tree():
    assert layering.Checker(ROOT).run(headers=False) == []


WRONG = [
    ("flambeau/base/a.cpp", '#include "flambeau/ops/x.h"', "base/ stands above ops/"),
    ("flambeau/ops/a.cpp", "#include <llvm/IR/Module.h>", "LLVM belongs to"),
    ("flambeau/emit/code.h", "#pragma once\n#include <llvm/IR/Module.h>", "LLVM belongs to"),
    ("flambeau/io/a.h", "#pragma once\n#include <zlib.h>", "no third-party header"),
    ("flambeau/io/a.h", "#pragma once\n#include <nlohmann/json.hpp>", "no third-party header"),
    ("flambeau/io/a.h", "int f();", "#pragma once"),
    ("flambeau/base/a.cpp", '#include "flambeau/base/none.h"', "there is no such file"),
    ("flambeau/ops/x.cpp", '#include <vector>\n#include "flambeau/ops/x.h"', "first include"),
    ("flambeau/base/string_utils.cpp", "", "says nothing"),
    ("flambeau/misc/a.cpp", "", "says nothing"),
    ("tests/unit/long_test.cpp", "int x;\n" * 1001, "1001 lines"),
]


@pytest.mark.parametrize("name, content, text", WRONG)
def test_wrong_tree(tmp_path, name, content, text):
    (tmp_path / "flambeau/ops").mkdir(parents=True)
    (tmp_path / "flambeau/ops/x.h").write_text("#pragma once\n")
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    breaches = layering.Checker(tmp_path).run(headers=False)
    assert len(breaches) == 1
    assert breaches[0].startswith(name) and text in breaches[0]


RIGHT = [
    ("flambeau/ops/y.cpp", '#include "flambeau/ops/x.h"\n#include <zlib.h>'),
    ("flambeau/autograd/y.h", '#pragma once\n#include <sys/mman.h>\n#include "flambeau/ops/x.h"'),
    ("flambeau/emit/llvm/y.h", "#pragma once\n#include <llvm/IR/Module.h>"),
    ("python/flambeau/utils/data.py", ""),
    ("flambeau/flambeau.h", '#pragma once\n#include "flambeau/ops/x.h"'),
    ("tests/unit/long_test.cpp", "// Long because: a table.\n" * 1001),
]


@pytest.mark.parametrize("name, content", RIGHT)
def test_right_tree(tmp_path, name, content):
    test_path = tmp_path / name
    (tmp_path / "flambeau/ops").mkdir(parents=True)
    (tmp_path / "flambeau/ops/x.h").write_text("#pragma once\n")
    test_path.parent.mkdir(parents=True, exist_ok=True)
    test_path.write_text(content)
    assert layering.Checker(tmp_path).run(headers=False) == []
