"""Extension modules from C text, compiled by the machine's C compiler when they are needed. tegula itself needs none."""
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sysconfig
import tempfile

from .. import knobs
from .cache import get_cache_manager


def _compiler():
    found = knobs.build.cc or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not found:
        raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable or set triton.knobs.build.cc.")
    return found


def _build(name, src, srcdir, library_dirs, include_dirs, libraries, ccflags=(), language="c"):
    """Compiles the file `src`, C or C++, to a shared library in `srcdir`. Returns its path."""
    if knobs.build.impl is not None:
        return knobs.build.impl(name, src, srcdir, library_dirs, include_dirs, libraries)
    out = os.path.join(srcdir, name + sysconfig.get_config_var("EXT_SUFFIX"))
    includes = [*include_dirs, srcdir, sysconfig.get_paths()["include"], *knobs.build.backend_dirs]
    subprocess.check_call([_compiler(), *(["-x", language] if language != "c" else []), src, "-O3", "-shared", "-fPIC", "-Wno-psabi", "-o", out, *(f"-l{n}" for n in (*libraries, *(["stdc++"] if language != "c" else []))),
                           *(f"-L{d}" for d in library_dirs), *(f"-I{d}" for d in includes), *ccflags], stdout=subprocess.DEVNULL)
    return out


@functools.lru_cache
def platform_key():
    import platform
    return ",".join([platform.machine(), platform.system(), *platform.architecture()])


def _load_module_from_path(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    if not spec or not spec.loader:
        raise RuntimeError(f"Failed to load newly compiled {name} from {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _cached_library(src, name, library_dirs, include_dirs, libraries, ccflags, language="c"):
    key = hashlib.sha256(repr((src, platform_key(), sysconfig.get_config_var("EXT_SUFFIX"), library_dirs, include_dirs, libraries, ccflags, language)).encode()).hexdigest()
    cache, file = get_cache_manager(key), name + sysconfig.get_config_var("EXT_SUFFIX")
    path = cache.get_file(file)
    if path is None:
        with tempfile.TemporaryDirectory() as folder:
            text = os.path.join(folder, name + (".c" if language == "c" else ".cpp"))
            with open(text, "w", encoding="utf-8") as out:
                out.write(src)
            with open(_build(name, text, folder, list(library_dirs or ()), list(include_dirs or ()), list(libraries or ()), list(ccflags or ()), language), "rb") as made:
                path = cache.put(made.read(), file, binary=True)
    return path


def compile_so_from_src(src, name, library_dirs=None, include_dirs=None, libraries=None, ccflags=None, language="c"):
    """Path of the shared library of a C or C++ text, compiled once."""
    return _cached_library(src, name, library_dirs, include_dirs, libraries, ccflags, language)


def compile_module_from_src(src, name, library_dirs=None, include_dirs=None, libraries=None, ccflags=None, language="c"):
    """The extension module `name` of a C or C++ text, compiled once."""
    return _load_module_from_path(name, _cached_library(src, name, library_dirs, include_dirs, libraries, ccflags, language))


def _text(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def _language_of(path):
    return "c" if str(path).endswith(".c") else "c++"


def compile_so_from_file(src_path, name, library_dirs=None, include_dirs=None, libraries=None, ccflags=None):
    """As compile_so_from_src, of a file."""
    return compile_so_from_src(_text(src_path), name, library_dirs, include_dirs, libraries, ccflags, _language_of(src_path))


def compile_module_from_file(src_path, name, library_dirs=None, include_dirs=None, libraries=None, ccflags=None):
    """As compile_module_from_src, of a file."""
    return compile_module_from_src(_text(src_path), name, library_dirs, include_dirs, libraries, ccflags, _language_of(src_path))
