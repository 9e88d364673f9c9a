// The short path of a launch: a call like an earlier one runs that call's kernel.
//
// The long path makes a key of all arguments, hashes it, looks the kernel up, and then walks the arguments again to
// pack them. A Repeat is made from one such call. It holds, per parameter, the properties that an argument must have
// for the key to be equal (its kind, its type, divisible by 16 or not, 1 or not, the value of a constant), and the
// offset of its bits in the block. So one walk both checks and packs. A Repeat may refuse a call for which the long
// path finds the same kernel (an int given as another kind), never the reverse. Calls with tuples, checked accesses or
// big tensors have none.
//
// It also keeps the call that it was made from: an argument that equals that call's bit for bit fits, and its bits are
// in a copy of that call's block. Only other arguments are checked, and overlap is computed only if a pointer differs.
#pragma once
#include "api/Handles.h"
#include "api/WordPack.h"
#include <atomic>

namespace tegula::api {

struct BoundCall;

class Repeat {
public:
  /// Null: calls like this one always take the long path. `call` was resolved from `options`; `args` were bound to
  /// `kernel`'s key. `keepsArgs`: an argument that a call leaves out is the one in `args`, which live as long as the
  /// Repeat; otherwise it is the parameter's default.
  static std::unique_ptr<const Repeat> of(TegulaFunction &f, const TegulaArg *args, size_t count,
                                          const TegulaLaunchOptions &options, const CallOptions &call,
                                          TegulaKernel &kernel, bool keepsArgs = false);

  ~Repeat() { delete next_.load(std::memory_order_relaxed); }
  /// This Repeat, or another one of `kernel`, for calls with these options (several may reach one kernel: num_warps
  /// left open or given). Made if there is none yet. Null: there are too many.
  const Repeat *forOptions(TegulaFunction &f, const TegulaArg *args, size_t count, const TegulaLaunchOptions &options,
                           const CallOptions &call) const;

  /// True if the long path would find kernel(); then `block` (with room for maxBytes) holds the arguments.
  bool pack(const TegulaArg *args, size_t count, const TegulaLaunchOptions &options, char *block) const {
    return hasOptions(options) && pack(args, count, block);
  }
  /// The same for a call whose options are known to be equal.
  bool pack(const TegulaArg *args, size_t count, char *block) const;
  /// Copies the block of the call that this was made from; false: that call had an argument that takes the long path.
  bool packKept(char *block) const;
  /// How words become the block; null: some arguments must be checked one by one, or share memory.
  std::unique_ptr<const WordPack> words() const;

  TegulaKernel &kernel() const { return kernel_; }
  unsigned threads() const { return threads_; }
  uint64_t hangNs() const { return hangNs_; }
  /// True if other launches may want another form of the kernel.
  bool asks() const { return asks_; }
  /// True if a call that names no device runs on the kernel's.
  bool infers(const TegulaArg *args, size_t count) const {
    return kernel_.context->inferDevice(args, count) == device_;
  }
  static constexpr size_t maxBytes = 1024;

private:
  enum class Is : uint8_t { Constant, None, Value, /* in the block: */ Pointer, Int, Bool, Float };
  /// An argument of the call that this was made from, as far as launches depend on it, beside the same step. Small and
  /// in one table: after a driver's launch little of it is in the cache.
  struct Kept {
    uint32_t head = 0; // of an argument: kind, type and flags
    uint32_t parameter = 0;
    uint64_t bits = 1; // with a head of 0, of a missing argument, whose bits are 0: like no argument
    int64_t extent = 0; // of pointers
    bool is(const TegulaArg &a) const;
  };
  /// What an argument must be, and what becomes of it.
  struct Step {
    // kind, type and the flags that an argument must not have: its first four bytes under the mask
    uint32_t head = 0, headMask = 0;
    // the bits must lie in [low, low + span], counted around zero; of a value: its key
    uint64_t low = 0, span = UINT64_MAX;
    int64_t extents = 0;                 // of pointers: bytes of a big tensor, for which there is another kernel
    uint16_t offset = 0;                 // in the block
    int16_t sameAs = -1;                 // the parameter that is the same pointer (SeenPointers)
    Is is = Is::Constant;
    uint8_t bytes = 0;     // in the block
    uint8_t alignment = 0; // mask
    bool divisible = true; // must be right of the bits under `alignment`: are they zero?
    bool notOne = false;   // the bits must not be 1
    TegulaDtype pointee = TEGULA_VOID;
  };
  static_assert(sizeof(Step) == 48);
  bool hasOptions(const TegulaLaunchOptions &options) const;
  static bool stepOf(const Param &p, const TegulaArg &a, Step &out);
  static bool matches(const Step &s, const TegulaArg &a, char *block);
  const TegulaArg &given(size_t step, const TegulaArg *args, size_t count) const;
  bool sharesAsKept(const TegulaArg *args, size_t count) const;

  explicit Repeat(TegulaKernel &k) : kernel_(k), asks_(k.info.forms.asks()) {}
  static constexpr unsigned mostForms = 8;
  TegulaKernel &kernel_;
  const bool asks_;
  mutable std::atomic<const Repeat *> next_{nullptr}; // owned; the kernel's chain only grows
  TegulaLaunchOptions options_{}; // without the stream
  unsigned threads_ = 1;
  uint64_t hangNs_ = 0;
  int32_t device_ = 0;
  // Pointers first, otherwise in the order of parameters.
  std::vector<Kept> kept_;
  std::vector<Step> steps_;
  std::vector<const TegulaArg *> fallbacks_; // for arguments that calls leave out; never null
  size_t pointers_ = 0;
  std::vector<char> block_;      // of the kept call, gaps included
  bool isKept_ = true;           // no argument of the kept call goes the long way
  std::vector<uint8_t> overlap_; // SeenPointers::groups(); empty: no pointers overlap
};

} // namespace tegula::api
