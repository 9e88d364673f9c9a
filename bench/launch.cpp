// launch-bench N: microseconds per launch of a cached empty kernel with N (0 or 19) arguments through the C interface, median of 9 batches.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tegula/tegula.h>
#include <vector>

int main(int argc, char **argv) {
  int count = argc > 1 ? std::atoi(argv[1]) : 0;
  std::string text = "import tegula\n@tegula.jit\ndef k(";
  for (int i = 0; i < count; ++i) text += "a" + std::to_string(i) + ", ";
  text += "):\n    pass\n";
  TegulaContext *ctx;
  TegulaModule *module;
  TegulaFunction *k;
  if (tegula_context_create(nullptr, &ctx) || tegula_module_from_text(ctx, "empty.py", text.data(), text.size(), &module) ||
      tegula_module_function(module, "k", &k)) {
    std::fprintf(stderr, "%s\n", tegula_last_error());
    return 1;
  }
  std::vector<float> buffer(16);
  std::vector<TegulaArg> args;
  for (int i = 0; i < count; ++i) args.push_back(i < 5 ? tegula_ptr(buffer.data(), TEGULA_FP32, 64) : tegula_int(64 + i));
  const int64_t grid[3] = {1, 1, 1};
  std::vector<double> times;
  const int batch = 100000;
  for (int round = 0; round < 10; ++round) {
    auto t0 = std::chrono::steady_clock::now();
    for (int i = 0; i < batch; ++i)
      if (tegula_launch(k, grid, args.data(), args.size(), nullptr, nullptr)) {
        std::fprintf(stderr, "%s\n", tegula_last_error());
        return 1;
      }
    if (round) times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count() / batch * 1e6);
  }
  std::sort(times.begin(), times.end());
  std::printf("%.4f\n", times[times.size() / 2]);
}
