"""For every pytest suite, before anything imports tegula: the modules of all compilations are verified (docs/how-to-add.md), and programs that tests start in
other folders find the packages that a relative PYTHONPATH names."""
import os

os.environ.setdefault("TEGULA_VERIFY", "1")
if os.environ.get("PYTHONPATH"):
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, os.environ["PYTHONPATH"].split(os.pathsep)))
