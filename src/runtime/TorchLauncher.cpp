// The launcher beside the kernels in a package of PyTorch's AOTInductor: a separate shared library, opened by PyTorch's
// C++ runtime (its cpu_triton_runtime_wrappers.h), which contains this runtime and no part of the compiler.
//
// A kernel there is a shared library, too, written by python/tegula/_inductor/package.py. To the dynamic linker it has
// no code, only one symbol, KernelImage, with the bytes from tegula_kernel_save. Only this file throws: PyTorch turns
// std::exception into its own error.
#include "runtime/CacheFile.h"
#include "runtime/Dtype.h"
#include "runtime/Launch.h"
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>

using namespace tegula::runtime;

namespace {

constexpr char imageMagic[8] = {'T', 'E', 'G', 'U', 'L', 'A', 'K', '1'};

struct LoadedImage {
  std::unique_ptr<CpuKernel> kernel;
  std::vector<uint32_t> positions; // of each argument among those that PyTorch gives
};

/// The data behind a kernel's symbol; followed by `positionCount` 32-bit numbers, then `entryBytes` bytes.
struct KernelImage {
  char magic[8];
  std::atomic<const LoadedImage *> loaded; // 0 in the file
  uint64_t entryBytes, positionCount;
};
static_assert(sizeof(KernelImage) == 32);

struct Prints final : LaunchHooks {
  void print(const std::string &text) override { std::fwrite(text.data(), 1, text.size(), stdout); }
};

struct Machine {
  ThreadPool pool;
  CancelTable cancel;
  unsigned threads = ThreadPool::availableCores();
  Machine() {
    const char *text = std::getenv("TEGULA_NUM_THREADS");
    if (long n = text ? std::atol(text) : 0; n > 0) threads = std::min<unsigned long>(n, ThreadPool::maxThreads);
  }
};

/// Lives until the process ends: its threads may outlive every owner.
Machine &machine() {
  static Machine &it = *new Machine;
  return it;
}

[[noreturn]] void fail(const std::string &text) { throw std::runtime_error("tegula: " + text); }

bool runsHere([[maybe_unused]] std::string_view target) {
#if defined(__x86_64__)
  if (target.ends_with("avx512bf16"))
    return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16");
  if (target.ends_with("avx512")) return __builtin_cpu_supports("x86-64-v4");
  if (target.ends_with("avx2vnni")) return __builtin_cpu_supports("x86-64-v3") && __builtin_cpu_supports("avxvnni");
  if (target.ends_with("avx2")) return __builtin_cpu_supports("x86-64-v3");
#endif
  return true;
}

const LoadedImage *load(const KernelImage &image) {
  const char *at = reinterpret_cast<const char *>(&image + 1);
  auto loaded = std::make_unique<LoadedImage>();
  loaded->positions.resize(image.positionCount);
  std::memcpy(loaded->positions.data(), at, image.positionCount * sizeof(uint32_t));
  std::span<const char> bytes(at + image.positionCount * sizeof(uint32_t), image.entryBytes);
  Digest key;
  CacheEntry entry;
  if (formatOf(bytes, key) != EntryFormat::Ours || !decodeEntry(bytes, key, entry))
    fail("a kernel of the package is damaged, or of another version than its launcher");
  for (const auto &[name, value] : entry.properties) {
    if (name != "target") continue;
    tegula::ByteReader r(value.data(), value.size());
    if (std::string target = r.str(); !runsHere(target))
      fail("`" + entry.info.name + "` was compiled for `" + target + "`, which this processor does not run");
  }
  if (entry.info.checked) fail("`" + entry.info.name + "` was compiled in checked mode, which packages cannot run");
  if (entry.info.args.size() != image.positionCount)
    fail("`" + entry.info.name + "` has other arguments than the package says");
  Status status;
  loaded->kernel = CpuKernel::load(std::move(entry.info), entry.object, status);
  if (!loaded->kernel) fail(status.text);
  return loaded.release();
}

const LoadedImage &loadedOf(KernelImage &image) {
  if (const LoadedImage *found = image.loaded.load(std::memory_order_acquire)) return *found;
  static std::mutex &mutex = *new std::mutex;
  std::lock_guard lock(mutex);
  if (!image.loaded.load(std::memory_order_relaxed)) image.loaded.store(load(image), std::memory_order_release);
  return *image.loaded.load(std::memory_order_relaxed);
}

} // namespace

/// `args`: one entry for each parameter of the kernel's signature; pointers directly, numbers by address. `threads` is
/// 1 whatever PyTorch's own number of threads is, so it is ignored; $TEGULA_NUM_THREADS sets the number.
extern "C" __attribute__((visibility("default"))) void run_from_nativert(uint32_t x, uint32_t y, uint32_t z,
                                                                         [[maybe_unused]] int threads, void **args,
                                                                         void *kernel) {
  auto &image = *static_cast<KernelImage *>(kernel);
  if (std::memcmp(image.magic, imageMagic, sizeof imageMagic) != 0)
    fail("this launcher was given a kernel that is not tegula's");
  const LoadedImage &loaded = loadedOf(image);
  const KernelInfo &info = loaded.kernel->info();
  alignas(16) char small[512];
  std::vector<char> large;
  if (info.argBytes > sizeof small) large.resize(info.argBytes);
  char *block = large.empty() ? small : large.data();
  for (size_t i = 0; i < info.args.size(); ++i) {
    const ArgInfo &a = info.args[i];
    void *const &given = args[loaded.positions[i]];
    if (a.isPtr) std::memcpy(block + a.offset, &given, sizeof given);
    else std::memcpy(block + a.offset, given, dtypeInfo(a.dtype).bytes);
  }
  LaunchRequest request;
  const int64_t grid[3] = {x, y, z};
  if (Status s = checkGrid(grid, request.grid, request.programs); !s) fail(s.text);
  if (request.programs == 0) return;
  request.kernel = loaded.kernel.get();
  request.args = block;
  request.threads = machine().threads;
  Prints hooks;
  LaunchOutcome outcome;
  if (Status s = launch(request, machine().pool, machine().cancel, hooks, outcome); !s) {
    const bool known = s.code == TEGULA_FAULT && s.text.empty();
    fail(known ? faultText(info, outcome.fault) : s.text);
  }
}
