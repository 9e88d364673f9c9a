"""`python -m tegula script.py [args]`: runs a script in which `triton` means tegula; `-m module`, `-c text`, a script on stdin and the prompt as Python has them."""
import code
import importlib.abc
import importlib.util
import io
import itertools
import linecache
import os
import runpy
import sys
import types

from tegula._inductor.later import when_imported
from tegula.experimental import WHY_NO_GLUON

USAGE = """usage: python -m tegula [script.py | -m module | -c text | -] [arguments]
Runs the script, module or text with `triton` meaning tegula, in its child processes too. Without arguments: the prompt."""


# Modules of Triton that tegula has no equivalent of, and what to use. Those below them are meant, too.
_ABSENT = {
    "triton.experimental.gluon": WHY_NO_GLUON,
    "triton._C": "Triton's compiler is C++ behind this module; tegula's is reached by triton.compile, tegula.h and tegula.hpp. `getenv` and `getenv_bool` are "
                 "in triton._C.libtriton",
    "triton.compiler.make_launcher": "kernels are launched by the library, not by C that is compiled for each",
    "triton.tools.build_extern": "libdevice is a part of the language; there is no bitcode to read",
    "triton.backends.amd": "there is no AMD target",
}


def _why_absent(name, error):
    for absent, why in _ABSENT.items():
        if name == absent or name.startswith(absent + "."):
            return f"{name} is not there: {why}"
    return f"{name}: this version of tegula does not provide it ({error})"


class _Triton(types.ModuleType):
    """The module `triton`: all of tegula, but for the version, which is that of the language."""

    def __getattr__(self, name):
        import tegula
        if name == "__all__":
            return [n for n in dir(tegula) if not n.startswith("_")]
        return getattr(tegula, name)

    def __setattr__(self, name, value):
        import tegula
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            setattr(tegula, name, value)

    def __delattr__(self, name):
        import tegula
        delattr(tegula, name)

    def __dir__(self):
        import tegula
        return dir(tegula)


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports of triton.X give tegula.X itself, not a copy."""

    def find_spec(self, name, path=None, target=None):
        if name != "triton" and not name.startswith("triton."):
            return None
        real = self._real_spec(name)  # without one, create_module says what is missing
        return importlib.util.spec_from_loader(name, self, is_package=real is None or real.submodule_search_locations is not None)

    @staticmethod
    def _real_spec(name):
        try:
            return importlib.util.find_spec("tegula" + name[len("triton"):])
        except ModuleNotFoundError:
            return None

    def get_code(self, name):
        """For `-m triton.module`."""
        real = self._real_spec(name)
        return real.loader.get_code(real.name)

    def create_module(self, spec):
        name = "tegula" + spec.name[len("triton"):]
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as e:
            raise ModuleNotFoundError(_why_absent(spec.name, e), name=spec.name) from None
        if name != "tegula":
            spec.loader_state = module.__spec__
            return module
        import tegula.compiler, tegula.language.core, tegula.runtime  # programs find them in sys.modules
        from tegula._kernel import language_version
        triton = _Triton("triton", module.__doc__)
        triton.__version__, triton.__file__ = language_version(), module.__file__
        return triton

    def exec_module(self, module):
        found = getattr(module.__spec__, "loader_state", None)
        if found is not None:
            module.__spec__ = found  # it stays what it is
        for name, loaded in list(sys.modules.items()):  # those that came along are found there, too
            if name.startswith("tegula.") and "._" not in name:
                sys.modules.setdefault("triton" + name[len("tegula"):], loaded)


def install():
    """From now on `import triton` means tegula in this process."""
    if not any(isinstance(f, _Alias) for f in sys.meta_path):
        sys.meta_path.insert(0, _Alias())


def alias_path():
    """The folder in which child processes find `triton`."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "_alias")


def install_for_children():
    """Child processes that run Python find `triton` on their path; importlib.metadata finds it on this one's."""
    here, alias = os.path.dirname(os.path.abspath(__file__)), alias_path()
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    os.environ["PYTHONPATH"] = os.pathsep.join([alias, *(p for p in paths if p != alias), *([] if os.path.dirname(here) in paths else [os.path.dirname(here)])])
    sys.path.insert(1, alias)  # before an installed Triton: programs give sys.path to their worker processes


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
