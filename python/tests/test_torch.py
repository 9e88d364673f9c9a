import importlib.util
import os
import subprocess
import sys

import pytest


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_programs():
    import torch
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    script = os.path.join(os.path.dirname(__file__), "torch_script.py")
    done = subprocess.run([sys.executable, "-m", "tegula", script], text=True, capture_output=True, timeout=900)
    assert done.returncode == 0 and done.stdout.rstrip().endswith(" 0 failed"), done.stdout + done.stderr
