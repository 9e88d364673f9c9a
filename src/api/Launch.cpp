// The launch path: bind, look up, pack, run. Nothing here allocates once a kernel is compiled.
#include "api/Compile.h"
#include "api/LaunchPath.h"
#include "api/Repeat.h"
#include "api/Sized.h"
#include "api/Specialize.h"
#include "runtime/HostStream.h"
#include "runtime/PackScalar.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace tegula;
using namespace tegula::api;
using lang::Scalar;

namespace {
struct Hooks final : runtime::LaunchHooks {
  TegulaContext &context;
  explicit Hooks(TegulaContext &c) : context(c) {}
  void print(const std::string &text) override { context.print(TEGULA_DEVICE_PRINT, text); }
  bool interrupted() override { return context.interrupt && context.interrupt(context.interruptUser) != 0; }
  bool pollable() const override { return context.interrupt != nullptr; }
};
} // namespace

static constexpr size_t maxBlock = 16 * BoundCall::maxLeaves;

static const std::string &argName(const TegulaKernel &k, const PackItem &item) {
  return k.info.args[&item - k.pack.data()].name;
}

static bool wrongArg(const TegulaKernel &k, const PackItem &item, const std::string &what) {
  fail(TEGULA_INVALID_ARGUMENT, "`" + k.name + "`: argument `" + argName(k, item) + "` " + what);
  return false;
}

static bool inRange(Scalar s, const TegulaArg &a) { return runtime::inRange(static_cast<TegulaDtype>(s), a); }

static bool packScalar(const TegulaKernel &k, const PackItem &item, const TegulaArg &a, char *to) {
  if (item.checkRange && !inRange(item.scalar, a))
    return wrongArg(k, item,
                    "is " + std::to_string(a.u.i) + ", which `" + lang::spelling(lang::dtype(item.scalar)) +
                        "` cannot hold");
  return runtime::packScalar(static_cast<TegulaDtype>(item.scalar), a, to) ||
         wrongArg(k, item, "is of a type that scalars cannot have");
}

/// The memory that a pointer argument may access: the memory that it is a view of, or from its address on, or any.
static TegulaCpuExtent extentOf(const TegulaArg &a, const CallOptions &call) {
  if (call.nullsOnly) return {0, a.u.ptr ? UINT64_MAX : 0};
  auto address = reinterpret_cast<uint64_t>(a.u.ptr);
  TegulaMemory m{nullptr, 0};
  if (call.memory && a.u.ptr && call.memory(call.memoryUser, &a, &m)) {
    auto begin = reinterpret_cast<uint64_t>(m.begin);
    if (begin <= address && address - begin <= m.bytes) {
      uint64_t known = a.u2.extent > 0 ? static_cast<uint64_t>(a.u2.extent) : 0;
      return {begin, std::max(m.bytes, address - begin + known)};
    }
  }
  return a.u2.extent >= 0 ? TegulaCpuExtent{address, static_cast<uint64_t>(a.u2.extent)}
                          : TegulaCpuExtent{0, UINT64_MAX};
}

/// Writes the argument block; `extents` (one per pointer) only if the kernel is checked.
static bool pack(const TegulaKernel &k, const TegulaArg *const *leaves, char *block, TegulaCpuExtent *extents,
                 const CallOptions &call) {
  for (const PackItem &item : k.pack) {
    const TegulaArg &a = *leaves[item.leaf];
    if (!item.isPtr) {
      if (!packScalar(k, item, a, block + item.offset)) return false;
      continue;
    }
    if (item.written && (a.flags & TEGULA_ARG_READ_ONLY))
      return wrongArg(k, item, "is read-only, but the kernel stores to it");
    std::memcpy(block + item.offset, &a.u.ptr, sizeof(void *));
    if (extents) *extents++ = extentOf(a, call);
  }
  return true;
}

/// Rejects two arguments that share elements at different positions, if the kernel writes to one and was compiled for
/// disjoint memory: it might read other values than in the order of its accesses. Rejects only certain cases: one of
/// the two is dense where the other begins or ends. Accepts equal memory (in place), and tensors that interleave with
/// gaps, which may be disjoint.
static bool checkApart(const TegulaKernel &k, const TegulaArg *const *leaves) {
  struct Seen {
    const PackItem *item;
    runtime::AddressRange at;
  };
  Seen seen[SeenPointers::most];
  unsigned count = 0;
  const auto holdsAnEnd = [&](const Seen &dense, const Seen &other) {
    return (leaves[dense.item->leaf]->flags & TEGULA_ARG_DENSE) &&
           (dense.at.contains(other.at.begin) || dense.at.contains(other.at.end - 1));
  };
  for (const PackItem &item : k.pack) {
    if (!item.isPtr || leaves[item.leaf]->u2.extent <= 0 || count == SeenPointers::most) continue;
    const Seen own{&item, runtime::addressesOf(*leaves[item.leaf])};
    for (unsigned i = 0; i < count; ++i) {
      if (!own.at.meets(seen[i].at)) [[likely]] continue;
      const PackItem &other = *seen[i].item;
      const auto bytes = [&](const PackItem &p) { return runtime::dtypeInfo(leaves[p.leaf]->dtype).bytes; };
      const bool isInPlace = own.at.begin == seen[i].at.begin && bytes(item) == bytes(other),
                 isSaid = item.overlap && item.overlap == other.overlap;
      if (isInPlace || isSaid || (!item.written && !other.written) ||
          (!holdsAnEnd(own, seen[i]) && !holdsAnEnd(seen[i], own)))
        continue;
      return wrongArg(
          k, item,
          "shares elements with `" + argName(k, other) + "` at other places, and the kernel, which writes to " +
              (item.written ? "it" : "that one") +
              ", was compiled for memory of their own; launch the function, or put `:~1` behind the types of both in the signature");
    }
    seen[count++] = own;
  }
  return true;
}

namespace {
/// A launch queued in a stream of this process, with the data that it needs until it runs.
struct QueuedLaunch {
  Ref<TegulaKernel> kernel;
  struct Free {
    void operator()(char *p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> block;
  std::vector<TegulaCpuExtent> extents;
  int32_t grid[3];
  int64_t programs;
  unsigned threads;
  uint64_t hangNs;

  runtime::Status run(runtime::LaunchOutcome &outcome) const {
    Hooks hooks(*kernel->context);
    runtime::LaunchCall launch{{grid[0], grid[1], grid[2]},
                               programs,
                               block.get(),
                               extents.empty() ? nullptr : extents.data(),
                               threads,
                               nullptr,
                               &hooks,
                               hangNs};
    runtime::Status s = kernel->code->launch(launch, outcome);
    if (!s && s.code == TEGULA_FAULT && !outcome.culprit)
      outcome.culprit = {std::make_shared<Ref<TegulaKernel>>(kernel), &kernel->info};
    return s;
  }
};
} // namespace

static TegulaStatus queueBlock(const TegulaKernel &k, runtime::HostStream &stream, const int32_t grid[3],
                               int64_t programs, const char *block, const TegulaCpuExtent *extents,
                               const RunOptions &o) {
  auto q = std::make_shared<QueuedLaunch>();
  q->kernel = Ref(const_cast<TegulaKernel *>(&k));
  size_t room = (k.info.argBytes + runtime::argRoom + 63) / 64 * 64;
  q->block.reset(static_cast<char *>(std::aligned_alloc(64, room)));
  if (!q->block) return fail(TEGULA_OUT_OF_RESOURCES, "no memory for the arguments of `" + k.name + "`");
  std::memcpy(q->block.get(), block, k.info.argBytes);
  if (extents) {
    size_t pointers = 0;
    for (const PackItem &item : k.pack) pointers += item.isPtr;
    q->extents.assign(extents, extents + pointers);
  }
  std::copy(grid, grid + 3, q->grid);
  q->programs = programs, q->threads = o.threads, q->hangNs = o.hangNs;
  stream.add([q](runtime::LaunchOutcome &outcome) { return q->run(outcome); });
  return TEGULA_OK;
}

TegulaStatus api::runBlock(const TegulaKernel &k, const int32_t grid[3], int64_t programs, char *block,
                           const TegulaCpuExtent *extents, const RunOptions &o) {
  if (programs == 0) return TEGULA_OK;
  if (o.stream)
    if (runtime::HostStream *stream = k.device ? k.device->device->hostStream(o.stream) : nullptr)
      return queueBlock(k, *stream, grid, programs, block, extents, o);
  Hooks hooks(*k.context);
  runtime::LaunchCall launch{
      {grid[0], grid[1], grid[2]}, programs, block, extents, o.threads, o.stream, &hooks, o.hangNs};
  runtime::LaunchOutcome outcome;
  runtime::Status s = k.code->launch(launch, outcome);
  if (s) [[likely]]
    return TEGULA_OK;
  return s.code == TEGULA_FAULT ? fault(outcome.culprit ? *outcome.culprit : k.info, outcome.fault, std::move(s.text))
                                : fail(s);
}

/// The form of a kernel for a launch with the packed arguments of `block`.
static uint8_t wantedForm(const TegulaKernel &k, int64_t programs, const char *block) {
  struct Packed {
    const runtime::KernelInfo &info;
    const char *block;
  } const packed{k.info, block};
  return k.info.forms.formFor(
      programs, coresOf(*k.device),
      [](const void *p, uint32_t i) {
        return runtime::integerOf(static_cast<const Packed *>(p)->info.args[i], static_cast<const Packed *>(p)->block);
      },
      &packed);
}

bool api::takesStrides(const TegulaKernel &k, int64_t programs, const char *block) {
  const LaunchForms &f = k.info.forms;
  if (!f.asks() || !k.target.isCpu() || f.form != f.unknown || programs <= 0 ||
      wantedForm(k, programs, block) == f.form) [[likely]]
    return true;
  fail(
      TEGULA_INVALID_ARGUMENT,
      "`" + k.name +
          "`: with such large strides offsets may wrap around 32 bits, and the kernel was compiled for smaller ones; launch the function");
  return false;
}

TegulaStatus api::run(const TegulaKernel &k, const int32_t grid[3], int64_t programs, const TegulaArg *const *leaves,
                      const CallOptions &call) {
  alignas(64) char block[maxBlock + runtime::argRoom];
  TegulaCpuExtent extents[BoundCall::maxLeaves];
  if (k.info.argBytes > maxBlock) return fail(TEGULA_INTERNAL_ERROR, "`" + k.name + "`: argument block too large");
  if (!pack(k, leaves, block, k.code->needsExtents() ? extents : nullptr, call) || !takesStrides(k, programs, block))
    return TEGULA_INVALID_ARGUMENT;
  return runBlock(k, grid, programs, block, extents, {call.threads, call.hangNs, call.stream});
}

bool api::hasNulls(const BoundCall &bound, const CallOptions &call) {
  if (call.device != DeviceIndex::cpu || call.compile.checked) return false;
  for (unsigned i = 0; i < bound.leafCount; ++i)
    if (bound.leaves[i]->kind == TEGULA_ARG_POINTER && !bound.leaves[i]->u.ptr) return true;
  return false;
}

/// Binds a call again, for other options or another form.
static bool bindAgain(TegulaFunction &f, const TegulaArg *args, size_t count, const CompileOptions &options,
                      BoundCall &bound, bool nulls) {
  bound.leafCount = bound.wordCount = 0;
  bound.nulls = nulls;
  return bind(f, args, count, options, bound);
}

TegulaKernel *api::prepare(TegulaFunction &f, const TegulaArg *args, size_t count, const TegulaLaunchOptions *options,
                           CallOptions &call, BoundCall &bound, std::optional<int64_t> launched) {
  TegulaContext &c = *f.context;
  const auto resolve = [&] {
    if (!c.resolve(options, call, args, count)) return false;
    if (launched) call.compile.facts.programs = *launched;
    return bind(f, args, count, call.compile, bound);
  };
  if (!resolve()) return nullptr;
  if (launched && hasNulls(bound, call)) {
    call.compile.checked = call.nullsOnly = true;
    if (!bindAgain(f, args, count, call.compile, bound, true)) return nullptr;
  }
  if (TegulaKernel *k = findKernel(f, bound)) return k;
  // Checks only here, where compilation takes time anyway, whether pointers may belong to a GPU by now.
  if (!call.deviceGiven && c.noticeCuda()) {
    call = {};
    bound = {};
    if (!resolve()) return nullptr;
  }
  return kernelFor(f, args, count, call, bound);
}

/// The number of blocks that share the iterations of a loop with `split="auto"`: enough to leave no multiprocessor
/// idle, but without a second wave.
static int32_t partsFor(const TegulaKernel &k, int64_t programs) {
  constexpr int64_t most = 8; // more blocks in a cluster are not portable
  const int64_t cores = coresOf(*k.device);
  int64_t parts = 1;
  while (parts < most && programs * parts * 2 <= cores) parts *= 2;
  return static_cast<int32_t>(parts);
}

/// The form of a kernel with a loop that several CTAs may share, for a grid that leaves multiprocessors idle.
static TegulaKernel *spread(TegulaFunction &f, const TegulaArg *args, size_t count, CallOptions &call, BoundCall &bound,
                            TegulaKernel *k, int64_t programs) {
  const bool nulls = bound.nulls;
  int32_t parts =
      k->device && call.compile.numCtas == 1 && programs > 0 && !k->staysWhole.load(std::memory_order_relaxed)
          ? partsFor(*k, programs)
          : 1;
  if (parts == 1) return k;
  for (; parts > 1; parts /= 2) {
    CallOptions wide = call;
    wide.compile.numCtas = parts;
    TegulaKernel *found = bindAgain(f, args, count, wide.compile, bound, nulls) ? findKernel(f, bound) : nullptr;
    if (!found) found = kernelFor(f, args, count, wide, bound);
    if (!found) {
      k->staysWhole.store(true, std::memory_order_relaxed);
      break;
    }
    // A second wave for the last clusters would cost what sharing gains. Not all multiprocessors fit into clusters: 120
    // of an H200's 132 in those of 4 and 8.
    const uint32_t atOnce = found->code ? found->code->use().clusters : 0;
    if (!atOnce || programs <= atOnce) return call = wide, found;
  }
  return bindAgain(f, args, count, call.compile, bound, nulls) ? k : nullptr;
}

static bool hasWantedForm(const TegulaKernel &k, int64_t programs, const char *block) {
  return programs == 0 || k.staysWhole.load(std::memory_order_relaxed) ||
         wantedForm(k, programs, block) == k.info.forms.form;
}
/// The same for arguments that are not packed.
static uint8_t wantedForm(const TegulaKernel &k, int64_t programs, const TegulaArg *const *leaves) {
  struct Flat {
    const TegulaKernel &k;
    const TegulaArg *const *leaves;
  } const flat{k, leaves};
  return k.info.forms.formFor(
      programs, coresOf(*k.device),
      [](const void *p, uint32_t i) {
        return static_cast<const Flat *>(p)->leaves[static_cast<const Flat *>(p)->k.pack[i].leaf]->u.i;
      },
      &flat);
}

/// The kernel in the form that `k` wants for the launch; `k` if it has that form or there is no other. `call` and
/// `bound` are changed to those of the result.
static TegulaKernel *inWantedForm(TegulaFunction &f, const TegulaArg *args, size_t count, CallOptions &call,
                                  BoundCall &bound, TegulaKernel *k, int64_t programs) {
  if (!k->info.forms.asks() || !k->device || programs <= 0 || k->staysWhole.load(std::memory_order_relaxed)) return k;
  const uint8_t wanted = wantedForm(*k, programs, bound.leaves);
  if (wanted == k->info.forms.form) return k;
  CallOptions changed = call;
  changed.compile.facts.form = wanted;
  const bool nulls = bound.nulls;
  TegulaKernel *found = bindAgain(f, args, count, changed.compile, bound, nulls) ? findKernel(f, bound) : nullptr;
  if (!found) found = kernelFor(f, args, count, changed, bound);
  if (found) return call = changed, found;
  k->staysWhole.store(true, std::memory_order_relaxed);
  return bindAgain(f, args, count, call.compile, bound, nulls) ? k : nullptr;
}

TegulaKernel *api::inForm(TegulaFunction &f, const TegulaArg *args, size_t count, CallOptions &call, BoundCall &bound,
                          TegulaKernel *k, int64_t programs) {
  if (k->info.gpu.splitsByGrid) return spread(f, args, count, call, bound, k, programs);
  // Only the code of a form shows how many registers its loads ahead need, so it may want another form in turn; that
  // one gives the same answer.
  constexpr unsigned mostSteps = 2;
  TegulaKernel *before = nullptr;
  for (unsigned i = 0; i < mostSteps && k && k != before; ++i)
    before = std::exchange(k, inWantedForm(f, args, count, call, bound, k, programs));
  return k;
}

TegulaStatus tegula_launch(TegulaFunction *f, const int64_t grid[3], const TegulaArg *args, size_t count,
                           const TegulaLaunchOptions *options, TegulaKernel **kernel) {
  if (!f || !grid || (!args && count)) return fail(TEGULA_INVALID_ARGUMENT, "tegula_launch: null argument");
  int32_t extents[3];
  int64_t programs;
  if (runtime::Status s = runtime::checkGrid(grid, extents, programs); !s)
    return fail(s.code, "`" + f->fn->name + "`: " + s.text);
  static constexpr TegulaLaunchOptions defaults = TEGULA_LAUNCH_OPTIONS_INIT;
  const TegulaLaunchOptions &o = options ? *options : defaults;
  bool full = isSized(&o);
  if (const Repeat *r = full ? f->recent.load(std::memory_order_acquire) : nullptr) {
    alignas(64) char block[Repeat::maxBytes + runtime::argRoom];
    if (r->pack(args, count, o, block) && (o.device >= 0 || r->infers(args, count)) &&
        (!r->asks() || hasWantedForm(r->kernel(), programs, block))) {
      if (kernel) *kernel = &r->kernel();
      return runBlock(r->kernel(), extents, programs, block, nullptr, {r->threads(), r->hangNs(), o.stream});
    }
  }
  CallOptions call;
  BoundCall bound;
  TegulaKernel *k = prepare(*f, args, count, options, call, bound, programs);
  if (!k) return tegula_last_status();
  const bool splits = k->info.gpu.splitsByGrid;
  if (!(k = inForm(*f, args, count, call, bound, k, programs))) return tegula_last_status();
  if (kernel) *kernel = k;
  if (full && !splits) { // the Repeat does not check the grid
    std::call_once(k->repeatOnce, [&] { k->repeat = Repeat::of(*f, args, count, o, call, *k); });
    if (const Repeat *r = k->repeat ? k->repeat->forOptions(*f, args, count, o, call) : nullptr)
      f->recent.store(r, std::memory_order_release);
  }
  return run(*k, extents, programs, bound.leaves, call);
}

TegulaStatus api::launchFirst(TegulaFunction &f, const int64_t grid[3], const TegulaArg *args, size_t count,
                              const TegulaLaunchOptions *options) {
  int32_t extents[3];
  int64_t programs;
  if (runtime::Status s = runtime::checkGrid(grid, extents, programs); !s) return fail(s);
  CallOptions call;
  BoundCall bound;
  TegulaKernel *k = prepare(f, args, count, options, call, bound, programs);
  return k ? run(*k, extents, std::min<int64_t>(programs, 1), bound.leaves, call) : tegula_last_status();
}

TegulaStatus tegula_compile(TegulaFunction *f, const TegulaArg *args, size_t count, const TegulaLaunchOptions *options,
                            TegulaKernel **out) {
  if (!f || !out || (!args && count)) return fail(TEGULA_INVALID_ARGUMENT, "tegula_compile: null argument");
  CallOptions call;
  BoundCall bound;
  TegulaKernel *k = prepare(*f, args, count, options, call, bound, std::nullopt);
  if (!k || !(k = inForm(*f, args, count, call, bound, k, call.compile.facts.programs))) return tegula_last_status();
  retain(k);
  *out = k;
  return TEGULA_OK;
}

TegulaStatus tegula_sketch(TegulaFunction *f, const TegulaArg *args, size_t count, const TegulaLaunchOptions *options,
                           TegulaKernel **out) {
  if (!f || !out || (!args && count)) return fail(TEGULA_INVALID_ARGUMENT, "tegula_sketch: null argument");
  TegulaKernel *k = sketchKernel(*f, args, count, options);
  if (!k) return tegula_last_status();
  *out = k;
  return TEGULA_OK;
}

namespace {
/// Walks the arguments along the specialization of a kernel: every leaf must match the kernel's.
struct Matcher {
  const TegulaKernel &k;
  const TegulaArg *args;    // of the call; as many as walked so far are there
  const TegulaArg **leaves; // BoundCall::maxLeaves of them
  unsigned count = 0;

  bool wrong(const std::string &name, const std::string &what) {
    fail(TEGULA_INVALID_ARGUMENT, "`" + k.name + "`: argument `" + name + "` " + what);
    return false;
  }
  /// Compile-time parts of a descriptor must match: the kernel has them built in, and a difference would go unnoticed.
  static bool sameBlocks(const sema::ParamSpec &s, const TegulaArg &a) {
    if (s.kind == sema::ParamSpec::Kind::Constexpr)
      return a.kind != TEGULA_ARG_VALUE || (a.u.value && lang::equal(a.u.value->value, s.value));
    if (s.kind == sema::ParamSpec::Kind::Runtime) return true;
    if (a.kind != TEGULA_ARG_TUPLE || a.count != s.items.size() || (a.count && !a.u.items)) return false;
    for (size_t i = 0; i < s.items.size(); ++i)
      if (!sameBlocks(s.items[i], a.u.items[i])) return false;
    return true;
  }
  bool walk(const sema::ParamSpec &s, const TegulaArg *a, const std::string &name) {
    static constexpr TegulaArg missing{};
    if (s.kind == sema::ParamSpec::Kind::Tuple) {
      if (!a || a->kind != TEGULA_ARG_TUPLE || a->count != s.items.size() || (a->count && !a->u.items))
        return wrong(name, s.isDescriptor() ? "must be a tensor descriptor"
                                            : "must be a tuple of " + std::to_string(s.items.size()));
      if (s.isDescriptor() && !sameBlocks(s, *a))
        return wrong(name, "is not the `" + sema::descriptorText(s) + "` that the kernel was compiled for");
      for (size_t i = 0; i < s.items.size(); ++i)
        if (!walk(s.items[i], &a->u.items[i], name)) return false;
      return true;
    }
    if (count == BoundCall::maxLeaves) return wrong(name, "is one too many");
    leaves[count++] = a ? a : &missing;
    if (s.kind == sema::ParamSpec::Kind::Constexpr) return true;
    if (!a || a->kind == TEGULA_ARG_MISSING) return wrong(name, "is missing");
    if (s.dtype.isPtr) {
      if (a->kind != TEGULA_ARG_POINTER) return wrong(name, "must be a pointer");
      if (a->dtype != static_cast<TegulaDtype>(s.dtype.scalar))
        return wrong(name, std::string("is `*") + tegula_dtype_name(a->dtype) + "`; the kernel was compiled for `" +
                               lang::code(s.dtype) + "`");
      if (reinterpret_cast<uintptr_t>(a->u.ptr) % s.divisibility)
        return wrong(name, "is not aligned to " + std::to_string(s.divisibility) +
                               " bytes, as the kernel was compiled to assume");
      if (!k.options.wide && isBig(*a, a->dtype))
        return wrong(
            name,
            "has 2^30 elements or more; the kernel was compiled for smaller ones (compile it with the option wide_offsets)");
      if (s.sameAs >= 0 && args[s.sameAs].u.u != a->u.u)
        return wrong(name, "is not the buffer of `" + k.params[static_cast<size_t>(s.sameAs)].name +
                               "`, as the kernel was compiled to assume");
      return true;
    }
    bool integer = a->kind == TEGULA_ARG_INT || a->kind == TEGULA_ARG_UINT || a->kind == TEGULA_ARG_BOOL;
    if (!integer && a->kind != TEGULA_ARG_FLOAT) return wrong(name, "must be a number");
    if (s.dtype.isInt() && (!integer || !inRange(s.dtype.scalar, *a)))
      return wrong(name, "is not the `" + lang::spelling(s.dtype) + "` that the kernel was compiled for");
    if (s.divisibility > 1 && a->u.i % s.divisibility)
      return wrong(name,
                   "is not divisible by " + std::to_string(s.divisibility) + ", as the kernel was compiled to assume");
    return true;
  }
};
} // namespace

bool tegula::api::matchArgs(const TegulaKernel &k, const TegulaArg *args, size_t count, const TegulaArg **leaves) {
  if (count > k.specs.size()) {
    fail(TEGULA_INVALID_ARGUMENT, "`" + k.name + "` takes " + std::to_string(k.specs.size()) + " arguments, " +
                                      std::to_string(count) + " were given");
    return false;
  }
  Matcher m{k, args, leaves};
  for (size_t i = 0; i < k.specs.size(); ++i)
    if (!m.walk(k.specs[i], i < count ? &args[i] : nullptr, k.params[i].name)) return false;
  return true;
}

TegulaStatus tegula_kernel_launch(TegulaKernel *k, const int64_t grid[3], const TegulaArg *args, size_t count,
                                  const TegulaLaunchOptions *options) {
  if (!k || !grid || (!args && count)) return fail(TEGULA_INVALID_ARGUMENT, "tegula_kernel_launch: null argument");
  if (k->object.empty()) return fail(TEGULA_UNSUPPORTED, "`" + k->name + "` is a sketch: it has no code to launch");
  if (!k->code)
    return fail(TEGULA_UNSUPPORTED,
                "`" + k->name + "` was compiled for `" + k->target.name + "`, not for this machine");
  int32_t extents[3];
  int64_t programs;
  if (runtime::Status s = runtime::checkGrid(grid, extents, programs); !s)
    return fail(s.code, "`" + k->name + "`: " + s.text);
  CallOptions call;
  if (!k->context->resolve(options, call)) return TEGULA_INVALID_ARGUMENT;
  const TegulaArg *leaves[BoundCall::maxLeaves];
  if (!matchArgs(*k, args, count, leaves) || !checkApart(*k, leaves)) return TEGULA_INVALID_ARGUMENT;
  return run(*k, extents, programs, leaves, call);
}
