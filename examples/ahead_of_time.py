"""A kernel without Python: compiled ahead of time to C files, joined by tools.link, and called from a C program.

The program needs libtegula-runtime alone, which has no compiler in it. Two variants are made, one for lengths that are multiples of 16; what link writes chooses between them. """
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import tegula
import tegula.language as tl
import tegula.tools.compile
import tegula.tools.link


@tegula.jit
def axpy_kernel(x, y, n, a, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, a * tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


MAIN = r"""
#include "axpy.h"
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  const int n = atoi(argv[argc - 1]);
  float *x = calloc(n, sizeof *x), *y = calloc(n, sizeof *y);
  for (int i = 0; i < n; ++i) x[i] = i, y[i] = 1;
  if (axpy_default(NULL, x, y, n, 2)) return 1;  /* y = 2 x + y */
  for (int i = 0; i < n; ++i) printf("%g\n", y[i]);
  return 0;
}
"""


def build(folder, cc):
    """The program's path."""
    headers, sources = [], []
    for length in ("i32", "i32:16"):
        _, (header, source) = tegula.tools.compile.compile_kernel(
            tegula.tools.compile.CompileArgs(path=__file__, kernel_name="axpy_kernel", out_name="axpy", out_path=folder / "axpy", target="cpu",
                                             signature=f"*fp32, *fp32, {length}, fp32, 1024", grid="cdiv(n, BLOCK)"))
        headers.append(header)
        sources.append(source)
    _, dispatcher = tegula.tools.link.link(headers, folder / "axpy")
    (folder / "main.c").write_text(MAIN)
    subprocess.run([cc, "-O2", "-I", folder, folder / "main.c", dispatcher, *sources, "-o", folder / "program", *tegula.tools.compile.flags()], check=True)
    return folder / "program"


def main():
    cc = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not cc:
        print("there is no C compiler")
        return
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder), cc)
        for n in (1000, 4096):
            out = np.array(subprocess.run([program, str(n)], check=True, text=True, capture_output=True).stdout.split(), np.float32)
            assert (out == 2 * np.arange(n, dtype=np.float32) + 1).all()
            print(f"axpy of {n} numbers in a C program: right")


if __name__ == "__main__":
    main()
