// launch-bench N [device]: microseconds per launch of a cached empty kernel with N (0 or 19) arguments: through the C interface, by a typed handle (`kernel.bind(...)`, called with all arguments as they
// were bound, and with all others), and bare, batches of the four taking turns. Bare is, on a GPU, the same kernel by cuLaunchKernelEx with one packed block, else the call of an empty function of a kernel's type with that block filled in.
// The least of all batches, which on a GPU are shorter than its queue and begin with an empty one: hosts that others use, too, vary by more than what is compared.
#include "BareLaunch.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <tegula/tegula.hpp>
#include <optional>
#include <utility>
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

/// The same kernel, by the driver alone.
BareLaunch bareOf(TegulaKernel *k, size_t argBytes) {
  TegulaKernelInfo info{};
  info.size = sizeof info;
  tegula_kernel_info(k, &info);
  const char *code = nullptr;
  size_t length = 0;
  tegula_kernel_asm(k, std::strncmp(tegula_assembler_name(), "nv", 2) == 0 ? "cubin" : "ptx", &code, &length);
  void *driver = BareLaunch::driver();
  auto retain = reinterpret_cast<int (*)(void **, int)>(dlsym(driver, "cuDevicePrimaryCtxRetain"));
  auto push = reinterpret_cast<int (*)(void *)>(dlsym(driver, "cuCtxPushCurrent_v2"));
  void *context = nullptr;
  if (retain(&context, 0) || push(context)) die("bare launch");
  void *function = BareLaunch::find(driver, code, info.symbol);
  if (!function) die("bare launch");
  return BareLaunch(driver, function, info.threads, (argBytes + 7) / 8 * 8 + 8);
}

/// What a launch on a CPU comes to at least: the arguments in a block, and the call of a kernel.
int emptyKernel(const void *, void *, long, long, void *) { return 0; }
int (*volatile emptyEntry)(const void *, void *, long, long, void *) = emptyKernel;

template <typename I> struct Typed;
template <size_t... I> struct Typed<std::index_sequence<I...>> {
  template <size_t> using Number = int;
  static auto of(const tegula::Function &k, float *p, const tegula::LaunchOptions &options) {
    auto f = tegula::TypedFunction<void(float *, float *, float *, float *, float *, Number<I>...)>::of(k, {}, options);
    auto handle = f ? f->bind(1, p, p + 64, p + 128, p + 192, p + 256, int(69 + I)...) : tegula::Result<tegula::TypedLaunch<float *, float *, float *, float *, float *, Number<I>...>>(f.status());
    if (!handle) die("bind");
    // `by` 0: as it was bound; 16: everything else, of the same class.
    return [handle = *handle, p](int by) {
      float *const q = p + by;
      return bool(handle(q, q + 64, q + 128, q + 192, q + 256, (int(69 + I) + by)...));
    };
  }
  static int bare(float *p) {
    struct Block {
      float *pointers[5];
      int numbers[sizeof...(I)];
    } block{{p, p + 64, p + 128, p + 192, p + 256}, {int(69 + I)...}};
    return emptyEntry(&block, nullptr, 0, 1, nullptr);
  }
};
using Fourteen = Typed<std::make_index_sequence<14>>;

} // namespace

int main(int argc, char **argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 0;
  const char *device = argc > 2 ? argv[2] : "cpu";
  const bool gpu = std::strncmp(device, "cuda", 4) == 0;
  std::string text = "import tegula\n@tegula.jit\ndef k(";
  for (int i = 0; i < count; ++i) text += "a" + std::to_string(i) + ", ";
  text += "):\n    pass\n";
  TegulaContext *ctx;
  TegulaModule *module;
  TegulaFunction *k;
  tegula::LaunchOptions options;
  void *buffer = nullptr;
  if (tegula_context_create(nullptr, &ctx) || tegula_module_from_text(ctx, "empty.py", text.data(), text.size(), &module) ||
      tegula_module_function(module, "k", &k) || tegula_device_find(ctx, device, &options.device) ||
      tegula_memory_allocate(ctx, options.device, 4096, &buffer))
    die("launch-bench");
  auto *p = static_cast<float *>(buffer);
  std::vector<TegulaArg> args;
  for (int i = 0; i < count; ++i) args.push_back(i < 5 ? tegula_ptr(p + 64 * i, TEGULA_FP32, 256) : tegula_int(64 + i));
  const int64_t grid[3] = {1, 1, 1};
  auto ours = [&] {
    if (tegula_launch(k, grid, args.data(), args.size(), gpu ? &options : nullptr, nullptr)) die("launch");
  };
  ours();
  tegula_function_retain(k);
  const tegula::Function function(k);
  const auto nothing = tegula::TypedFunction<void()>::of(function, {}, options).and_then([](const auto &f) { return f.bind(1); });
  auto handle = [&, many = count ? std::optional(Fourteen::of(function, p, options)) : std::nullopt](int by) {
    if (many ? !(*many)(by) : !(*nothing)()) die("handle");
  };
  std::optional<BareLaunch> driver;
  if (gpu) {
    TegulaKernel *compiled;
    if (tegula_compile(k, args.data(), args.size(), &options, &compiled)) die("compile");
    driver = bareOf(compiled, size_t(std::min(count, 5)) * 8 + size_t(std::max(count - 5, 0)) * 4);
  }
  auto bare = [&] {
    if (driver ? (*driver)() : count ? Fourteen::bare(p) : emptyEntry(nullptr, nullptr, 0, 1, nullptr)) die("bare");
  };
  std::vector<double> times[4];
  // Short batches: a GPU's queue must not fill up, and on a CPU others get their turn in between.
  const int batch = gpu ? 200 : 5000, rounds = gpu ? 400 : 100;
  for (int round = 0; round < rounds; ++round) {
    auto take = [&](std::vector<double> &list, auto &&f) {
      if (gpu) tegula_synchronize(ctx, options.device, nullptr);
      const double t = microseconds(batch, f);
      if (round >= 10) list.push_back(t);
    };
    take(times[0], ours), take(times[1], [&] { handle(0); }), take(times[2], [&] { handle(16); }), take(times[3], bare);
  }
  for (std::vector<double> &t : times) std::printf("%.4f%c", *std::min_element(t.begin(), t.end()), &t == &times[3] ? '\n' : ' ');
}
