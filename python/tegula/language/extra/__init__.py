"""`tl.extra`: functions beyond the core language."""


def __getattr__(name):
    if name in ("cpu", "cuda", "hip", "libdevice"):
        import importlib
        return importlib.import_module(f"tegula.language.extra.{name}")
    raise AttributeError(f"module 'triton.language.extra' has no attribute `{name}`; this version of tegula does not provide it")
