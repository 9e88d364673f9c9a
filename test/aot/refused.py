"""A plugin of pytest for carry.py: notes the cases in which the compiler refuses a kernel ($TEGULA_REFUSED_OUT), or leaves these out ($TEGULA_REFUSED_IN): nothing of
them is in a bundle."""
import os
import re

OUT, IN = os.environ.get("TEGULA_REFUSED_OUT"), os.environ.get("TEGULA_REFUSED_IN")
_current = ""


def _name(nodeid):
    """The case on whatever GPU: what is recorded on the simulator runs on cuda."""
    return re.sub(r"\[(sim|cuda)\b", "[gpu", nodeid)


def pytest_runtest_setup(item):
    global _current
    _current = item.nodeid


def pytest_configure(config):
    if OUT:
        from tegula.errors import CompilationError
        made = CompilationError.__init__

        def noted(self, *args, **keywords):
            with open(OUT, "a") as f:
                f.write(_name(_current) + "\n")
            made(self, *args, **keywords)

        CompilationError.__init__ = noted


def pytest_collection_modifyitems(config, items):
    if IN:
        with open(IN) as f:
            refused = set(f.read().split("\n"))
        kept = [i for i in items if _name(i.nodeid) not in refused]
        config.hook.pytest_deselected(items=[i for i in items if _name(i.nodeid) in refused])
        print(f"{len(items) - len(kept)} cases of kernels that the compiler refuses are left out")
        items[:] = kept
