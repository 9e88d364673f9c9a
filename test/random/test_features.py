"""What the generator draws: the same program for a seed in every process, and still what real kernels have."""
import collections
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import features
from generate import generate

DIGEST = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from generate import generate
from run import describe
h = hashlib.sha256()
for seed in range(80):
    p, memory = generate(seed)
    h.update(describe(p).encode())
    for b in p.buffers:
        h.update(memory[b.name].tobytes())
print(h.hexdigest())
"""


def test_a_seed_is_one_program():
    """Whatever the order of sets of strings, which each process has its own of."""
    found = {
        subprocess.run([sys.executable, "-c", DIGEST, str(HERE)],
                       env={**os.environ, "PYTHONHASHSEED": h}, capture_output=True, text=True, check=True).stdout
        for h in ("1", "2", "3")
    }
    assert len(found) == 1


def test_every_feature_occurs():
    count = collections.Counter()
    for seed in range(600):
        count.update(features.of(generate(seed)[0]))
    assert not [name for name in features.FEATURES if count[name] < 2]
