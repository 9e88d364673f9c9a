"""`triton.profiler.hooks.instrumentation`"""
from . import Hook, InstrumentationHook

__all__ = ["Hook", "InstrumentationHook"]
