// From the arguments of a call to a specialization: flat leaves, a key for the look-up, and (for new keys) the input of
// sema.
//
// The language's rules: an int equal to 1 becomes a constant; divisibility by 16 of ints and addresses is a fact; None,
// types, functions and constexpr parameters are constants by value; annotations force types; do_not_specialize switches
// facts off.
#pragma once
#include "api/Handles.h"
#include "runtime/AddressRange.h"

namespace tegula::api {

/// Tensors of that many elements are too large for 32-bit offsets (why half of what these reach:
/// passes/WidenOffsets.h).
constexpr int64_t bigTensorElements = int64_t(1) << 30;
/// May a kernel access bigTensorElements or more from this pointer, counted in elements of type `pointee`?
bool isBig(const TegulaArg &a, TegulaDtype pointee);

/// Which pointers of a call are equal, and which overlap. A kernel that reads through one argument what it writes
/// through another must know that both are the same pointer (ir::ArgInfo::sameAs), or that their memory overlaps
/// (overlap), so such calls have forms of their own. Two read-only pointers do not matter. Every launch computes this:
/// it compares an address and an end with those of the pointers before.
class SeenPointers {
public:
  static constexpr unsigned most = 64; // later pointers count as memory of their own
  static constexpr uint32_t item = UINT32_MAX;

  SeenPointers() {} // leaves the table uninitialized
  /// The first parameter added so far whose pointer equals `a` in everything that a kernel can depend on: address,
  /// element type and extent, where the memory may be written through one of them. -1: there is none, the pointer is
  /// null, or `parameter` is `item`, an item of a tuple. `pointee`: the parameter's, annotations included.
  int add(uint32_t parameter, TegulaDtype pointee, const TegulaArg &a) {
    if (count_ == most) return -1;
    const auto [begin, end] = runtime::addressesOf(a);
    bool meets = false;
    for (unsigned i = 0; i < count_; ++i) meets |= seen_[i].at.meets({begin, end});
    seen_[count_] = {{begin, end}, a.u2.extent, parameter, pointee, (a.flags & TEGULA_ARG_READ_ONLY) != 0};
    ++count_;
    return meets ? meeting(count_ - 1) : -1;
  }
  /// Do any two pointers overlap without being equal, where one of them may be written?
  bool overlap() const { return overlap_; }
  /// Writes for each pointer, in the order of add(), the number of its group to `out`, which has room for `most`. The
  /// first pointers of the groups number them from 1; 0: the pointer overlaps with none, or equals an earlier one.
  /// Returns the number of pointers added.
  unsigned groups(uint8_t *out) const;

private:
  int meeting(unsigned last);
  struct Seen {
    runtime::AddressRange at; // an end of 0: overlaps with nothing
    int64_t extent;
    uint32_t parameter;
    TegulaDtype pointee;
    bool readOnly;
  };
  unsigned count_ = 0;
  bool overlap_ = false;
  Seen seen_[most];
};

/// The arguments of one call after binding. Lives on the stack; nothing beyond the counts is initialized.
struct BoundCall {
  static constexpr unsigned maxLeaves = 256, maxWords = 3 * maxLeaves;
  const TegulaArg *leaves[maxLeaves];
  uint64_t words[maxWords];
  unsigned leafCount = 0, wordCount = 0;
  bool wide = false; // some pointer is big, or the options say so
  // set before bind(), for launches with null pointers: these have one form, whatever the addresses and sizes of
  // tensors
  bool nulls = false;

  uint64_t hash() const {
    uint64_t h = wordCount;
    for (unsigned i = 0; i < wordCount; ++i) h = (h ^ words[i]) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
    return h;
  }
};

/// Binds arguments to the parameters: flattens tuples, fills in defaults, makes the key. False: the last error is set.
bool bind(TegulaFunction &f, const TegulaArg *args, size_t count, const CompileOptions &options, BoundCall &out);
/// The specs that sema needs for the same arguments, one per parameter. `f.params()` and `args` must have passed
/// bind(). `nulls`: as in BoundCall.
std::vector<sema::ParamSpec> specsOf(TegulaFunction &f, const TegulaArg *args, size_t count, bool nulls = false);
/// "x:*fp32:16, out:*fp32:16:x, n:i32, BLOCK:1024": `out` is the buffer of `x`.
std::string signatureText(const std::vector<Param> &params, const std::vector<sema::ParamSpec> &specs);
/// The same for one parameter.
std::string parameterText(const std::vector<Param> &params, const std::vector<sema::ParamSpec> &specs, size_t i);
/// Exact text of the specs for the cache key.
std::string specKey(const std::vector<sema::ParamSpec> &specs);
/// Flattens the arguments of a compiled kernel into `leaves` (BoundCall::maxLeaves of them), which PackItem::leaf
/// indexes. False, with the last error set: an argument violates a fact that the kernel was specialized on.
bool matchArgs(const TegulaKernel &k, const TegulaArg *args, size_t count, const TegulaArg **leaves);
/// For each argument of a kernel: the value of an integer (others 0), and the bytes behind a pointer (-1: unknown, or
/// not a pointer). `leaves` as from matchArgs.
struct LaunchNumbers {
  std::vector<int64_t> values, extents;
  LaunchNumbers(const TegulaKernel &k, const TegulaArg *const *leaves);
};
/// The values of integer run-time arguments, in the order of the kernel's arguments; others 0. `leaves` as from bind().
std::vector<int64_t> integersOf(const std::vector<sema::ParamSpec> &specs, const TegulaArg *const *leaves);
/// Number of leaves of a spec, in the order in which bind() makes them.
uint32_t leavesOf(const sema::ParamSpec &spec);

} // namespace tegula::api
