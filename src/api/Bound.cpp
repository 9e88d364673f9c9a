// Bound launches: the work that depends on a launch's argument types, options and constants is done once, and a call
// compares, packs and runs.
//
// The short path is a Repeat of the launch's own, which no other launch of the function replaces; for arguments of
// known types, its WordPack. Without one (descriptors, checked accesses, big tensors), a call makes the key of its
// arguments and compares it with the key of the kernel, which needs no look-up. The kernel's form
// (support/LaunchForms.h) is that of the launch that was bound, whatever numbers come later.
#include "api/LaunchPath.h"
#include "api/Repeat.h"
#include "api/Sized.h"
#include "runtime/Device.h"
#include <algorithm>
#include <cstring>
#include <deque>

using namespace tegula;
using namespace tegula::api;

struct TegulaBoundLaunch final : RefCounted {
  Ref<TegulaFunction> function;
  Ref<TegulaKernel> kernel;
  CallOptions call;           // of `kernel`'s form
  std::vector<uint64_t> key;  // of `kernel`
  bool nulls = false;         // BoundCall::nulls
  int32_t extents[3];         // of the grid
  int64_t programs = 0;
  std::vector<TegulaArg> args;               // one for each parameter; the three below keep their contents
  std::deque<std::vector<TegulaArg>> tuples;
  std::vector<Ref<TegulaValue>> values;
  std::unique_ptr<const Repeat> repeat;      // null: calls take the long path
  std::unique_ptr<const WordPack> words;     // of `repeat`; null: calls by words take another path

  /// A copy of an argument that is valid as long as this object.
  TegulaArg keep(TegulaArg a);
  bool refuses(const TegulaArg *given);
  /// Must the owner of pointers' memory be looked up, as the arguments determine the device?
  bool asksForDevice() const { return !call.deviceGiven && kernel->context->cudaInUse.load(std::memory_order_relaxed); }
};

namespace {
/// A call's arguments, with the bound ones where it passes none.
class Joined {
public:
  Joined(const TegulaBoundLaunch &b, const TegulaArg *args, size_t count) {
    const size_t n = b.args.size();
    if (n > std::size(few_)) many_.resize(n), all_ = many_.data();
    for (size_t i = 0; i < n; ++i) all_[i] = i < count && args[i].kind != TEGULA_ARG_MISSING ? args[i] : b.args[i];
  }
  const TegulaArg *get() const { return all_; }

private:
  TegulaArg few_[48];
  std::vector<TegulaArg> many_;
  TegulaArg *all_ = few_;
};
} // namespace

TegulaArg TegulaBoundLaunch::keep(TegulaArg a) {
  if (a.kind == TEGULA_ARG_VALUE && a.u.value) values.emplace_back(a.u.value);
  if (a.kind != TEGULA_ARG_TUPLE) return a;
  if (a.u2.cls) values.emplace_back(a.u2.cls);
  std::vector<TegulaArg> &items = tuples.emplace_back();
  for (uint32_t i = 0; a.u.items && i < a.count; ++i) {
    const TegulaArg item = keep(a.u.items[i]);
    items.push_back(item);
  }
  a.u.items = items.data();
  return a;
}

/// Reports why arguments, which passed bind(), are of another class than the kernel's.
bool TegulaBoundLaunch::refuses(const TegulaArg *given) {
  const std::vector<Param> &params = function->params();
  auto refuse = [&](const std::string &what) {
    fail(TEGULA_INVALID_ARGUMENT, "`" + function->fn->name + "`: " + what + "; bind anew, or launch the function");
    return true;
  };
  const auto now = specsOf(*function, given, args.size(), nulls),
             then = specsOf(*function, args.data(), args.size(), nulls);
  for (size_t i = 0; i < params.size(); ++i)
    if (specKey({now[i]}) != specKey({then[i]}))
      return refuse("argument `" + params[i].name + "` is `" + parameterText(params, now, i) + "`, and was `" +
                    parameterText(params, then, i) + "` when the launch was bound");
  for (size_t i = 0; i < params.size(); ++i)
    if (given[i].kind == TEGULA_ARG_POINTER && isBig(given[i], given[i].dtype) != isBig(args[i], args[i].dtype))
      return refuse("argument `" + params[i].name + "` is of 2^30 elements or more, or was when the launch was bound");
  return refuse("the arguments share memory in another way than when the launch was bound");
}

TegulaStatus tegula_bound_create(TegulaFunction *f, const int64_t grid[3], const TegulaArg *args, size_t count,
                                 const TegulaLaunchOptions *options, TegulaBoundLaunch **out) {
  if (!f || !grid || (!args && count) || !out)
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_bound_create: null argument");
  std::unique_ptr<TegulaBoundLaunch> b(new TegulaBoundLaunch);
  if (runtime::Status s = runtime::checkGrid(grid, b->extents, b->programs); !s)
    return fail(s.code, "`" + f->fn->name + "`: " + s.text);
  BoundCall bound;
  TegulaKernel *k = prepare(*f, args, count, options, b->call, bound, b->programs);
  if (!k || !(k = inForm(*f, args, count, b->call, bound, k, b->programs))) return tegula_last_status();
  b->function = Ref(f), b->kernel = Ref(k);
  b->nulls = bound.nulls;
  b->key.assign(bound.words, bound.words + bound.wordCount);
  const std::vector<Param> &params = f->params();
  for (size_t i = 0; i < params.size(); ++i)
    b->args.push_back(b->keep(i < count && args[i].kind != TEGULA_ARG_MISSING ? args[i] : params[i].defaultArg));
  TegulaLaunchOptions full = TEGULA_LAUNCH_OPTIONS_INIT;
  if (options) takeSized(options, full);
  b->repeat = Repeat::of(*f, b->args.data(), b->args.size(), full, b->call, *k, true);
  if (b->repeat) b->words = b->repeat->words();
  *out = b.release();
  return TEGULA_OK;
}

void tegula_bound_retain(TegulaBoundLaunch *b) { retain(b); }
void tegula_bound_release(TegulaBoundLaunch *b) { release(b); }
TegulaKernel *tegula_bound_kernel(const TegulaBoundLaunch *b) { return b ? b->kernel.get() : nullptr; }

/// Launches a call without a Repeat, or with arguments that it refuses.
static TegulaStatus launchByKey(TegulaBoundLaunch &b, const int32_t extents[3], int64_t programs, const TegulaArg *args,
                                size_t count, const TegulaLaunchOptions *options) {
  TegulaFunction &f = *b.function;
  if (count > b.args.size())
    return fail(TEGULA_INVALID_ARGUMENT, "`" + f.fn->name + "` takes " + std::to_string(b.args.size()) +
                                             " arguments, " + std::to_string(count) + " were given");
  const Joined all(b, args, count);
  CallOptions call = b.call;
  if (options) {
    call.stream = options->stream;
    if (hasField(*options, &TegulaLaunchOptions::memory_user))
      call.memory = options->memory, call.memoryUser = options->memory_user;
  }
  BoundCall bound;
  bound.nulls = b.nulls;
  if (!bind(f, all.get(), b.args.size(), call.compile, bound)) return tegula_last_status();
  if (!b.nulls && hasNulls(bound, call))
    return fail(TEGULA_INVALID_ARGUMENT,
                "`" + f.fn->name +
                    "`: a pointer is null, and none was when the launch was bound; bind anew, or launch the function");
  if (bound.wordCount != b.key.size() || !std::equal(b.key.begin(), b.key.end(), bound.words))
    return b.refuses(all.get()), tegula_last_status();
  return run(*b.kernel, extents, programs, bound.leaves, call);
}

namespace {
/// The grid of a call.
struct CallGrid {
  int32_t given[3];
  const int32_t *extents;
  int64_t programs;
  explicit CallGrid(const TegulaBoundLaunch &b) : extents(b.extents), programs(b.programs) {}
  /// False with the last error set. `grid`: null, or the call's own.
  bool take(const TegulaBoundLaunch &b, const int64_t grid[3]) {
    if (!grid) return true;
    if (runtime::Status s = runtime::checkGrid(grid, given, programs); !s)
      return fail(s.code, "`" + b.function->fn->name + "`: " + s.text), false;
    extents = given;
    return true;
  }
};

TegulaStatus runPacked(const TegulaBoundLaunch &b, const CallGrid &grid, char *block,
                       const TegulaLaunchOptions *options) {
  const Repeat &r = *b.repeat;
  if (r.asks() && !takesStrides(r.kernel(), grid.programs, block)) return tegula_last_status();
  return runBlock(r.kernel(), grid.extents, grid.programs, block, nullptr,
                  {r.threads(), r.hangNs(), options ? options->stream : b.call.stream});
}
} // namespace

TegulaStatus tegula_bound_launch(TegulaBoundLaunch *b, const int64_t grid[3], const TegulaArg *args, size_t count,
                                 const TegulaLaunchOptions *options) {
  if (!b || (!args && count)) return fail(TEGULA_INVALID_ARGUMENT, "tegula_bound_launch: null argument");
  if (options && !isSized(options)) return fail(TEGULA_INVALID_ARGUMENT, "`size` of the launch options is not set");
  CallGrid at(*b);
  if (!at.take(*b, grid)) return tegula_last_status();
  // If the arguments determine the device, a CPU kernel must not get memory of another one.
  if (count && b->asksForDevice())
    if (const int32_t device = b->kernel->context->deviceOf(args, count); device >= 0 && device != b->call.device)
      return fail(
          TEGULA_INVALID_ARGUMENT,
          "`" + b->function->fn->name +
              "`: the arguments are in the memory of another device than when the launch was bound; bind anew, or launch the function");
  if (const Repeat *r = b->repeat.get()) {
    alignas(64) char block[Repeat::maxBytes + runtime::argRoom];
    if (count == 0 ? r->packKept(block) : r->pack(args, count, block)) return runPacked(*b, at, block, options);
  }
  return launchByKey(*b, at.extents, at.programs, args, count, options);
}

int32_t tegula_bound_launch_words(TegulaBoundLaunch *b, const int64_t grid[3], const uint64_t *words, size_t count,
                                  const int64_t *extents, size_t pointers, const TegulaLaunchOptions *options,
                                  TegulaStatus *status) {
  if (!b || (!words && count) || (!extents && pointers) || !status) return 0;
  const WordPack *const w = b->words.get();
  if (!w || count != w->count() || pointers != w->pointers() || (options && !isSized(options))) return 0;
  if (pointers && b->asksForDevice()) {
    const TegulaArg first = tegula_ptr(reinterpret_cast<void *>(words[w->firstPointer()]), TEGULA_VOID, -1);
    if (b->kernel->context->deviceOf(&first, 1) != b->call.device) return 0;
  }
  CallGrid at(*b);
  alignas(64) char block[Repeat::maxBytes + runtime::argRoom];
  if (!w->pack(words, extents, block)) return 0;
  *status = at.take(*b, grid) ? runPacked(*b, at, block, options) : tegula_last_status();
  return 1;
}
