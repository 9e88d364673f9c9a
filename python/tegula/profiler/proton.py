"""`python -m triton.profiler.proton [options] script.py [arguments]`: a session around a script."""
import argparse
import sys

from .._inductor.later import when_imported
from .._triton_name import install, install_for_children
from ..__main__ import _run_script
from .flags import flags
from .profile import _start, finalize


def parse_arguments(arguments=None):
    p = argparse.ArgumentParser(prog="proton", description="Profiles a script; inside, start() does nothing.")
    p.add_argument("-n", "--name", default=None, help="of the profile (default: proton)")
    p.add_argument("-b", "--backend", default=None, choices=["cupti", "rocprofiler", "roctracer", "instrumentation"])
    p.add_argument("-c", "--context", default="shadow", choices=["shadow", "python"])
    p.add_argument("-m", "--mode", default=None)
    p.add_argument("-d", "--data", default="tree", choices=["tree", "trace"])
    p.add_argument("-k", "--hook", default=None, choices=["triton"])
    p.add_argument("script")
    p.add_argument("arguments", nargs=argparse.REMAINDER)
    return p.parse_args(arguments)


def main(arguments=None):
    a = parse_arguments(arguments)
    install()
    install_for_children()
    when_imported()
    flags.command_line = True
    session = _start(a.name, a.context, a.data, a.backend, a.mode, a.hook)
    sys.argv = [a.script, *a.arguments]
    try:
        _run_script(a.script)
    finally:
        finalize(session)


if __name__ == "__main__":
    from tegula.profiler.proton import main as run  # one set of these modules
    sys.exit(run())
