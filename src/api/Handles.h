// The objects behind the opaque handles of tegula.h.
//
// Ownership: a kernel keeps its function's code (not the function's handle) and the context alive; a function keeps the
// context and the loader of its file; a module keeps its functions. No reference points back, so handles form no
// cycles. The code of functions may refer to itself: lang/Circle.h.
#pragma once
#include "api/Backend.h"
#include "api/Error.h"
#include "api/Options.h"
#include "api/RefCounted.h"
#include "api/TuneSettings.h"
#include "lang/Value.h"
#include "runtime/DiskCache.h"
#include "runtime/Launch.h"
#include "sema/Eager.h"
#include "sema/Sema.h"
#include "support/Gate.h"
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

namespace tegula::api {

/// Indices of devices, as in TegulaLaunchOptions::device.
struct DeviceIndex {
  static constexpr int32_t cpu = TEGULA_DEVICE_INDEX_CPU, sim = TEGULA_DEVICE_INDEX_SIM,
                           firstCuda = TEGULA_DEVICE_INDEX_CUDA;
  static constexpr int32_t namedSims = TEGULA_DEVICE_INDEX_END; // sim:sm_80 ...: found by name, not listed
};

/// A device of a context, made at its first use.
struct DeviceEntry {
  int32_t index = 0;
  runtime::Device *device = nullptr;
  std::unique_ptr<runtime::Device> owned; // null: the device belongs to the process
  Target target;
  std::string description;
  runtime::Status unusable; // the reason why nothing can be compiled for it
};

/// One parameter, prepared for binding arguments.
struct Param {
  std::string name;
  bool isConstexpr = false, variadic = false;
  bool specialize = true, specializeAlignment = true;
  bool annotated = false, constPtr = false;
  lang::Dtype annotation; // if `annotated`
  TegulaValue *defaultValue = nullptr;
  TegulaArg defaultArg{}; // kind MISSING if there is no default
};

/// What launches of a compiled kernel report and check about a parameter.
struct KernelParam { std::string name; bool annotated = false; };

/// One entry of a function's table of kernels: immutable; readers take no lock.
struct KernelNode {
  std::vector<uint64_t> key;
  uint64_t hash = 0;
  TegulaKernel *kernel = nullptr;
  KernelNode *next = nullptr;
};
/// A compilation in progress, for threads that want the same kernel. The other fields are written before `done` is set.
struct PendingCompile {
  std::atomic<bool> done{false};
  const unsigned generation = forkGeneration(); // an older generation: its thread stayed in the parent process
  // a signal handler may want the kernel whose compilation it interrupts
  const std::thread::id thread = std::this_thread::get_id();
  bool cancelled = false;         // by a signal to its thread; other threads are not affected
  TegulaKernel *kernel = nullptr; // null: failed, see `report`
  std::shared_ptr<const Report> report;
};

/// How one runtime argument is written into the argument block.
struct PackItem {
  uint32_t leaf = 0; // index among the flattened arguments
  uint32_t offset = 0;
  lang::Scalar scalar = lang::Scalar::Void;
  bool isPtr = false, written = false;
  bool checkRange = false; // the annotation's type is narrower than the values that may be passed
  int32_t divisibility = 1;
  int32_t overlap = 0; // the group of pointers whose memory may overlap with this one's; 0: none
};

class BundleLayers; class Recorder; class Repeat;
} // namespace tegula::api

struct TegulaContext final : tegula::api::RefCounted, private tegula::ForkReset {
  TegulaContext(std::string cacheDir, std::vector<std::string> readOnly, uint64_t cacheLimit)
      : disk(std::move(cacheDir), std::move(readOnly), cacheLimit) {}
  tegula::runtime::ThreadPool pool;
  tegula::runtime::CancelTable cancel;
  tegula::runtime::DiskCache disk;
  unsigned threads = 1;
  uint64_t hangNs = 0; // $TEGULA_HANG_S
  tegula::lang::Level level = tegula::lang::latestLevel; // $TEGULA_TRITON_LEVEL
  bool debug = false, checked = false;
  // $TEGULA_VERIFY, $TEGULA_STRICT, $TEGULA_CLUSTERS (as in CompileOptions)
  bool verify = false, strict = false; uint8_t clusters = 0;
  std::shared_ptr<const std::string> reproducers; // $TEGULA_REPRODUCER_DIR; null where nothing is verified
  tegula::api::TuneSettings tuning;
  std::optional<tegula::api::Target> forcedTarget; // $TEGULA_CPU_TARGET
  TegulaInterruptFn interrupt = nullptr;
  void *interruptUser = nullptr;
  std::atomic<uint64_t> memoryHits{0}, compiles{0};
  std::shared_ptr<tegula::api::BundleLayers> bundles; // null: none. Set-up
  std::atomic<int32_t> noJit{TEGULA_NO_JIT_OFF};
  std::shared_ptr<tegula::api::Recorder> recorder; // $TEGULA_RECORD; null: nothing is recorded. Set-up
  TegulaAllocator allocator{}; // no `allocate`: the devices'
  std::mutex allocatedMutex;
  std::map<void *, uint64_t> allocated; // bytes of each block that the allocator returned
  TegulaLogFn logFn = nullptr;
  void *logUser = nullptr;
  /// Reports what is not the result of a call: to the program's logger, else warnings to stderr. remark() builds its
  /// text only if there is a logger.
  void warn(std::string_view text);
  template <typename F> void remark(F &&text) {
    if (logFn) log(TEGULA_REMARK, text());
  }
  /// All live modules.
  std::mutex modulesMutex; // only in a GateSection
  std::vector<TegulaModule *> modules;
  std::string deviceName; // $TEGULA_DEVICE
  /// Some code in the process uses CUDA, so pointers may belong to a GPU.
  std::atomic<bool> cudaInUse{false};
  /// The target of CPU launches: this machine, or `forcedTarget`. Set at first use.
  const tegula::api::Target &hostTarget();
  /// The device of this index; null, with the reason in `status`. Entries live as long as the context.
  tegula::api::DeviceEntry *device(int32_t index, tegula::runtime::Status &status);
  bool findDevice(std::string_view name, int32_t &index, tegula::runtime::Status &status);
  /// The number of GPUs; searches for them.
  size_t cudaCount();
  /// The device that the first pointer among the arguments belongs to; -1: there is no pointer.
  int32_t deviceOf(const TegulaArg *args, size_t count) const;
  /// The device of a call that names none; -1: the last error is set.
  int32_t inferDevice(const TegulaArg *args, size_t count);
  /// The device of the thread's current CUDA context, else the CPU.
  int32_t currentDevice();
  /// Checks whether CUDA came into use; true at the first time.
  bool noticeCuda();
  /// The device of $TEGULA_DEVICE; -1: it is not set or invalid.
  int32_t environmentDevice();
  /// tegula_device_default().
  int32_t defaultDevice();
  void print(int32_t stream, std::string_view text);
  void setOutput(TegulaOutputFn fn, void *user);
  /// Resolves the options of a call. False: they are invalid, and the last error is set. `args`: the call's, where the
  /// device follows from them.
  bool resolve(const TegulaLaunchOptions *options, tegula::api::CallOptions &out, const TegulaArg *args = nullptr,
               size_t count = 0);

private:
  void afterFork() override;
  void log(int32_t severity, std::string_view text);
  std::recursive_mutex logMutex_;
  std::recursive_mutex outputMutex_; // recursive: a hook in a language with finalizers may print again
  TegulaOutputFn output_ = nullptr;
  void *outputUser_ = nullptr;
  tegula::api::DeviceEntry *makeDevice(int32_t index, tegula::runtime::Status &status);
  std::once_flag targetOnce_, environmentOnce_;
  tegula::api::Target hostTarget_;
  std::atomic<bool> environmentRead_{false};
  int32_t environmentDevice_ = -1;
  tegula::runtime::Status environmentStatus_;
  std::atomic<bool> saidEnvironmentStatus_{false};
  std::mutex devicesMutex_; // only in a GateSection
  std::map<int32_t, std::unique_ptr<tegula::api::DeviceEntry>> devices_;
  std::atomic<tegula::api::DeviceEntry *> fastDevices_[16] = {};
};

struct TegulaValue : tegula::api::RefCounted {
  using Tiles = std::vector<std::shared_ptr<const tegula::ir::GivenValue>>;
  explicit TegulaValue(tegula::lang::Value v, Tiles t = {}) : value(std::move(v)), tiles(std::move(t)) {}
  const tegula::lang::Value value;
  /// The tiles that the tensors in the value point to (tegula_eager_*).
  const Tiles tiles;
  /// Two words of the hash of lang::key(value): equal exactly if the values are equal (up to SHA-256). Ends the set-up
  /// of functions inside.
  const uint64_t *keyWords() {
    const Key *k = key_.load(std::memory_order_acquire);
    return k ? k->words : makeKey();
  }
  const char *reprText();
  ~TegulaValue();

private:
  struct Key {
    uint64_t words[2];
  };
  const uint64_t *makeKey();
  // Made without a lock, perhaps by several threads until the first is done: making one may call the user's functions.
  std::atomic<const Key *> key_{nullptr};
  std::atomic<const std::string *> repr_{nullptr};
};

namespace tegula::sema {
class ModuleLoader;
}

struct TegulaFunction : tegula::api::RefCounted {
  ~TegulaFunction();
  tegula::api::Ref<TegulaContext> context;
  /// Keeps alive whatever must live as long as the code is used, such as the loader of the file.
  std::shared_ptr<const void> keep;
  const tegula::sema::ModuleLoader *loader = nullptr; // of a function of a file; in `keep`
  // names of the file are bound to functions of other modules (tegula_module_bind)
  bool callsOthers = false;
  std::shared_ptr<const tegula::lang::Function> fn;
  uint64_t parseNs = 0;
  // For functions that a binding sets up:
  std::shared_ptr<tegula::lang::Function> mutableFn;
  std::vector<std::string> freeNames;
  std::vector<std::string> paramNames;
  TegulaNamer namer = nullptr;
  void *namerUser = nullptr;
  std::vector<std::pair<void (*)(void *), void *>> atEnd; // guarded by `mutex`
  void nameParams();

  /// Ends set-up and returns the parameters. Thread-safe.
  const std::vector<tegula::api::Param> &params();
  bool sealed() const { return sealed_.load(std::memory_order_acquire); }

  // Kernels by key. Nodes are only added (under `mutex`) and never removed, so readers need no lock.
  static constexpr unsigned bucketCount = 64;
  std::atomic<tegula::api::KernelNode *> buckets[bucketCount] = {};
  std::mutex mutex; // only in a GateSection
  /// The Repeat of the last launch that had one; owned by its kernel.
  std::atomic<const tegula::api::Repeat *> recent{nullptr};
  std::map<std::vector<uint64_t>, std::shared_ptr<tegula::api::PendingCompile>> pending;

private:
  std::once_flag sealOnce_;
  std::atomic<bool> sealed_{false};
  std::vector<tegula::api::Param> params_;
};

struct TegulaModule : tegula::api::RefCounted {
  explicit TegulaModule(TegulaContext *context);
  ~TegulaModule();
  tegula::api::Ref<TegulaContext> context;
  std::shared_ptr<const void> keep;
  const tegula::sema::ModuleLoader *loader = nullptr; // in `keep`
  std::vector<std::shared_ptr<const void>> bound; // keeps functions of other modules alive
  std::shared_ptr<const tegula::lang::Module> module;
  std::vector<std::string> kernels;
  uint64_t parseNs = 0;
  std::mutex mutex; // only in a GateSection
  std::map<std::string, TegulaFunction *, std::less<>> functions; // one reference each
};

struct TegulaKernel : tegula::api::RefCounted {
  TegulaKernel();
  ~TegulaKernel();
  tegula::api::Ref<TegulaContext> context;
  std::shared_ptr<const void> keep;
  std::shared_ptr<const tegula::lang::Function> fn; // null: loaded from bytes, or
  std::shared_ptr<const tegula::SourceFile> tile;   // compiled from this tile IR
  std::vector<tegula::api::KernelParam> params;
  std::vector<tegula::sema::ParamSpec> specs; // one for each of params
  tegula::api::CompileOptions options;
  tegula::api::Target target;
  tegula::runtime::Digest key{}; // of the cache
  tegula::runtime::Digest tileDigest{}; // of the kernel's tile IR, if it was compiled here for a CPU
  std::string name, hash /* the key in hexadecimal */, signature;
  int32_t origin = TEGULA_FROM_COMPILER;
  std::vector<char> object; // empty: a sketch (tegula_sketch)
  bool isCubin() const { return target.isGpu() && !object.empty() && object[0] == '\x7f'; } // else PTX for the driver
  std::unique_ptr<tegula::runtime::Executable> code; // null: the code is not for this machine
  tegula::runtime::KernelInfo info;
  const tegula::api::DeviceEntry *device = nullptr;  // the device that `code` is loaded on
  std::vector<tegula::api::PackItem> pack;
  uint32_t leafCount = 0;
  TegulaTimings timings{};
  std::once_flag repeatOnce;
  // how calls like the first one are recognized; made at the first launch, null if they are not recognized
  std::unique_ptr<const tegula::api::Repeat> repeat;
  // another form of the kernel (GpuInfo::splitsByGrid, KernelInfo::forms) failed to compile
  std::atomic<bool> staysWhole{false};
  std::mutex mutex; // only in a GateSection
  std::map<std::string, std::string, std::less<>> stages; // the stages made so far
  std::string metadata;
};
