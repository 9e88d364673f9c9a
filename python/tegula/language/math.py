"""`tl.math`: elementary functions."""
from . import _lookup, _names_of


def __getattr__(name):
    if name == "__all__":
        return __dir__()
    return _lookup("triton.language.math", name)


def __dir__():
    return _names_of("triton.language.math")
