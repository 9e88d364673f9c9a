"""Every example runs and checks itself against numpy; the shell session works line by line."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[p.stem for p in EXAMPLES])
def test_example(path, tmp_path):
    p = subprocess.run([sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert p.returncode == 0, p.stdout + p.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=[p.stem for p in EXAMPLES])
def test_example_runs_under_the_name_triton(path, tmp_path):
    """The same file with `tegula` spelled `triton`, unmodified otherwise, under `python -m tegula`."""
    script = tmp_path / path.name
    script.write_text(path.read_text().replace("import tegula.language as tl", "import triton.language as tl").replace("import tegula\n", "import triton\n")
                      .replace("tegula.", "triton."))
    p = subprocess.run([sys.executable, "-m", "tegula", str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert p.returncode == 0, p.stdout + p.stderr


def test_shell_session(tmp_path):
    env = dict(os.environ, PYTHON=sys.executable, PATH=f"{ROOT / 'build/bin'}:{os.environ['PATH']}", TEGULA_CACHE_DIR=str(tmp_path / "cache"))
    p = subprocess.run(["bash", "-euo", "pipefail", str(ROOT / "examples/shell_session.sh")], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert p.returncode == 0, p.stdout + p.stderr
