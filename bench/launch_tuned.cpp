// tuned-launch-bench N [device]: microseconds per launch through tegula.hpp of a cached empty kernel with N (0 or 19) arguments and a block size: by
// Function, and by Autotuned, whose choice is known; batches of both taking turns, least of all batches.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tegula/tegula.hpp>
#include <vector>

using namespace tegula;

namespace {

[[noreturn]] void die(const std::string &what) {
  std::fprintf(stderr, "tuned-launch-bench: %s\n", what.c_str());
  std::exit(1);
}
template <typename T> T must(Result<T> r) {
  if (!r) die(r.status().message());
  return std::move(r.value());
}

template <typename F> double microseconds(int batch, F &&launch) {
  auto t0 = std::chrono::steady_clock::now();
  for (int i = 0; i < batch; ++i)
    if (Status s = launch(); !s) die(s.message());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count() / batch * 1e6;
}

} // namespace

int main(int argc, char **argv) {
  int count = argc > 1 ? std::atoi(argv[1]) : 0;
  const char *device = argc > 2 ? argv[2] : "cpu";
  std::string text = "import tegula\nimport tegula.language as tl\n@tegula.jit\ndef k(";
  for (int i = 0; i < count; ++i) text += "a" + std::to_string(i) + ", ";
  text += "BLOCK: tl.constexpr):\n    pass\n";
  Context context = must(Context::create());
  Module module = must(context.loadText("empty.py", text));
  Function k = must(module.kernel("k"));
  LaunchOptions options;
  void *buffer = nullptr;
  if (tegula_device_find(context.get(), device, &options.device) || tegula_memory_allocate(context.get(), options.device, 64, &buffer)) die(tegula_last_error());
  std::vector<Config> configs;
  for (int64_t block : {64, 128}) configs.push_back({{{"BLOCK", Value::of(block)}}, 4, 3, 1});
  Autotuned tuned = must(Autotuned::create(k, configs));
  std::vector<Arg> args;
  for (int i = 0; i < count; ++i) args.push_back(i < 5 ? Arg(std::span(static_cast<float *>(buffer), 16)) : Arg(64 + i));
  std::vector<Arg> whole = args;
  Value block = Value::of(int64_t(64));
  whole.push_back(block);
  int64_t n = 64;
  auto byTuner = [&] { return tuned([&](ConfigView c) { return Grid((n + c["BLOCK"] - 1) / c["BLOCK"] ); }, args, options); };
  auto byFunction = [&] { return k(Grid((n + 63) / 64), whole, options); };
  double least[2] = {1e9, 1e9};
  const int batch = 500; // a GPU's queue must not fill up, and others use the machine
  for (int round = 0; round < 1000; ++round) {
    for (int which = 0; which < 2; ++which) {
      if (tegula_synchronize(context.get(), options.device, nullptr)) die(tegula_last_error());
      double t = which ? microseconds(batch, byTuner) : microseconds(batch, byFunction);
      if (round && t < least[which]) least[which] = t;
    }
  }
  std::printf("%.4f %.4f\n", least[0], least[1]);
}
