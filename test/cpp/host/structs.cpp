// The kernels of twins/structs.hpp run on cpu and sim. Prints what is wrong, or "right".
#include "../twins/structs.hpp"
#include <cstdio>
#include <vector>

static int bad = 0;
static void expect(const char *what, double got, double want) {
  if (!(std::fabs(got - want) <= 1e-4 * (1 + std::fabs(want)))) ++bad, std::printf("%s: %g, not %g\n", what, got, want);
}
static void check(const tegula::Status &s) {
  if (!s) ++bad, std::printf("%s\n", s.message().c_str());
}

int main(int, char **) {
  auto context = tegula::Context::create().value();
  for (const char *name : {"cpu", "sim"}) {
    tegula::LaunchOptions o(context.device(name).value());
    const int n = 100;
    std::vector<float> x(2 * n), mean(2), var(2);
    for (int i = 0; i < 2 * n; ++i) x[i] = float((i * 37) % 101);
    check(variance(context).with(o)[tg::grid(2)](x, mean, var, n, 32));
    for (int r = 0; r < 2; ++r) {
      double m = 0, v = 0;
      for (int i = 0; i < n; ++i) m += x[r * n + i] / n;
      for (int i = 0; i < n; ++i) v += (x[r * n + i] - m) * (x[r * n + i] - m) / n;
      expect("mean", mean[r], m), expect("var", var[r], v);
    }
    std::vector<float> key(64), b(64), out(64);
    std::vector<int> a(64);
    check(suffix_max(context).with(o)[tg::grid(1)](x, key, a, b, 64));
    for (int i = 0; i < 64; ++i) {
      int best = i;
      for (int j = i; j < 64; ++j)
        if (x[j] > x[best]) best = j;
      expect("key", key[i], x[best]), expect("a", a[i], best), expect("b", b[i], 2 * x[best]);
    }
    std::vector<int> p{12, 35, 0, 81}, q{18, 21, 5, 54}, r(4);
    check(gcd(context).with(o)[tg::grid(4)](p, q, r));
    expect("gcd", r[0], 6), expect("gcd", r[1], 7), expect("gcd", r[2], 5), expect("gcd", r[3], 27);
    check(several(context).with(o)[tg::grid(1)](x, out, 32));
    double sum = 0, sq = 0, lo = 1e9, hi = -1e9;
    for (int i = 0; i < 32; ++i) sum += x[i], sq += x[i] * x[i], lo = std::fmin(lo, x[i]), hi = std::fmax(hi, x[i]);
    int at = 0;
    for (int i = 0; i < 32; ++i)
      if (x[i] > x[at]) at = i;
    const double want[] = {lo, hi, sum, hi - lo, sum, sq, sum, hi + at};
    for (int i = 0; i < 8; ++i) expect("several", out[i], want[i]);
    check(order(context).with(o)[tg::grid(1)](x, std::span(x).subspan(5), out, 64));
    for (int i = 0; i < 64; ++i) expect("order", out[i], std::fabs(x[i] - x[i + 5]));
    const std::vector<float> jumps{-1, 2, -3, 9, 9, -1, 0, 1, 2, 3};
    std::vector<int> places(6, 7);
    check(first_above(context).with(o)[tg::grid(3)](jumps, places, 5, 2, 5.0f));
    expect("at", places[0], 3), expect("skipped", places[1], 2), expect("nowhere", places[2], -1), expect("skipped", places[3], 1), expect("no row", places[4], 7);
  }
  std::printf(bad ? "%d wrong\n" : "right\n", bad);
  return bad != 0;
}
