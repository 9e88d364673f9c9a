"""Every file in examples/ runs as a user would run it and checks itself against numpy."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.name)
def test_example(path, tmp_path):
    done = subprocess.run([sys.executable, path], cwd=tmp_path, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
    if path.name == "image_to_grey.py":
        assert (tmp_path / "grace_hopper_grey.png").read_bytes().startswith(b"\x89PNG")


def test_shell_session(tmp_path):
    tegula = Path(os.environ.get("TEGULA", ROOT / "build/bin/tegula"))
    assert tegula.exists(), f"{tegula} is not built"
    env = dict(os.environ, TEGULA=str(tegula), PYTHON=sys.executable)
    done = subprocess.run(["sh", EXAMPLES / "shell_session.sh"], cwd=tmp_path, env=env, text=True, capture_output=True,
                          timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "equal to numpy" in done.stdout
