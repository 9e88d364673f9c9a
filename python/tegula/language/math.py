"""`tl.math`: elementary functions."""
from . import _lookup


def __getattr__(name):
    return _lookup("triton.language.math", name)
