"""What a session has gathered. A phase is a part of a session's time with a tree of its own."""
import json

from . import _session


def _one(session):
    return _session.chosen(session)[0]


def get(session=0, phase=0):
    """The tree of a phase: [node, device information]; a node has frame, metrics and children."""
    return _one(session).tree(phase)


def get_json(session=0, phase=0):
    return json.dumps(get(session, phase))


def get_msgpack(session=0, phase=0):
    import msgpack
    return msgpack.packb(get(session, phase))


def advance_phase(session=0):
    """Ends the phase. Returns the number of the next."""
    s = _one(session)
    s.phases.append(_session.Node("ROOT"))
    return len(s.phases) - 1


def is_phase_complete(session=0, phase=0):
    """Is it over, with all its launches?"""
    s = _one(session)
    s.settle()
    return phase < len(s.phases) - 1


def clear(session=0, phase=0, clear_up_to_phase=False):
    """Forgets what a phase, or all up to it, gathered."""
    s = _one(session)
    s.settle()
    for i in range(0 if clear_up_to_phase else phase, phase + 1):
        s.phases[i] = _session.Node("ROOT")
