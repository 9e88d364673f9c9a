"""`triton.profiler.state`: a name below the scopes, of which there is one at a time."""
import contextlib

from . import _session
from .hooks import COMPUTE_METADATA_SCOPE_NAME

COMPUTE_METADATA_SCOPE_PREFIX = COMPUTE_METADATA_SCOPE_NAME + "/"


class _Around(contextlib.ContextDecorator):
    """A context manager that may be entered again while it is open, and a decorator."""

    def _recreate_cm(self):
        return self


def get_metadata_state_name(kernel_name=None):
    """Of the state in which the metadata of a kernel's launches are computed."""
    return COMPUTE_METADATA_SCOPE_PREFIX + kernel_name if kernel_name else COMPUTE_METADATA_SCOPE_NAME


def enter_state(name):
    """Launches from now on are below `name`, the innermost state only, within the scopes."""
    _session.stack("states").append(name)


def exit_state():
    states = _session.stack("states")
    if states:
        states.pop()


class state(_Around):
    """`with state("name"):` or a decorator: the launches in it are below `name`, in place of states around it."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        enter_state(self.name)
        return self

    def __exit__(self, *error):
        exit_state()


class metadata_state(state):
    """The launches in it compute metrics; they count by themselves."""

    def __init__(self, kernel_name=None):
        super().__init__(get_metadata_state_name(kernel_name))
