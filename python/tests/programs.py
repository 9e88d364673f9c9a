"""Programs that tests start: in a folder of their own, and beside the stand-in for the CUDA driver."""
import os
import subprocess
import sys
from pathlib import Path

import tegula

FAKE = Path(tegula.__file__).parents[2] / "lib/libfakecuda.so"


def start(folder, text, *args, **env):
    """The program `text`, begun in `folder`, where its results of tuning are kept."""
    script = folder / "script.py"
    if not script.exists():  # others may be reading it
        script.write_text(text)
    env = {**os.environ, "TEGULA_TUNE_DIR": str(folder / "results"), "PYTHONPATH": os.path.dirname(os.path.dirname(tegula.__file__)), **env}
    return subprocess.Popen([sys.executable, script.name, *map(str, args)], env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(p):
    """What it wrote to stdout and to stderr, after it ended well."""
    out, err = p.communicate(timeout=300)
    assert p.returncode == 0, out + err
    return out, err


def with_fake_driver(script, **env):
    """What the script printed, on a machine whose CUDA driver is FAKE."""
    assert FAKE.exists(), "build the target fakecuda"
    env = {**os.environ, "TEGULA_LIBCUDA": str(FAKE), **env}
    env.pop("TEGULA_DEVICE", None)
    p = subprocess.run([sys.executable, str(script)], env=env, text=True, capture_output=True, timeout=300)
    assert p.returncode == 0, p.stdout + p.stderr
    return p.stdout
