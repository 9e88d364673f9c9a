// Launches kernels of kernels.hpp, and some that are wrong, on the device that is named: `launch cpu`. Prints a line for each, or what was said.
#include "kernels.hpp"
#include <cmath>
#include <cstdio>
#include <cstring>

constexpr auto shapes = tg::kernel("shapes(x)", [](tg::Ptr<float> x) {
  auto wide = tg::load(x + tg::arange(0, 64));
  auto narrow = tg::arange(0, 32);
  tg::store(x, tg::sum(wide + narrow, 0));
});

constexpr auto loop = tg::kernel("loop(x, n)", [](tg::Ptr<float> x, tg::Int n) {
  auto acc = tg::zeros<float>({64});
  tg::range(0, n, [&](tg::Int) { acc = tg::zeros<float>({32}); });
  tg::store(x + tg::arange(0, 64), acc);
});

// Names that the kernel's text has itself, or that are words of its language.
constexpr auto names = tg::kernel("names(v0, _v1, _f1)", [](tg::Ptr<float> v0, tg::Ptr<const float> _v1, tg::Int _f1) {
  auto in = tg::load(_v1 + tg::arange(0, 16));
  auto tl = in + _f1;
  auto triton = tg::reduce(tl, 0, [](auto is, auto lambda) { return is + lambda; });
  tg::store(v0, triton);
});

constexpr auto outside = tg::kernel("outside(x, n, BLOCK)", [](tg::Ptr<float> x, tg::Int n, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  tg::store(x + i * n, tg::zeros<float>({BLOCK}));
});

constexpr auto never = tg::kernel("never(x)", [](tg::Ptr<float> x) {
  tg::Tile<float> later;
  tg::store(x, later + 1.0);
});

constexpr auto foreign = tg::kernel("foreign(x)", [](tg::Ptr<float> x) {
  auto v = tg::load(x + tg::arange(0, 16));
  tg::store(x, tg::reduce(v, 0, [&](auto a, auto b) { return a + b + tg::sum(v, 0); }));
});

static bool all = true;
static void line(const char *name, const tegula::Status &s, bool right) {
  all &= s && right;
  std::printf("%s: %s\n", name, !s ? s.message().c_str() : right ? "right" : "WRONG");
}

int main(int, char **argv) {
  auto context = tegula::Context::create().value();
  tegula::LaunchOptions options;
  options.device = std::strcmp(argv[1], "sim") == 0;

  const int n = 5000;
  std::vector<float> x(n), y(n), out(n);
  for (int i = 0; i < n; ++i) x[i] = static_cast<float>(i % 97), y[i] = static_cast<float>(i % 31);
  tegula::Status s = vector_add(context).with(options)[tg::grid(tg::cdiv(n, 1024))](x, y, out, n, 1024);
  bool right = true;
  for (int i = 0; i < n; ++i) right &= out[i] == x[i] + y[i];
  line("vector_add", s, right);

  s = softmax_rows(context).with(options)[tg::grid(4)](x, out, 1000, 1000, 1024);
  for (int row = 0; row < 4; ++row) {
    double sum = 0;
    for (int i = 0; i < 1000; ++i) sum += out[row * 1000 + i];
    right &= std::fabs(sum - 1) < 1e-4;
  }
  line("softmax_rows", s, right);

  std::vector<_Float16> a(64 * 32), b(32 * 64), c(64 * 64);
  for (int i = 0; i < 64 * 32; ++i) a[i] = static_cast<_Float16>(i % 7 - 3), b[i] = static_cast<_Float16>(i % 5 - 2);
  s = matmul(context).with(options)[tg::grid(2, 2)](a, b, c, 64, 64, 32, 32, 32, 16);
  for (int i = 0; i < 64 * 64; ++i) {
    float sum = 0;
    for (int k = 0; k < 32; ++k) sum += static_cast<float>(a[i / 64 * 32 + k]) * static_cast<float>(b[k * 64 + i % 64]);
    right &= static_cast<float>(c[i]) == sum;
  }
  line("matmul", s, right);

  std::vector<float> rows(13 * 128), sums(128);
  for (size_t k = 0; k < rows.size(); ++k) rows[k] = static_cast<float>(k % 23);
  right = true;
  for (int parts : {8, 0}) {
    s = shared_sums(context).with(options)[tg::grid(1)](rows, sums, 13, 128, parts);
    for (size_t i = 0; i < sums.size(); ++i) {
      float want = 0;
      for (size_t k = 0; k < 13; ++k) want += rows[k * 128 + i];
      right &= sums[i] == (parts ? want : 1.5f * want);
    }
    if (!s) break;
  }
  line("shared_sums", s, right);

  std::vector<int> starts{1, 2, 3, 27}, steps(4);
  s = collatz(context).with(options)[tg::grid(4)](starts, steps);
  line("collatz", s, steps == std::vector<int>{0, 1, 7, 111});

  float best = 0;
  int at = 0;
  s = arg_reduce(context).with(options)[tg::grid(1)](std::span(x).subspan(40, 64), &best, &at, 64);
  line("arg_reduce", s, best == 96 && at == 56);

  s = names(context).with(options)[tg::grid(1)](&best, x, 1);
  line("names", s, best == 136);

  std::printf("%s\n%s\n%s\n%s\n", shapes(context).with(options)[tg::grid(1)](x).message().c_str(), loop(context).with(options)[tg::grid(1)](x, 5).message().c_str(),
              never(context).with(options)[tg::grid(1)](x).message().c_str(), foreign(context).with(options)[tg::grid(1)](x).message().c_str());
  options.checked = 1;
  std::printf("%s\n", outside(context).with(options)[tg::grid(1)](x, n, 16).message().c_str());
  return !all;
}
