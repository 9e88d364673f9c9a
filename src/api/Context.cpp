// Contexts: construction, options of launches, output, interrupts.
#include "runtime/Dtype.h"
#include "api/Bundles.h"
#include "api/Environment.h"
#include "api/Handles.h"
#include "api/Record.h"
#include "api/Sized.h"
#include "api/Specialize.h"
#include "ir/StageVerifier.h"
#include <cstdio>
#include <cstdlib>

using namespace tegula;
using namespace tegula::api;

TegulaStatus tegula_context_create(const TegulaContextOptions *options, TegulaContext **out) {
  if (!out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_create: `out` is null");
  TegulaContextOptions o = TEGULA_CONTEXT_OPTIONS_INIT;
  if (options && !takeSized(options, o))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_create: `size` of the options is not set");
  if (o.read_only_cache_dir_count && !o.read_only_cache_dirs)
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_create: read_only_cache_dirs is null");
  CacheLayers layers;
  for (size_t i = 0; i < o.read_only_cache_dir_count; ++i)
    if (o.read_only_cache_dirs[i]) layers.addOne(o.read_only_cache_dirs[i]);
  GateSection section;
  Environment e;
  if (!readEnvironment(e)) return tegula_last_status();
  layers.add(e.cacheLayers);
  if (o.allocator && (!o.allocator->allocate || !o.allocator->free))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_create: the allocator has a null function");
  if (o.executor && !o.executor->run)
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_create: the executor has a null function");
  std::string dir = o.cache_dir ? o.cache_dir : runtime::defaultCacheDirectory();
  auto made = std::make_unique<TegulaContext>(dir, std::move(layers.directories),
                                              e.cacheBytes ? e.cacheBytes : runtime::DiskCache::defaultLimit);
  TegulaContext *c = made.get();
  c->tuning.deterministic = e.tuneDeterministic;
  c->tuning.rehearses = e.tuneRehearses;
  c->tuning.copyBytes = e.tuneBytes.value_or(c->tuning.copyBytes);
  // Results of tuning are stored beside the code, unless the environment says otherwise.
  c->tuning.places = tune::Places::fromEnvironment();
  if (!std::getenv("TEGULA_TUNE_DIR")) c->tuning.places.directory = dir;
  c->forcedTarget = std::move(e.cpuTarget);
  c->hangNs = e.hangNs;
  c->level = e.level;
  c->deviceName = e.device;
  if (o.allocator) c->allocator = *o.allocator;
  if (o.executor) c->pool.runOn({o.executor->user, o.executor->run});
  c->logFn = o.log;
  c->logUser = o.log_user;
  c->disk.onRefusal = [c](const std::string &why) { c->warn(why); };
  uint64_t threads = o.num_threads > 0 ? static_cast<uint64_t>(o.num_threads)
                     : e.threads       ? e.threads
                                       : runtime::ThreadPool::availableCores();
  c->threads = static_cast<unsigned>(std::min<uint64_t>(threads, runtime::ThreadPool::maxThreads));
  c->debug = o.debug >= 0 ? o.debug : e.debug;
  c->checked = o.checked >= 0 ? o.checked : e.checked;
  c->verify = e.verify;
  if (c->verify || ir::verifiesAlways) c->reproducers = std::make_shared<const std::string>(e.reproducers);
  c->strict = e.strict;
  c->clusters = static_cast<uint8_t>(e.clusters);
  c->noJit.store(e.noJit);
  openLayers(*c, layers.archives);
  if (!e.record.empty()) c->recorder = std::make_shared<Recorder>(e.record);
  *out = made.release();
  return TEGULA_OK;
}

void tegula_context_retain(TegulaContext *c) { retain(c); }
void tegula_context_release(TegulaContext *c) { release(c); }

TegulaStatus tegula_context_set_output(TegulaContext *c, TegulaOutputFn fn, void *user) {
  if (!c) return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_set_output: null context");
  c->setOutput(fn, user);
  return TEGULA_OK;
}

TegulaStatus tegula_context_set_interrupt(TegulaContext *c, TegulaInterruptFn fn, void *user) {
  if (!c) return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_set_interrupt: null context");
  c->interrupt = fn;
  c->interruptUser = user;
  return TEGULA_OK;
}

void tegula_shutdown(void (*before_sleep)(void)) { closeGateForExit(before_sleep); }

void tegula_cancel(TegulaContext *c) {
  if (c) c->cancel.cancelAll();
}

void TegulaContext::setOutput(TegulaOutputFn fn, void *user) {
  GatePause pause;
  std::lock_guard lock(outputMutex_);
  output_ = fn;
  outputUser_ = user;
}

void TegulaContext::afterFork() {
  new (&outputMutex_) std::recursive_mutex;
  new (&logMutex_) std::recursive_mutex;
  new (&allocatedMutex) std::mutex;
}

void TegulaContext::log(int32_t severity, std::string_view text) {
  GatePause pause;
  std::lock_guard lock(logMutex_);
  logFn(logUser, severity, text.data(), text.size());
}

void TegulaContext::warn(std::string_view text) {
  if (logFn) log(TEGULA_WARNING, text);
  else std::fprintf(stderr, "tegula: warning: %.*s\n", static_cast<int>(text.size()), text.data());
}

void TegulaContext::print(int32_t stream, std::string_view text) {
  if (text.empty()) return;
  GatePause pause;
  std::lock_guard lock(outputMutex_);
  if (output_) return output_(outputUser_, stream, text.data(), text.size());
  fwrite(text.data(), 1, text.size(), stdout);
  fflush(stdout);
}

int32_t TegulaContext::inferDevice(const TegulaArg *args, size_t count) {
  int32_t device = deviceName.empty() ? -1 : environmentDevice();
  if (!environmentStatus_) {
    fail(environmentStatus_.code, "TEGULA_DEVICE: " + environmentStatus_.text);
    return -1;
  }
  if (device < 0 && cudaInUse.load(std::memory_order_relaxed)) device = deviceOf(args, count);
  // Without pointers: the device of the thread's current CUDA context, else the CPU.
  if (device < 0) device = cudaInUse.load(std::memory_order_relaxed) ? currentDevice() : DeviceIndex::cpu;
  return device;
}

bool TegulaContext::resolve(const TegulaLaunchOptions *options, CallOptions &out, const TegulaArg *args, size_t count) {
  CompileOptions &c = out.compile;
  int32_t device = isSized(options) ? options->device : -1;
  out.deviceGiven = device >= 0;
  if (!out.deviceGiven && (device = inferDevice(args, count)) < 0) return false;
  if (device > 255) {
    fail(TEGULA_NOT_FOUND, "there is no device " + std::to_string(device));
    return false;
  }
  out.device = device;
  c.device = static_cast<uint8_t>(device);
  c.debug = debug;
  c.level = level;
  c.debugInfo = debug;
  c.checked = checked;
  c.verify = verify;
  c.reproducers = reproducers;
  c.strict = strict;
  c.clusters = clusters;
  out.threads = threads;
  out.hangNs = hangNs;
  if (!options) return true;
  if (!isSized(options)) {
    fail(TEGULA_INVALID_ARGUMENT, "`size` of the launch options is not set");
    return false;
  }
  const TegulaLaunchOptions &o = *options;
  auto wrong = [](const char *name, int64_t value, const char *rule) {
    fail(TEGULA_INVALID_ARGUMENT, std::string(name) + " is " + std::to_string(value) + "; it must be " + rule);
    return false;
  };
  constexpr int mostWarps = 64;
  if (o.num_warps < 0 || (o.num_warps & (o.num_warps - 1)))
    return wrong("num_warps", o.num_warps, "a power of 2, at most 64");
  if (o.num_warps > mostWarps) { // as on GPUs: a tuner continues without the configuration
    const std::string text = "num_warps is " + std::to_string(o.num_warps) + "; it must be a power of 2, at most 64";
    return fail(runtime::Status::exhausted("threads", uint64_t(o.num_warps) * 32, mostWarps * 32, text)), false;
  }
  if (o.num_stages < 0 || o.num_stages > 255) return wrong("num_stages", o.num_stages, "between 1 and 255");
  if (o.num_ctas < 0 || o.num_ctas > 255) return wrong("num_ctas", o.num_ctas, "between 1 and 255");
  if (o.maxnreg < 0) return wrong("maxnreg", o.maxnreg, "positive");
  if (o.num_threads < 0) return wrong("num_threads", o.num_threads, "positive, or 0 for all cores");
  if (o.hang_s != 0) {
    std::optional<uint64_t> ns = hangTime(o.hang_s);
    if (!ns) {
      fail(TEGULA_INVALID_ARGUMENT, "hang_s must be a number of seconds");
      return false;
    }
    out.hangNs = *ns;
  }
  if (o.language_level != 0) {
    std::optional<lang::Level> level = levelNumbered(o.language_level);
    if (!level) return wrong("language_level", o.language_level, "36, 37 or 39");
    c.level = *level;
  }
  if (o.opt_level > 3) return wrong("opt_level", o.opt_level, "between 0 and 3");
  if (o.num_warps) c.numWarps = o.num_warps;
  if (o.num_stages) c.numStages = o.num_stages;
  if (o.num_ctas) c.numCtas = o.num_ctas;
  c.maxnreg = o.maxnreg;
  c.cooperative = o.cooperative != 0;
  c.programmaticLaunch = o.programmatic_launch != 0;
  out.stream = o.stream;
  if (o.debug >= 0) c.debug = o.debug;
  if (o.checked >= 0) c.checked = o.checked;
  if (o.strict >= 0) c.strict = o.strict;
  if (o.clusters)
    c.clusters = static_cast<uint8_t>(o.clusters == 1 ? gpu::Clusters::ByCost : gpu::clustersOf(o.clusters));
  c.wide = o.wide_offsets > 0;
  c.keepsSubnormals = o.keep_subnormals > 0;
  if (hasField(o, &TegulaLaunchOptions::memory_user)) out.memory = o.memory, out.memoryUser = o.memory_user;
  if (hasField(o, &TegulaLaunchOptions::integers)) {
    if (o.programs < 0) return wrong("programs", o.programs, "positive, or 0 where it is not known");
    c.facts.programs = o.programs, out.integers = o.integers;
  }
  if (o.debug_info >= 0) c.debugInfo = o.debug_info;
  if (o.fp_fusion >= 0) c.fpFusion = o.fp_fusion;
  if (o.sanitize_overflow >= 0) c.sanitizeOverflow = o.sanitize_overflow;
  if (o.opt_level >= 0) c.optLevel = static_cast<uint8_t>(o.opt_level);
  if (o.num_threads) out.threads = std::min<unsigned>(o.num_threads, runtime::ThreadPool::maxThreads);
  return true;
}

const char *tegula_target_name(size_t index) {
  GateSection section;
  static const auto &names = *new std::vector<std::string>(targetNames());
  return index < names.size() ? names[index].c_str() : nullptr;
}

#define TEGULA_TEXT(x) #x
#define TEGULA_DOTTED(a, b, c) TEGULA_TEXT(a) "." TEGULA_TEXT(b) "." TEGULA_TEXT(c)
const char *tegula_version(void) {
  return TEGULA_DOTTED(TEGULA_VERSION_MAJOR, TEGULA_VERSION_MINOR, TEGULA_VERSION_PATCH);
}
int32_t tegula_abi_version(void) { return TEGULA_ABI_VERSION; }

TegulaStatus tegula_cache_stat(TegulaContext *c, TegulaCacheStat *out) {
  if (!c || !isSized(out)) return fail(TEGULA_INVALID_ARGUMENT, "tegula_cache_stat: null argument or `size` not set");
  GateSection section;
  runtime::DiskCache::Usage u = c->disk.usage();
  // Text that lives as long as the context: both strings are fixed once the directory is open.
  static thread_local std::string directory, reason;
  directory = c->disk.path();
  reason = c->disk.disabledReason();
  TegulaCacheStat s{sizeof s, directory.c_str(), reason.c_str(), u.entries, u.bytes, c->memoryHits, c->disk.hits,
                    c->compiles, c->disk.writes, c->disk.errors, c->disk.corrupted};
  giveSized(s, out);
  return TEGULA_OK;
}

TegulaStatus tegula_cache_clear(TegulaContext *c, uint64_t *removed) {
  if (!c) return fail(TEGULA_INVALID_ARGUMENT, "tegula_cache_clear: null context");
  GateSection section;
  uint64_t n = c->disk.clear();
  if (removed) *removed = n;
  return TEGULA_OK;
}

void tegula_free(void *memory) { std::free(memory); }

TegulaStatus tegula_dtype_parse(const char *text, TegulaDtype *out, int32_t *isPointer) {
  if (!text || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_dtype_parse: null argument");
  auto d = lang::parseDtype(text);
  if (!d || (d->isPtr && !isPointer))
    return fail(TEGULA_INVALID_ARGUMENT, std::string("`") + text + "` is not a data type");
  *out = static_cast<TegulaDtype>(d->scalar);
  if (isPointer) *isPointer = d->isPtr;
  return TEGULA_OK;
}
const char *tegula_dtype_name(TegulaDtype d) { return d < runtime::dtypeCount ? runtime::dtypeInfo(d).name : ""; }
uint32_t tegula_dtype_bytes(TegulaDtype d) { return d < runtime::dtypeCount ? runtime::dtypeInfo(d).bytes : 0; }
