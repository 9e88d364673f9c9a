// A kernel whose block size is chosen by trying: at the first launch with arguments of a new kind, and from a file of results in later runs.
#include <cstdio>
#include <tegula/tegula.hpp>
#include <vector>

int main() {
  tegula::Context context = tegula::Context::create().value();
  tegula::Function kernel = context.load(KERNELS).value().kernel("scale_add").value();
  std::vector<tegula::Config> configs;
  for (int block = 64; block <= 4096; block *= 2) configs.push_back({{{"BLOCK", tegula::Value::of(block)}}});
  tegula::Autotuned tuned = tegula::Autotuned::create(kernel, configs, {"n"}).value();

  const int n = 1 << 20;
  std::vector<float> x(n, 2), y(n, 1), out(n);
  auto grid = [&](tegula::ConfigView c) { return tegula::Grid((n + c["BLOCK"] - 1) / c["BLOCK"]); };
  const tegula::Arg args[] = {std::span(x), std::span(y), std::span(out), 0.5f, n};
  if (tegula::Status s = tuned(grid, args); !s) {
    std::fprintf(stderr, "%s\n", s.message().c_str());
    return 1;
  }
  std::printf("best: %s\n%s\n", tuned.configName(tuned.choose(grid, args).value()).c_str(), tuned.report().c_str());
  return out[0] == 2 && out[n - 1] == 2 ? 0 : 1;
}
