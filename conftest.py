"""For every pytest suite, before anything imports tegula: the modules of all compilations are verified (docs/how-to-add.md)."""
import os

os.environ.setdefault("TEGULA_VERIFY", "1")
