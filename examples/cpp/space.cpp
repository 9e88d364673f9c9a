// A kernel whose configuration is searched for in ranges, and one for which the library proposes the ranges itself.
#include <cstdio>
#include <tegula/tegula.hpp>
#include <vector>

/// Launches the kernel once, which tunes it, and says what was chosen. False: something is wrong.
template <typename GridFn> static bool show(const char *what, const tegula::Autotuned &tuned, GridFn grid, std::span<const tegula::Arg> args) {
  if (tegula::Status s = tuned(grid, args); !s) return std::fprintf(stderr, "%s: %s\n", what, s.message().c_str()), false;
  std::printf("%s: %s\n", what, tuned.configName(tuned.choose(grid, args).value()).c_str());
  return true;
}

int main() {
  tegula::Context context = tegula::Context::create().value();
  tegula::Module kernels = context.load(KERNELS).value();

  // 9 block sizes x 4 numbers of warps, less those that the constraint leaves out: more than 32 are searched, by the cost model first.
  tegula::Space space{{{"BLOCK", "powers(64, 16384)"}, {"num_warps", "1, 2, 4, 8"}}, [](tegula::ConfigView c) { return c["BLOCK"] >= 32 * c.raw().num_warps; }};
  tegula::TunerOptions options;
  options.budget_ms = 2000; // of the whole search, compilation included
  tegula::Autotuned searched = tegula::Autotuned::search(kernels.kernel("scale_add").value(), space, {"n"}, options).value();
  const int n = 1 << 20;
  std::vector<float> x(n, 2), y(n, 1), out(n);
  auto blocks = [&](tegula::ConfigView c) { return tegula::Grid((n + c["BLOCK"] - 1) / c["BLOCK"]); };
  const tegula::Arg args[] = {std::span(x), std::span(y), std::span(out), 0.5f, n};
  bool ok = show("searched", searched, blocks, args) && out[0] == 2 && out[n - 1] == 2;

  // Nothing but the kernel and its arguments: what BLOCK is for follows from the code.
  tegula::Autotuned proposed = tegula::Autotuned::automatic(kernels.kernel("row_sums").value()).value();
  const int rows = 100, columns = 3000;
  std::vector<float> matrix(rows * columns, 1), sums(rows);
  const tegula::Arg rowArgs[] = {std::span(matrix), std::span(sums), columns};
  ok = show("proposed", proposed, [](tegula::ConfigView) { return tegula::Grid(rows); }, rowArgs) && ok;
  for (float s : sums) ok = ok && s == columns;
  std::printf("%s\n", ok ? "all right" : "WRONG RESULTS");
  return ok ? 0 : 1;
}
