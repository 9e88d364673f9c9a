// launch-bench N [device]: microseconds per launch of a cached empty kernel with N (0 or 19) arguments through the C interface, median of 9
// batches. On a GPU a second number follows: the same kernel by a bare cuLaunchKernelEx, batches of both taking turns.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <tegula/tegula.h>
#include <vector>

namespace {

[[noreturn]] void die(const char *what) {
  std::fprintf(stderr, "%s: %s\n", what, tegula_last_error());
  std::exit(1);
}

template <typename F> double microseconds(int batch, F &&f) {
  auto t0 = std::chrono::steady_clock::now();
  for (int i = 0; i < batch; ++i) f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count() / batch * 1e6;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// The driver's own launch of a kernel that takes one packed block: what nobody can be faster than.
struct Bare {
  struct Config {
    unsigned grid[3] = {1, 1, 1}, block[3], sharedBytes = 0;
    void *stream = nullptr, *attributes = nullptr;
    unsigned attributeCount = 0;
  } config;
  int (*launch)(const Config *, void *, void **, void **) = nullptr;
  void *function = nullptr;
  char block[256] = {};
  size_t bytes = 0;

  Bare(TegulaKernel *k, size_t argBytes) : bytes((argBytes + 7) / 8 * 8 + 8) {
    TegulaKernelInfo info{};
    info.size = sizeof info;
    tegula_kernel_info(k, &info);
    const char *code = nullptr;
    size_t length = 0;
    tegula_kernel_asm(k, std::strncmp(tegula_assembler_name(), "nv", 2) == 0 ? "cubin" : "ptx", &code, &length);
    const char *path = std::getenv("TEGULA_LIBCUDA");
    void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    auto load = reinterpret_cast<int (*)(void **, const void *, unsigned, int *, void **)>(dlsym(library, "cuModuleLoadDataEx"));
    auto find = reinterpret_cast<int (*)(void **, void *, const char *)>(dlsym(library, "cuModuleGetFunction"));
    auto retain = reinterpret_cast<int (*)(void **, int)>(dlsym(library, "cuDevicePrimaryCtxRetain"));
    auto push = reinterpret_cast<int (*)(void *)>(dlsym(library, "cuCtxPushCurrent_v2"));
    launch = reinterpret_cast<decltype(launch)>(dlsym(library, "cuLaunchKernelEx"));
    void *context = nullptr, *module = nullptr;
    if (retain(&context, 0) || push(context) || load(&module, code, 0, nullptr, nullptr) || find(&function, module, info.symbol)) die("bare launch");
    config.block[0] = info.threads;
    config.block[1] = config.block[2] = 1;
  }
  void operator()() {
    void *extra[] = {reinterpret_cast<void *>(1), block, reinterpret_cast<void *>(2), &bytes, nullptr};
    if (launch(&config, function, nullptr, extra)) die("cuLaunchKernelEx");
  }
};

} // namespace

int main(int argc, char **argv) {
  int count = argc > 1 ? std::atoi(argv[1]) : 0;
  const char *device = argc > 2 ? argv[2] : "cpu";
  bool gpu = std::strncmp(device, "cuda", 4) == 0;
  std::string text = "import tegula\n@tegula.jit\ndef k(";
  for (int i = 0; i < count; ++i) text += "a" + std::to_string(i) + ", ";
  text += "):\n    pass\n";
  TegulaContext *ctx;
  TegulaModule *module;
  TegulaFunction *k;
  TegulaLaunchOptions options = TEGULA_LAUNCH_OPTIONS_INIT;
  void *buffer = nullptr;
  if (tegula_context_create(nullptr, &ctx) || tegula_module_from_text(ctx, "empty.py", text.data(), text.size(), &module) ||
      tegula_module_function(module, "k", &k) || tegula_device_find(ctx, device, &options.device) ||
      tegula_memory_allocate(ctx, options.device, 64, &buffer))
    die("launch-bench");
  std::vector<TegulaArg> args;
  for (int i = 0; i < count; ++i) args.push_back(i < 5 ? tegula_ptr(buffer, TEGULA_FP32, 64) : tegula_int(64 + i));
  const int64_t grid[3] = {1, 1, 1};
  auto ours = [&] {
    if (tegula_launch(k, grid, args.data(), args.size(), gpu ? &options : nullptr, nullptr)) die("launch");
  };
  ours();
  std::vector<double> times, bareTimes;
  // Short batches on a GPU: its queue must not fill up.
  const int batch = gpu ? 500 : 100000;
  if (!gpu) {
    for (int round = 0; round < 10; ++round) times.push_back(microseconds(batch, ours));
    std::printf("%.4f\n", median({times.begin() + 1, times.end()}));
    return 0;
  }
  TegulaKernel *compiled;
  if (tegula_compile(k, args.data(), args.size(), &options, &compiled)) die("compile");
  Bare bare(compiled, size_t(std::min(count, 5)) * 8 + size_t(std::max(count - 5, 0)) * 4);
  for (int round = 0; round < 60; ++round) {
    for (auto *list : {&times, &bareTimes}) {
      tegula_synchronize(ctx, options.device, nullptr);
      double t = list == &times ? microseconds(batch, ours) : microseconds(batch, bare);
      if (round >= 10) list->push_back(t);
    }
  }
  std::printf("%.4f %.4f\n", median(times), median(bareTimes));
}
