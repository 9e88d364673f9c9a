// Calls between kernels in C++ and functions of .py files; tuned kernels in C++; element types by other names. `calls helpers.py`
#include "host.hpp"
#include <cmath>
#include <tegula/tile.hpp>

namespace tg = tegula::tile;

constexpr auto gelu = tg::python<tg::Tile<float>(tg::Tile<float>)>("helpers.py::gelu");
constexpr auto spread = tg::python<std::tuple<tg::Tile<float>, tg::Tile<float>>(tg::Tile<float>)>("helpers.py::spread");
constexpr auto activate = tg::kernel("activate(x, out, n, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Int n, tg::Constexpr<int> BLOCK) {
  auto i = tg::program_id(0) * BLOCK + tg::arange(0, BLOCK);
  auto v = tg::load(x + i, i < n, 0.0);
  auto [hi, lo] = spread(v);
  tg::store(out + i, gelu(v) + hi - lo, i < n);
});
constexpr auto swish = tg::function("swish(x, beta)", [](tg::Tile<float> x, tg::Float beta) { return x * tg::sigmoid(x * beta); });
constexpr auto add_one = tg::kernel("add_one(out, n, BLOCK)", [](tg::Ptr<float> out, tg::Int n, tg::Constexpr<int> BLOCK) {
  auto i = tg::program_id(0) * BLOCK + tg::arange(0, BLOCK);
  tg::store(out + i, tg::load(out + i, i < n) + 1.0, i < n);
});
constexpr auto add = tg::kernel("add(x, y, out, n, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<const float> y, tg::Ptr<float> out, tg::Int n, tg::Constexpr<int> BLOCK) {
  auto i = tg::program_id(0) * BLOCK + tg::arange(0, BLOCK);
  auto mask = i < n;
  tg::store(out + i, tg::load(x + i, mask) + tg::load(y + i, mask), mask);
});
constexpr auto wide = tg::kernel("wide(x)", [](tg::Ptr<long long> x) { tg::Tile<long long> v = tg::load(x) + 1; tg::store(x, v); });
constexpr auto brains = tg::kernel("brains(x, BLOCK)", [](tg::Ptr<tg::bf16> x, tg::Constexpr<int> BLOCK) { auto i = tg::arange(0, BLOCK); tg::store(x + i, (tg::load(x + i).to<float>() * 2.0).to<tg::bf16>()); });

int main(int, char **argv) {
  Context ctx = Context::create().value();
  std::vector<float> x(3000), y(3000, 1), out(3000);
  for (int i = 0; i < 3000; ++i) x[i] = (i % 100 - 50) / 10.f;
  OK(activate(ctx)[tg::grid(3)](x, out, 3000, 1024));
  CHECK(std::fabs(out[70] - (0.5 * 2 * (1 + std::erf(2 * M_SQRT1_2)) + 9.9)) < 1e-4);
  Module py = ctx.load(argv[1]).value();
  Status un = ctx.load(argv[1]).value().kernel("apply").value()(Grid(3), {x, out, 3000, 1024});
  SAYS(un, "`swish` is not defined");
  OK(py.bind("swish", swish(ctx).function().value()));
  OK(py.bind("add_one", add_one(ctx).function(1024).value()));
  Function apply = py.kernel("apply").value();
  OK(apply(Grid(3), {x, out, 3000, 1024}));
  CHECK(std::fabs(out[70] - (2 / (1 + std::exp(-2.0)) + 1)) < 1e-4);
  Status s = apply(Grid(6), {x, out, 3000, 512});
  SAYS(s, "error: static assertion failed: this kernel was written down for BLOCK = 1024");
  CHECK(!py.bind("x", apply));
  std::vector<double> dx(3000);
  s = apply(Grid(3), {dx, dx, 3000, 1024});
  SAYS(s, "`x` has another element type than C++ takes it for");
  // autotune
  auto config = [](int block, int warps = 0) { return tg::Config{{{"BLOCK", tg::Value::of(block)}}, warps}; };
  auto tuned = tg::autotune(add, {config(128), config(1024), config(1024, 8)}, {"n"});
  int n = 3000;
  auto grid = [&](tg::ConfigView c) { return tg::grid(tg::cdiv(n, c["BLOCK"])); };
  OK(tuned(ctx).grid(grid)(x, y, out, n));
  bool right = true; for (int i = 0; i < n; ++i) right &= out[i] == x[i] + 1; CHECK(right);
  CHECK(tuned(ctx).tuner().value().report().find("\"config\":\"BLOCK: 1024, num_warps: 8\"") != std::string::npos);
  auto spaced = tg::autotune(add, tegula::Space{{{"BLOCK", "powers(64, 512)"}}, {}});
  OK(spaced(ctx).grid(grid)(x, y, out, n));
  CHECK(spaced(ctx).tuner().value().report().find("\"config\":\"BLOCK: 512\"") != std::string::npos);
  for (const char *name : {"cpu", "sim"}) {
    Device d = ctx.device(name).value();
    Stream st = d.stream().value();
    auto bx = d.upload(x, st).value(), by = d.upload(y, st).value(), bo = d.allocate<float>(x.size()).value();
    OK(add(ctx).on(st)[tg::grid(3)](bx, by, bo, n, 1024));
    OK(tuned(ctx).on(st).grid(grid)(bx, by, bo, n));
    OK(st.synchronize());
    auto r = bo.toVector().value(); right = true; for (int i = 0; i < n; ++i) right &= r[i] == x[i] + 1; CHECK(right);
  }
  long long w[1] = {5}; OK(wide(ctx)[tg::grid(1)](w)); CHECK(w[0] == 6);
  std::vector<tg::bf16> b(64, tg::bf16(1.5)); OK(brains(ctx)[tg::grid(1)](b, 64)); CHECK(float(b[3]) == 3);
  SAYS(brains(ctx)[tg::grid(1)](Arg(b.data(), TEGULA_FP16, 128), 64), "`brains`: argument `x` is *fp16, the kernel's parameter is *bf16");
  const std::array<float, 3000> ax{}; OK(add(ctx)[tg::grid(3)](ax, ax, out, n, 1024));
  if (!fails) std::printf("all right\n");
  return fails;
}
