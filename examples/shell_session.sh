#!/bin/sh
# Kernels from the shell: no Python runs the kernel, numpy only makes the files and checks the result.
#   sh examples/shell_session.sh            uses `tegula` and `python3` from PATH, or $TEGULA and $PYTHON
set -eu
tegula=${TEGULA:-tegula} python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

"$python" -c '
import numpy as np
rng = np.random.default_rng(0)
np.save("x.npy", rng.standard_normal(98432, dtype=np.float32))
np.save("y.npy", rng.standard_normal(98432, dtype=np.float32))'

# What is wrong with a file, without running it.
"$tegula" check "$here/copy_add.py"

# out[i] = x[i] + y[i], with the time of a launch.
"$tegula" run "$here/copy_add.py::add_kernel" --grid 'cdiv(n, BLOCK)' -a x=@x.npy -a y=@y.npy -a out='empty:f32[n]' -a n=98432 -c BLOCK=1024 \
  --save out=out.npy --time

"$python" -c '
import numpy as np
assert np.array_equal(np.load("out.npy"), np.load("x.npy") + np.load("y.npy"))
print("out.npy: equal to numpy")'

# Running sums of eight rows of ones, printed.
"$tegula" run "$here/cumulative_sum.py::cumsum_kernel" --grid 8 -a x='ones:f32[8, cols]' -a out='empty:f32[8, cols]' -a cols=10 -c BLOCK=16 --print out

# The machine code of a kernel.
"$tegula" compile "$here/copy_add.py::add_kernel" --sig 'x:*f32:16, y:*f32:16, out:*f32:16, n:i32' -c BLOCK=1024 -t cpu --emit asm -o add.s
grep -c . add.s
