// A kernel compiled ahead of time, linked as an object file, run with the small runtime: no compiler in the program.
#include <cstdio>
#include <tegula/runtime.h>
#include <vector>

// The entry point that `tegula compile --emit obj` made; it is named like the kernel.
extern "C" int32_t scale_add(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch);

int main() {
  const int n = 100'000;
  std::vector<float> x(n), y(n, 1.0f), out(n);
  for (int i = 0; i < n; ++i) x[i] = float(i);

  // Runtime arguments in order, as a C compiler lays them out.
  struct {
    float *x, *y, *out;
    float factor;
    int32_t n;
  } args = {x.data(), y.data(), out.data(), 2.0f, n};

  TegulaRuntime *runtime = nullptr;
  const int64_t grid[3] = {(n + 1023) / 1024, 1, 1};
  TegulaStatus s = tegula_runtime_create(0, &runtime);
  if (s == TEGULA_OK) s = tegula_runtime_run(runtime, scale_add, &args, 1 << 16, grid, 0, nullptr);
  tegula_runtime_destroy(runtime);

  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += out[i] != 2.0f * x[i] + 1.0f;
  std::printf("ahead of time: %s\n", s == TEGULA_OK && wrong == 0 ? "all right" : "WRONG");
  return s == TEGULA_OK && wrong == 0 ? 0 : 1;
}
