"""Functions of kernels: their kinds, as the C++ side numbers them, what makes those of plain Python, and the lock that is held while they are bound."""
import os
import threading

JIT, CONSTEXPR, PLAIN, BUILTIN = range(4)

makers = {}  # kind: f(function of Python) that makes one of it, from _function.py

# One that is half bound must be seen by nobody else. Reentrant, as functions refer to each other. A child of fork has another one: read it at each use.
lock = threading.RLock()


def _new_lock():
    global lock
    lock = threading.RLock()


# The forking thread waits for the others to be done, so that the child finds no half-bound function.
os.register_at_fork(before=lambda: lock.acquire(), after_in_parent=lambda: lock.release(), after_in_child=_new_lock)
