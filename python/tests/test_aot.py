"""tools.compile and tools.link: kernels as C files, built by the C compiler and run in a program without Python."""
import shutil
import subprocess
import sys

import pytest
from tegula.tools import compile as aot
from tegula.tools import link

COMPILERS = [c for c in ("gcc", "clang") if shutil.which(c)]
pytestmark = pytest.mark.skipif(not COMPILERS, reason="no C compiler")

KERNELS = """import triton
import triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 4})], key=[])
@triton.jit
def saxpy(x, y, n, a, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, a * tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

@triton.jit
def kinds(out, b, u, d, h, kernel, register, one, MODE: tl.constexpr, T: tl.constexpr):
    tl.static_assert(MODE == "sum")
    tl.store(out, b.to(T) + u % 1000 + d + h + kernel + register + one)

@triton.jit
def rows(d, out):
    tl.store(out + tl.arange(0, 4), tl.sum(d.load([0, 0]), 1))

@triton.jit
def wrong(x):
    tl.store(x, nothing)
"""

MAIN = """#include "%s.h"
#include <stdio.h>
int main(void) {
  float x[10], y[12];
  for (int i = 0; i < 12; ++i) y[i] = 100;
  for (int i = 0; i < 10; ++i) x[i] = (float)i;
  (void)x;
%s
  for (int i = 0; i < 12; ++i) printf("%%g ", y[i]);
  return 0;
}
"""


@pytest.fixture
def kernels(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return path


def make(kernels, *options, module="compile"):
    done = subprocess.run([sys.executable, "-m", f"tegula.tools.{module}", *map(str, options)], text=True, capture_output=True, timeout=120, cwd=kernels.parent)
    return done


def compiled(kernels, name, signature, grid, *options):
    done = make(kernels, kernels, "-n", name, "-s", signature, "-g", grid, *options)
    assert done.returncode == 0, done.stderr
    function, header, source = done.stdout.split()
    return function, kernels.parent / header, kernels.parent / source


def built(folder, compiler, *sources):
    """The output of the program made of these C files."""
    done = subprocess.run([compiler, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", folder, *sources, "-o", folder / "program", *aot.flags()],
                          text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([folder / "program"], text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def program(folder, header, text):
    path = folder / "main.c"
    path.write_text(MAIN % (header, text))
    return path


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_run(kernels, compiler, target):
    name, header, source = compiled(kernels, "saxpy", "*fp32, *fp32, i32, fp32, 4", "(n + BLOCK - 1) / BLOCK", "--target", target, "-w", 2)
    assert name.startswith("saxpy_") and name.endswith("_0123") and header.name == f"saxpy.{name[6:]}.h"
    main = program(kernels.parent, header.stem, f"  if (load_{name}() || {name}(0, x, y, 10, 2) || {name}(0, x, y, 0, 2)) return 1;\n  unload_{name}();\n"
                   f"  if ({name}(0, x, y, 1, 0.5f)) return 2;")  # loads again by itself
    assert built(kernels.parent, compiler, source, main) == "100 102 104 106 108 110 112 114 116 118 100 100"


def test_run_from_the_file(kernels):
    """As a script, with the names of Triton's options."""
    done = subprocess.run([sys.executable, aot.__file__, kernels, "--kernel-name", "saxpy", "--signature", "*fp32:16, *fp32:16, i32:16, fp32, 4", "--grid",
                           "n / 4, 1, 1", "--num-warps", "1", "--num-stages", "2", "--out-name", "other", "--out-path", kernels.parent / "made", "--target", "cpu"],
                          text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("other_") and "_0d1d2d3 " in done.stdout and len(list(kernels.parent.glob("made.*.[ch]"))) == 2


def test_kinds_of_arguments(kernels):
    name, header, source = compiled(kernels, "kinds", "*fp64, i1, u64, fp64, fp16, i64, i8, i32:1, 'sum', fp32", "1")
    assert "double d, float h, int64_t kernel, int8_t register_, int32_t one" in header.read_text()
    main = program(kernels.parent, header.stem, f"""  double out = 0;
  if ({name}(0, &out, 1, 18446744073709551615u, 0.25, 0.5f, -7, 3, 1)) return 1;
  if ({name}(0, &out, 1, 0, 0, 0, 0, 0, 2) != 1) return 2;  /* `one` is not 1 */
  printf("%g\\n", out);""")
    assert built(kernels.parent, COMPILERS[0], source, main).splitlines()[0] == str(1 + 615 + 0.25 + 0.5 - 7 + 3 + 1)


def test_descriptors(kernels):
    name, header, source = compiled(kernels, "rows", "tensordesc<fp32[4, 4]>, *fp32", "1")
    main = program(kernels.parent, header.stem, f"""  TegulaTensorDescriptor storage;
  TegulaArg d;
  const int64_t shape[2] = {{2, 4}}, strides[2] = {{4, 1}}, block[2] = {{4, 4}};
  static _Alignas(16) float in[8] = {{0, 1, 2, 3, 4, 5, 6, 7}};
  if (tegula_bundle_descriptor(&storage, tegula_ptr(in, TEGULA_FP32, sizeof in), 2, shape, strides, block, TEGULA_PADDING_ZERO, &d)) return 1;
  if ({name}(0, &d, y)) return 2;""")
    main.write_text("#include <tegula/bundle.h>\n" + main.read_text().replace("_Alignas(16)", "__attribute__((aligned(16)))"))
    assert built(kernels.parent, COMPILERS[0], source, main).startswith("6 22 0 0 100")


def test_for_a_gpu(kernels):
    name, header, source = compiled(kernels, "saxpy", "*fp32:16, *fp32:16, i32, fp32, 64", "cdiv(n, BLOCK)", "-t", "cuda:90:32")
    assert "int32_t %s(struct CUstream_st *tegula_stream, unsigned long long x, unsigned long long y, int32_t n, float a);" % name in header.read_text()
    main = program(kernels.parent, header.stem, f"  if ({name}(0, 0, 0, 1, 1) == 0) return 1;")  # no GPU, or nothing at address 0
    done = subprocess.run([COMPILERS[0], "-Werror", "-fsyntax-only", source, main, *aot.flags()], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_forms_for_tensors_of_any_size(kernels):
    small, wide = (compiled(kernels, "saxpy", "*fp32, *fp32, i32, fp32, 4", "n", "--target", "cpu", *options) for options in ([], ["--wide-offsets"]))
    assert small[0] != wide[0] and small[2] != wide[2]
    main = program(kernels.parent, wide[1].stem, f"  if ({wide[0]}(0, x, y, 3, 2)) return 1;")
    assert built(kernels.parent, COMPILERS[0], wide[2], main).startswith("100 102 104 100")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_link(kernels, compiler):
    folder = kernels.parent
    variants = [compiled(kernels, "saxpy", s, "cdiv(n, BLOCK)", "-on", "axpy", "-w", w, "-t", "cpu")
                for s, w in (("*fp32, *fp32, i32, fp32, 4", 1), ("*fp32, *fp32, i32:16, fp32, 4", 1), ("*fp32, *fp32, i32:1, fp32, 4", 1),
                             ("*fp32, *fp32, i32:16, fp32, 8", 1))]
    done = make(kernels, *[h for _, h, _ in variants], "-o", "all", "--prefix", "my_", module="link")
    assert done.returncode == 0, done.stderr
    text = (folder / "all.c").read_text()
    assert text.index("n % 16 == 0") < text.index(f"return {variants[0][0]}(")
    main = program(folder, "all", """  if (load_my_axpy() || my_axpy_get_num_algos() != 2) return 1;
  if (my_axpy(0, x, y, 10, 2, 0) || my_axpy_default(0, x, y, 1, 3)) return 2;
  if (my_axpy(0, x, y, 10, 2, 1) != 1 || my_axpy(0, x, y, 10, 2, 2) != 1 || my_axpy(0, x, y, 10, 2, -1) != 1) return 3;
  if (my_axpy(0, x, y, 0, 2, 1)) return 4;
  unload_my_axpy();""")
    assert built(folder, compiler, folder / "all.c", main, *[s for *_, s in variants]) == "100 102 104 106 108 110 112 114 116 118 100 100"


def test_headers_that_do_not_fit(kernels):
    first = compiled(kernels, "saxpy", "*fp32, *fp32, i32, fp32, 4", "n")[1]
    other = compiled(kernels, "rows", "tensordesc<fp32[4, 4]>, *fp32", "1", "-on", "saxpy")[1]
    with pytest.raises(link.LinkerError, match="take other arguments"):
        link.link([first, other], kernels.parent / "all")
    with pytest.raises(link.LinkerError, match="given twice"):
        link.link([first, first], kernels.parent / "all")
    done = make(kernels, kernels, "-o", "all", module="link")
    assert done.returncode == 1 and "is no header of tools.compile" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("options, text", [
    (("-n", "nothing", "-s", "i32", "-g", "1"), "has no kernel `nothing`"),
    (("-n", "rows", "-s", "i32, *fp32, i32", "-g", "1"), "the signature has 3 items; `rows` has 2 parameters: d, out"),
    (("-n", "rows", "-s", "(i32, i32), *fp32", "-g", "1"), "tuples have no form in C"),
    (("-n", "wrong", "-s", "*fp32", "-g", "1"), "`nothing` is not defined"),
    (("-n", "wrong", "-s", "*fp32:x", "-g", "1"), "behind the type is what divides the argument"),
    (("-n", "wrong", "-s", "*fp32", "-g", "1, 1, 1, 1"), "a grid has 1 to 3 extents, found 4"),
    (("-n", "saxpy", "-s", "*fp32, *fp32, i32, fp32, 4", "-g", "1", "-t", "toaster"), "there is no target `toaster`"),
    (("-n", "saxpy", "-s", "*fp32, *fp32, i32, fp32", "-g", "1"), "parameter `BLOCK` has neither a type in the signature nor a value among the constants"),
], ids=lambda x: x if isinstance(x, str) else "")
def test_mistakes(kernels, options, text):
    done = make(kernels, kernels, *options)
    assert done.returncode == 1 and text in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert not list(kernels.parent.glob("*.c"))
