"""`triton.profiler.hooks.hook`"""
from . import Hook, HookManager

__all__ = ["Hook", "HookManager"]
