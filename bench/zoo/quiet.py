"""Silence while a compiler runs."""
import contextlib
import os
import sys


@contextlib.contextmanager
def quiet():
    """Nothing to stderr: Triton prints a whole module for a pass that fails; the exception says which one."""
    sys.stderr.flush()
    kept = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)
