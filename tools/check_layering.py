"""Checks how the sources are laid out; prints each breach as FILE:LINE: text and fails if any is.

- a folder of flambeau/ includes only itself and the folders before it in FOLDERS;
- LLVM is included in flambeau/emit/llvm alone, and no other header includes a third-party header;
- a file has at most 1,000 lines, unless a comment `Long because:` gives the reason;
- no file or folder has a name that says nothing (utils, helpers, common, misc), except the modules
  of the Python package, which have PyTorch's names;
- with --headers: each header compiles alone.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = "base tensor graph loop prim kernel emit device run ops autograd nn optim data io".split()
SOURCE_ROOTS = ("flambeau", "python", "tests", "examples", "benchmarks", "tools")
SUFFIXES = {".cpp", ".h", ".py", ".sh"}
MAX_LINES = 1000
LLVM_HEADERS = "/usr/lib/llvm-19/include"
EMPTY_NAME = re.compile(r"(^|_)(utils?|helpers?|common|misc)(_|$)")
INCLUDE = re.compile(r'^\s*#\s*include\s*(<[^>]+>|"[^"]+")')
# Standard headers have neither dot nor slash; those of C, POSIX and compilers are listed.
STANDARD = re.compile(r"<[a-z_]+>")
SYSTEM = re.compile(
    r"<((assert|complex|cpuid|ctype|dirent|dlfcn|errno|fcntl|fenv|float|immintrin|inttypes|limits"
    r"|locale|math|memory|pthread|sched|semaphore|setjmp|signal|spawn|stdalign|stdarg|stdbool|stddef"
    r"|stdint|stdio|stdlib|string|time|uchar|unistd|wchar|x86intrin|(sys|linux|sanitizer)/\w+)\.h)>"
)
LLVM = re.compile(r'[<"](llvm|llvm-c)/')


class Checker:
    def __init__(self, root):
        self.root = root
        self.breaches = []

    def report(self, path, line, text):
        self.breaches.append(f"{path.relative_to(self.root)}:{line}: {text}")

    def files(self):
        for top in SOURCE_ROOTS:
            for path in sorted((self.root / top).rglob("*")):
                if path.suffix in SUFFIXES and "__pycache__" not in path.parts:
                    yield path

    def check_name(self, path):
        parts = path.relative_to(self.root).parts
        for part in parts if parts[:2] != ("python", "flambeau") else ():
            if EMPTY_NAME.search(part.split(".")[0]):
                self.report(path, 1, f"'{part}' says nothing about what the file holds")

    def check_length(self, path, lines):
        if len(lines) > MAX_LINES and not any("Long because:" in line for line in lines):
            self.report(path, len(lines), f"{len(lines)} lines; at most {MAX_LINES}, or a reason")

    def check_include(self, path, number, name):
        """`name` is the included header with its quotes or brackets."""
        parts = path.relative_to(self.root).parts
        if LLVM.match(name):
            if parts[:3] != ("flambeau", "emit", "llvm"):
                self.report(path, number, f"{name}: LLVM belongs to flambeau/emit/llvm")
            return
        target = name[1:-1]
        if target.startswith("flambeau/"):
            if not (self.root / target).exists():
                self.report(path, number, f"{name}: there is no such file")
            self.check_order(path, number, target, parts)
        elif parts[0] == "flambeau" and path.suffix == ".h":
            if not STANDARD.fullmatch(name) and not SYSTEM.fullmatch(name):
                self.report(path, number, f"{name}: a header includes no third-party header")

    def check_order(self, path, number, target, parts):
        if parts[0] != "flambeau" or len(parts) == 2:
            return  # programs, and flambeau/flambeau.h, which includes everything
        folder, other = parts[1], target.split("/")[1]
        if folder not in FOLDERS:
            self.report(path, number, f"folder '{folder}' is not in the order of folders")
        elif other not in FOLDERS:
            self.report(path, number, f'"{target}" lies outside the order of folders')
        elif FOLDERS.index(other) > FOLDERS.index(folder):
            self.report(path, number, f'"{target}": {folder}/ stands above {other}/')

    def check_file(self, path):
        lines = path.read_text(encoding="utf-8").splitlines()
        self.check_name(path)
        self.check_length(path, lines)
        if path.suffix not in (".cpp", ".h"):
            return
        includes = [(i, m[1]) for i, line in enumerate(lines, 1) if (m := INCLUDE.match(line))]
        for number, name in includes:
            self.check_include(path, number, name)
        if path.suffix == ".h" and "#pragma once" not in lines:
            self.report(path, 1, "a header has #pragma once")
        own = path.relative_to(self.root).with_suffix(".h")
        if path.suffix == ".cpp" and (self.root / own).exists():
            # The module's headers are no part of the library and have no path.
            own = own if own.parts[0] == "flambeau" else own.name
            if not includes or includes[0][1] != f'"{own}"':
                self.report(path, 1, f'the first include is "{own}"')

    def check_header_alone(self, path):
        compiler = os.environ.get("CXX", "clang++-19")
        command = [compiler, "-std=c++20", "-march=x86-64-v3", "-fsyntax-only", "-x", "c++"]
        command += ["-Wno-pragma-once-outside-header", "-I", str(self.root)]
        command += ["-isystem", LLVM_HEADERS] if "llvm" in path.parts else []
        command += [str(path)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            first = next((x for x in result.stderr.splitlines() if "error" in x), "no message")
            self.report(path, 1, f"does not compile alone: {first}")

    def run(self, headers):
        for path in self.files():
            self.check_file(path)
        if headers:
            alone = sorted((self.root / "flambeau").rglob("*.h"))
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(self.check_header_alone, alone))
        return sorted(self.breaches)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--headers", action="store_true", help="also compile each header alone")
    breaches = Checker(ROOT).run(parser.parse_args().headers)
    print("\n".join(breaches), file=sys.stderr)
    return int(bool(breaches))


if __name__ == "__main__":
    sys.exit(main())
