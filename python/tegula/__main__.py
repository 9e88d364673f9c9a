"""`python -m tegula script.py [args]`: runs a script in which `triton` means tegula; `-m module`, `-c text`, a script on stdin and the prompt as Python has them."""
import code
import io
import itertools
import linecache
import os
import runpy
import sys
import types

from tegula._inductor.later import when_imported
from tegula._triton_name import install, install_for_children

USAGE = """usage: python -m tegula [script.py | -m module | -c text | -] [arguments]
Runs the script, module or text with `triton` meaning tegula, in its child processes too. Without arguments: the prompt."""


def _main_module(file=None):
    main = types.ModuleType("__main__")
    main.__builtins__ = sys.modules["builtins"]
    if file is not None:
        main.__file__, main.__cached__ = file, None
    sys.modules["__main__"] = main
    return main


def _run_text(text, name):
    """Runs text that is in no file; kernels in it find their source."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), _main_module().__dict__)


def _run_script(script):
    if os.path.isdir(script) or _is_zip(script):
        runpy.run_path(script, run_name="__main__")
        return
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    with io.open_code(os.path.abspath(script)) as file:
        program = compile(file.read(), script, "exec")
    exec(program, _main_module(script).__dict__)


def _is_zip(script):
    with open(script, "rb") as file:
        return file.read(2) == b"PK"


def _hook(kind, error, trace):
    """Prints an exception as if the script ran by itself."""
    while trace and trace.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


class _Prompt(code.InteractiveConsole):
    """Keeps what is typed, so that kernels find their source."""
    numbers = itertools.count(1)

    def runsource(self, source, filename="<input>", symbol="single"):
        name = f"<input-{next(self.numbers)}>"
        linecache.cache[name] = (len(source), None, (source + "\n").splitlines(keepends=True), name)
        return super().runsource(source, name, symbol)


def _prompt():
    import tegula
    try:
        import readline  # noqa: lines can be edited
    except ImportError:
        pass
    _Prompt(_main_module().__dict__).interact(f"tegula {tegula.__version__}, Python {sys.version.split()[0]}; `triton` means tegula", exitmsg="")


def main():
    arguments = sys.argv[1:]
    if arguments and arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    first = arguments[0] if arguments else "-"
    if first in ("-m", "-c") and len(arguments) < 2:
        print(f"python -m tegula: {first} needs an argument\n{USAGE}", file=sys.stderr)
        return 2
    install()
    install_for_children()
    when_imported()
    sys.excepthook = _hook
    if first == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *arguments[2:]]
        _run_text(arguments[1], "<string>")
    elif first == "-":
        sys.argv = arguments or [""]
        if sys.stdin.isatty():
            _prompt()
        else:
            _run_text(sys.stdin.read(), "<stdin>")
    elif first.startswith("-"):
        print(f"python -m tegula: unknown option {first}\n{USAGE}", file=sys.stderr)
        return 2
    else:
        sys.argv = arguments
        if not os.path.exists(first):
            print(f"python -m tegula: no such file: {first}", file=sys.stderr)
            return 2
        _run_script(first)
    return 0


if __name__ == "__main__":
    # As `tegula.__main__`: the script becomes `__main__`, and there is one set of these classes.
    from tegula.__main__ import main as run
    sys.exit(run())
