"""`triton.profiler.hooks.launch`"""
from . import COMPUTE_METADATA_SCOPE_NAME, Hook, LaunchHook

__all__ = ["COMPUTE_METADATA_SCOPE_NAME", "Hook", "LaunchHook"]
