"""The benchmark on a CPU for which a peer has no code: the row says so, and the others are measured."""
import os
import subprocess
import sys

from conftest import ROOT

SCRIPT = """
import sys
sys.path.insert(0, "bench")
import run
peers = run.build_peers()
peer = run.prepared(peers, "matmul", peers.peer_matmul_run, 64, 64, 64, 1)
assert peer is None
ours, theirs, ratio = run.pairs(lambda: None, peer, least=1)
run.row("matmul bf16", "GFLOP/s", ours, theirs, "oneDNN", ratio, 0.8)
assert run.prepared(peers, "softmax", peers.peer_softmax_run, 8, 64)
"""


def test_a_row_without_its_peer_says_so():
    env = dict(os.environ, PYTHONPATH=str(ROOT / "build/python"), DNNL_MAX_CPU_ISA="AVX2", ONEDNN_MAX_CPU_ISA="AVX2")
    p = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert p.returncode == 0, p.stdout + p.stderr
    assert "no peer: oneDNN cannot do matmul 64x64x64x1 here (" in p.stdout
    assert "no oneDNN to compare with" in p.stdout
