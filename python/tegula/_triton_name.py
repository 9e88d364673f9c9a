"""The name `triton`: modules of that name are tegula's own, in this process and in those that it starts."""
import importlib.abc
import importlib.util
import os
import sys
import types

from tegula.experimental import WHY_NO_GLUON

# Modules of Triton that tegula has no equivalent of, and what to use. Those below them are meant, too.
_ABSENT = {
    "triton.experimental.gluon": WHY_NO_GLUON,
    "triton._C": "Triton's compiler is C++ behind this module; tegula's is reached by triton.compile, tegula.h and tegula.hpp. `getenv` and `getenv_bool` are "
                 "in triton._C.libtriton",
    "triton.compiler.make_launcher": "kernels are launched by the library, not by C that is compiled for each",
    "triton.tools.build_extern": "libdevice is a part of the language; there is no bitcode to read",
    "triton.backends.amd": "there is no AMD target",
    "triton.language.extra.hip.utils": "there is no AMD target",
    "triton.profiler._rocm": "there is no AMD target",
    "triton.tools.gsan": "the simulator checks accesses, and needs no allocator",
    "triton.tools.triton_to_gluon_translator": WHY_NO_GLUON,
    "triton._instrumentation": "no passes from outside are run in a compilation",
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
        from tegula._version import language_version
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
