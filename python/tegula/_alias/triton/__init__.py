"""`import triton` in the child processes of `python -m tegula`, which have the folder above on their PYTHONPATH."""
import sys

from tegula._triton_name import install

del sys.modules["triton"]
install()
import triton  # noqa: the one that tegula stands in for
