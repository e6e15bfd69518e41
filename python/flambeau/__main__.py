"""Runs a program that imports torch with Flambeau in its place.

    python -m flambeau SCRIPT [ARGUMENT ...]
    python -m flambeau -m MODULE [ARGUMENT ...]
    python -m flambeau -c CODE [ARGUMENT ...]

The program sees what it would see under `python SCRIPT`, `python -m MODULE` or `python -c CODE`:
arguments, path, its own module `__main__`, tracebacks and exit status. Options of the interpreter
stand before `-m flambeau`.
"""

import builtins
import importlib.machinery
import importlib.util
import io
import os
import sys
import types
import zipfile

from flambeau.torch_names import install, real_name


def _stop(text, status):
    print(f"{sys.executable}: {text}", file=sys.stderr)
    sys.exit(status)


def _new_main(spec=None, file=None, loader=None):
    main = types.ModuleType("__main__")
    main.__builtins__ = builtins
    main.__loader__ = loader or importlib.machinery.BuiltinImporter
    if spec is not None:
        main.__spec__, main.__package__, main.__loader__ = spec, spec.parent, spec.loader
        file, main.__cached__ = spec.origin, spec.cached
    if file is not None:
        main.__file__ = file
    return main


def _note_what_is_missing(error):
    top = error.name.partition(".")[0] if error.name else ""
    if top == "torch":
        error.add_note(
            f"Flambeau runs in the place of torch here and has no module {real_name(error.name)}."
        )
    elif top.startswith("torch"):
        error.add_note(
            f"Flambeau stands in for torch alone; {top} is a package of its own, which is not "
            "installed here."
        )


def _show(error, traceback):
    """Reports an error as the interpreter does, without the frames of this file."""
    if isinstance(error, ModuleNotFoundError):
        _note_what_is_missing(error)
    hook = sys.excepthook
    hook(type(error), error.with_traceback(traceback), traceback)

    def shown_already(*_):
        sys.excepthook = hook

    # The error itself goes on to the interpreter, which knows how a process ends by it.
    sys.excepthook = shown_already


def _run(main, make_code):
    sys.modules["__main__"] = main
    try:
        code = make_code()
    except SyntaxError as error:
        _show(error, None)
        raise
    try:
        exec(code, main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        _show(error, error.__traceback__.tb_next)
        raise


def _run_code(code, arguments):
    sys.argv = ["-c", *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = ""
    _run(_new_main(), lambda: compile(code, "<string>", "exec", dont_inherit=True))


def _run_found(spec):
    _run(_new_main(spec), lambda: spec.loader.get_code(spec.name))


def _run_module(name, arguments):
    sys.argv = ["-m", *arguments]
    name = real_name(name) or name
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name += ".__main__"
            spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:  # of a package that should hold it
        _stop(f"Error while finding module specification for {name!r} ({error})", 1)
    except ValueError:  # a module without a spec
        spec = None
    if spec is None or not hasattr(spec.loader, "get_code"):
        _stop(f"No module named {name}", 1)
    sys.argv[0] = spec.origin
    _run_found(spec)


def _run_script(script, arguments):
    sys.argv = [script, *arguments]
    path = os.path.abspath(script)
    archive = os.path.isdir(path) or zipfile.is_zipfile(path)
    if archive or not sys.flags.safe_path:
        place = path if archive else os.path.dirname(os.path.realpath(path))
        sys.path[0 : 0 if sys.flags.safe_path else 1] = [place]
    if archive:
        spec = importlib.machinery.PathFinder.find_spec("__main__", [path])
        if spec is None:
            _stop(f"can't find '__main__' module in {path!r}", 1)
        _run_found(spec)
        return
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        _stop(f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}", 2)
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    _run(
        _new_main(file=path, loader=loader),
        lambda: compile(source, path, "exec", dont_inherit=True),
    )


def _main():
    first, *arguments = sys.argv[1:] or [""]
    if first in ("-h", "--help"):
        print(__doc__)
    elif first in ("-m", "-c") and arguments:
        install()
        (_run_module if first == "-m" else _run_code)(arguments[0], arguments[1:])
    elif first and not first.startswith("-"):
        install()
        _run_script(first, arguments)
    else:
        given = repr(first) if first else "nothing"
        print(f"{__doc__}\nGiven: {given}; needed: a script, -m MODULE or -c CODE", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    _main()
