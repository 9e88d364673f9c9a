// From the arguments of a call to a specialization: flat leaves, a key for the look-up, and (for new keys) what sema
// needs.
//
// The rules are those of the language: an int equal to 1 becomes a constant, ints and addresses divisible by 16 are
// noticed, None, types, functions and constexpr parameters are constants by value; annotations force types;
// do_not_specialize switches facts off.
#pragma once
#include "api/Handles.h"
#include "runtime/AddressRange.h"

namespace tegula::api {

/// Tensors of that many elements are not served by offsets of 32 bits (why half of what these reach:
/// passes/WidenOffsets.h).
constexpr int64_t bigTensorElements = int64_t(1) << 30;
/// May a kernel go bigTensorElements or more from this pointer, counted in elements of type `pointee`?
bool isBig(const TegulaArg &a, TegulaDtype pointee);

/// Which pointers of a call are the same, and which overlap. A kernel whose program reads through one argument what it
/// writes through another must know that they are one (ir::ArgInfo::sameAs), or that their memory overlaps (overlap),
/// so such calls have forms of their own; what is read-only both times cannot be meant.
/// Looked for in each launch: an address and an end are compared with those of the pointers before.
class SeenPointers {
public:
  static constexpr unsigned most = 64; // what comes later is taken for memory of its own
  static constexpr uint32_t item = UINT32_MAX;

  SeenPointers() {} // leaves the table as it is
  /// The first of the parameters added so far that is the same pointer as `a` in all that a kernel can depend on:
  /// address, element type and extent, and by one of which the memory may be written; -1: none, a null pointer, or
  /// `parameter` is `item`, one of a tuple's. `pointee`: as the parameter has it, annotations included.
  int add(uint32_t parameter, TegulaDtype pointee, const TegulaArg &a) {
    if (count_ == most) return -1;
    const auto [begin, end] = runtime::addressesOf(a);
    bool meets = false;
    for (unsigned i = 0; i < count_; ++i) meets |= seen_[i].at.meets({begin, end});
    seen_[count_] = {{begin, end}, a.u2.extent, parameter, pointee, (a.flags & TEGULA_ARG_READ_ONLY) != 0};
    ++count_;
    return meets ? meeting(count_ - 1) : -1;
  }
  /// Do any two overlap without being the same, of which one may be written?
  bool overlap() const { return overlap_; }
  /// Of each pointer in the order of add() the number of its group, counted from 1 by the first pointers of the groups;
  /// 0: it overlaps with none, or is the same as an earlier one. `out`: `most` of them. The number of pointers that
  /// were added.
  unsigned groups(uint8_t *out) const;

private:
  int meeting(unsigned last);
  struct Seen {
    runtime::AddressRange at; // an end of 0: meets none
    int64_t extent;
    uint32_t parameter;
    TegulaDtype pointee;
    bool readOnly;
  };
  unsigned count_ = 0;
  bool overlap_ = false;
  Seen seen_[most];
};

/// The arguments of one call after binding: lives on the stack, nothing in it is initialized beyond the counts.
struct BoundCall {
  static constexpr unsigned maxLeaves = 256, maxWords = 3 * maxLeaves;
  const TegulaArg *leaves[maxLeaves];
  uint64_t words[maxWords];
  unsigned leafCount = 0, wordCount = 0;
  bool wide = false; // some pointer is big, or the options say so
  // set before bind(): of launches with null pointers, for which there is one form whatever the addresses are and
  // however big the tensors
  bool nulls = false;

  uint64_t hash() const {
    uint64_t h = wordCount;
    for (unsigned i = 0; i < wordCount; ++i) h = (h ^ words[i]) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
    return h;
  }
};

/// Binds arguments to the parameters: flattens tuples, fills defaults in, makes the key. On failure the last error is
/// set.
bool bind(TegulaFunction &f, const TegulaArg *args, size_t count, const CompileOptions &options, BoundCall &out);
/// What sema needs for the same arguments, one per parameter. `f.params()` and `args` must have passed bind().
/// `nulls`: as in BoundCall.
std::vector<sema::ParamSpec> specsOf(TegulaFunction &f, const TegulaArg *args, size_t count, bool nulls = false);
/// "x:*fp32:16, out:*fp32:16:x, n:i32, BLOCK:1024": `out` is the buffer of `x`.
std::string signatureText(const std::vector<Param> &params, const std::vector<sema::ParamSpec> &specs);
/// Of one parameter.
std::string parameterText(const std::vector<Param> &params, const std::vector<sema::ParamSpec> &specs, size_t i);
/// Exact text of the specs for the cache key.
std::string specKey(const std::vector<sema::ParamSpec> &specs);
/// The arguments of a kernel that was compiled, flattened into `leaves` (BoundCall::maxLeaves of them), PackItem::leaf
/// numbers them. False with the last error set if one of them breaks a fact that the kernel was specialized on.
bool matchArgs(const TegulaKernel &k, const TegulaArg *args, size_t count, const TegulaArg **leaves);
/// By argument of a kernel: values of integers (others 0), bytes behind pointers (-1: unknown, or no pointer). `leaves`
/// as of matchArgs.
struct LaunchNumbers {
  std::vector<int64_t> values, extents;
  LaunchNumbers(const TegulaKernel &k, const TegulaArg *const *leaves);
};
/// Values of the run-time arguments in the order of a kernel's, of integers; others 0. `leaves` as of bind().
std::vector<int64_t> integersOf(const std::vector<sema::ParamSpec> &specs, const TegulaArg *const *leaves);
/// Number of leaves a spec takes, in the order bind() makes them.
uint32_t leavesOf(const sema::ParamSpec &spec);

} // namespace tegula::api
