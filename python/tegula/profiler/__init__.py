"""`triton.profiler`: which kernels ran in which scopes, and for how long. No hardware counters. The rules: docs/language.md, level 3.9; details: _session.py."""
from . import context, data, flags, hooks, language, metric, mode, specs
from ._session import sessions
from .hooks import Hook, HookManager, LaunchHook
# The functions and classes, not the modules of these names.
from .scope import cpu_timed_scope, enter_scope, exit_scope, scope
from .state import enter_state, exit_state, metadata_state, state
from .profile import DEFAULT_PROFILE_NAME, activate, deactivate, finalize, profile, start
