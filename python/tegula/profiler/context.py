"""Where in the scopes the program is."""
from . import _session


def depth(session=0):
    """How many scopes are open; None if there is no such session."""
    if session not in _session.sessions:
        return None
    return len(_session.stack("scopes")) + len(_session.stack("states")[-1:])
