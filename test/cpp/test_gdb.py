"""gdb stops at a line of a kernel in C++ and prints its variable by the name that it has there."""
import os
import shutil
import subprocess

import pytest
from test_twins import COMPILERS, build

PROGRAM = """#include <tegula/tile.hpp>
#include <vector>
namespace tg = tegula::tile;
constexpr auto scale = tg::kernel("scale(x, n, factor, BLOCK)", [](tg::Ptr<float> x, tg::Int n, tg::Float factor, tg::Constexpr<int> BLOCK) {
  auto start = tg::program_id(0) * BLOCK;
  auto i = start + tg::arange(0, BLOCK);
  auto v = tg::load(x + i, i < n);
  tg::store(x + i, v * factor, i < n);
});
int main() {
  std::vector<float> x(100, 1);
  tegula::TegulaContextOptions o = TEGULA_CONTEXT_OPTIONS_INIT;
  o.num_threads = 1;
  tegula::LaunchOptions options;
  options.debug_info = 1, options.device = 0;
  return !scale(tegula::Context::create(o).value()).with(options)[tg::grid(3)](x, 100, 2.0f, 64);
}
""".replace("tegula::TegulaContextOptions", "TegulaContextOptions")


@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is not installed")
def test_break_in_a_kernel_and_print_a_scalar(tmp_path):
    source = tmp_path / "scale.cpp"
    source.write_text(PROGRAM)
    program = build(COMPILERS[0], source, tmp_path)  # without -g: what gdb knows is the kernel
    p = subprocess.run(["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "set breakpoint pending on", "-ex", "break scale.cpp:7", "-ex", "run", "-ex", "bt 1",
                        "-ex", "print n", "-ex", "print start", str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=dict(os.environ, TEGULA_CACHE_DIR=""),
                       stdin=subprocess.DEVNULL)
    out = p.stdout + p.stderr
    assert "scale.cpp:7" in out, out
    assert "auto v = tg::load" in out, out
    assert "$1 = 100" in out, out
    # Instructions of the line that were moved into the loop over programs can make gdb stop one program later.
    assert any(f"$2 = {v}\n" in out for v in (0, 64, 128)), out
