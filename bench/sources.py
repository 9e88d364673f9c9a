"""Loads one source of kernels once for each compiler."""
import importlib.util
import sys


def load_as(name, path, modules):
    """The file as module `name`, with what `modules` names ("triton", "triton.language" ...) meaning those modules while it is imported."""
    saved = {k: sys.modules.get(k) for k in modules}
    sys.modules.update(modules)
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # Triton looks up a kernel's module
        spec.loader.exec_module(module)
        return module
    finally:
        for k, v in saved.items():
            if v is None:
                sys.modules.pop(k, None)
            else:
                sys.modules[k] = v
