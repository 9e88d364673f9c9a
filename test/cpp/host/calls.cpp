// Calls between kernels in C++ and functions of .py files; tuned kernels in C++; element types by other names. `calls helpers.py`
#include "host.hpp"
#include <cmath>
#include <tegula/tile.hpp>

namespace tg = tegula::tile;

constexpr auto gelu = tg::python<tg::Tile<float>(tg::Tile<float>)>("helpers.py::gelu");
struct Spread {
  tg::Float hi, lo;
};
constexpr auto spread = tg::python<Spread(tg::Tile<float>)>("helpers.py::spread");
constexpr auto spread_as_tuple = tg::python<std::tuple<tg::Tile<float>, tg::Tile<float>>(tg::Tile<float>)>("helpers.py::spread");
constexpr auto middle = tg::function("middle(x)", [](tg::Tile<float> x) { return Spread{tg::max(x, 0) / 2, tg::min(x, 0) / 2}; });
constexpr auto activate = tg::kernel("activate(x, out, n, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Int n, tg::Constexpr<int> BLOCK) {
  auto i = tg::program_id(0) * BLOCK + tg::arange(0, BLOCK);
  auto v = tg::load(x + i, i < n, 0.0);
  auto s = spread(v);
  auto [hi, lo] = spread_as_tuple(v);
  tg::store(out + i, gelu(v) + s.hi - s.lo + (hi - s.hi) + (lo - s.lo), i < n);
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

/// A struct of tiles is an aggregate: carried around loops, copied, given to functions.
struct Running {
  tg::Tile<float> largest, sum;
  void add(const tg::Tile<float> &v) {
    auto now = tg::maximum(largest, v);
    sum = sum * tg::exp(largest - now) + tg::exp(v - now);
    largest = now;
  }
};
template <typename State> tg::Tile<float> finish(State state) {
  state.sum += 0.0;
  return tg::log(state.sum) + state.largest;
}
constexpr auto logsumexp = tg::kernel("logsumexp(x, out, n, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Int n, tg::Constexpr<int> BLOCK) {
  Running state{tg::full<float>({BLOCK}, -1e30), tg::zeros<float>({BLOCK})};
  tg::range(0, n, BLOCK, [&](tg::Int start) {
    auto i = start + tg::arange(0, BLOCK);
    state.add(tg::load(x + i, i < n, -1e30));
  });
  Running before = state;
  state.largest = tg::zeros<float>({BLOCK});
  auto rows = finish(before);
  auto top = tg::max(rows, 0);
  tg::store(out, top + tg::log(tg::sum(tg::exp(rows - top), 0)));
});
constexpr auto bytes = tg::kernel("bytes(x, BLOCK)", [](tg::Ptr<uint8_t> x, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  tg::store(x + i, tg::load(x + i) + 1);
});
constexpr auto shout = tg::kernel("shout(x)", [](tg::Ptr<float> x) { tg::device_print("costs $5 and \"more\"", tg::load(x)); });

/// What std::mdspan offers, and dlpack.h's struct.
struct View {
  float *p;
  struct Mapping {
    size_t required_span_size() const { return 3000; }
  };
  float *data_handle() const { return p; }
  Mapping mapping() const { return {}; }
};
struct DLTensor {
  void *data;
  struct { int type, id; } device;
  int32_t ndim;
  struct { uint8_t code, bits; uint16_t lanes; } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};

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
  OK(py.bind("middle", middle(ctx).function().value()));
  std::vector<float> centre(1);
  OK(py.kernel("centre").value()(Grid(1), {x, centre, 128}));
  CHECK(std::fabs(centre[0]) < 0.06 && centre[0] != 0);
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
  OK(logsumexp(ctx)[tg::grid(1)](x, out, 3000, 256));
  double sum = 0;
  for (float v : x) sum += std::exp(static_cast<double>(v));
  CHECK(std::fabs(out[0] - std::log(sum)) < 1e-4);
  std::vector<std::byte> raw(64, std::byte(7));
  OK(bytes(ctx)[tg::grid(1)](raw, 64));
  CHECK(raw[63] == std::byte(8));
  std::string printed;
  tegula_context_set_output(ctx.get(), [](void *user, int32_t, const char *t, size_t n) { static_cast<std::string *>(user)->append(t, n); }, &printed);
  OK(shout(ctx)[tg::grid(1)](x));
  CHECK(printed.find("costs $5 and \"more\"") != std::string::npos);
  View view{out.data()};
  OK(add(ctx)[tg::grid(3)](x, y, view, n, 1024));
  int64_t extents[] = {3000};
  DLTensor tensor{x.data(), {1, 0}, 1, {2, 32, 1}, extents, nullptr, 0};
  out.assign(out.size(), 0);
  OK(add(ctx)[tg::grid(3)](&tensor, y, view, n, 1024));
  CHECK(out[2999] == x[2999] + 1);
  tensor.dtype.bits = 64;
  SAYS(add(ctx)[tg::grid(3)](&tensor, y, view, n, 1024), "`add`: argument `x` is *fp64, the kernel's parameter is *fp32");
  tensor.dtype.code = 5;
  SAYS(add(ctx)[tg::grid(3)](&tensor, y, view, n, 1024), "`add`: argument `x` is no pointer to elements");
  const std::array<float, 3000> ax{}; OK(add(ctx)[tg::grid(3)](ax, ax, out, n, 1024));
  if (!fails) std::printf("all right\n");
  return fails;
}
