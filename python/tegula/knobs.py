"""Settings read from the environment when they are needed."""
import os

_TRUE = ("1", "true", "on", "yes", "y")


def flag(name, default=False):
    text = os.environ.get(name)
    return default if text is None else text.lower() in _TRUE


def allow_non_constexpr_globals():
    return flag("TEGULA_ALLOW_NON_CONSTEXPR_GLOBALS") or flag("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS")
