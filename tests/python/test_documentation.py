"""What the pages say about the tree: environment variables, and files that they point to."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
READ = re.compile(r'(?:setting|setting_integer|getenv|environ(?:\.get)?)[(\[]\s*"(FLAMBEAU_\w+)"')
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("tests/*/*.md")])


def test_settings_page():
    sources = [
        path
        for top in ("flambeau", "python")
        for path in (ROOT / top).rglob("*")
        if path.suffix in (".cpp", ".h", ".py")
    ]
    read = {name for path in sources for name in READ.findall(path.read_text(encoding="utf-8"))}
    listed = re.findall(r"^\| `(FLAMBEAU_\w+)`", (ROOT / "docs/settings.md").read_text(), re.M)
    assert sorted(listed) == sorted(read)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page):
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose)
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_the_readme_example(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(compile(example, "README.md", "exec"), {})
    assert float(capsys.readouterr().out) < 0.01
