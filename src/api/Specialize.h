// From the arguments of a call to a specialization: flat leaves, a key for the look-up, and (for new keys) what sema needs.
//
// The rules are those of the language: an int equal to 1 becomes a constant, ints and addresses divisible by 16 are noticed, None, types,
// functions and constexpr parameters are constants by value; annotations force types; do_not_specialize switches facts off.
#pragma once
#include "api/Handles.h"

namespace tegula::api {

/// Tensors of so many elements are not served by offsets of 32 bits (why half of what these reach: passes/WidenOffsets.h).
constexpr int64_t bigTensorElements = int64_t(1) << 30;
/// May a kernel go bigTensorElements or more from this pointer, counted in elements of type `pointee`?
bool isBig(const TegulaArg &a, TegulaDtype pointee);

/// Which parameters of a call are the same pointer. A kernel whose program reads through one argument what it writes through another must know that they
/// are one (ir::ArgInfo::sameAs), so such calls have a form of their own; what is read-only both times cannot be meant. Looked for in each launch, so it costs one test a pointer as long as no two
/// fall on one bit of 64.
class SeenPointers {
public:
  SeenPointers() {} // leaves the table as it is
  /// The first of the parameters added so far that is the same pointer as `a` in all that a kernel can depend on: address, element type and extent, and by one
  /// of which the memory may be written; -1: none, or a null pointer. `pointee`: as the parameter has it, annotations included. `a` must live as long as this.
  int add(unsigned parameter, TegulaDtype pointee, const TegulaArg &a) {
    const uint64_t bit = uint64_t(1) << (a.u.u * 0x9E3779B97F4A7C15ull >> 58);
    const bool isNew = !(bits_ & bit);
    bits_ |= bit;
    if (!isNew && a.u.u)
      for (unsigned i = 0; i < count_; ++i)
        if (const TegulaArg &b = *seen_[i].arg; b.u.u == a.u.u && seen_[i].pointee == pointee && b.u2.extent == a.u2.extent && !(a.flags & b.flags & TEGULA_ARG_READ_ONLY))
          return static_cast<int>(seen_[i].parameter);
    if (count_ < most) seen_[count_++] = {&a, parameter, pointee};
    return -1;
  }

private:
  static constexpr unsigned most = 64; // what comes later is taken for a buffer of its own
  uint64_t bits_ = 0;
  unsigned count_ = 0;
  struct Seen {
    const TegulaArg *arg;
    unsigned parameter;
    TegulaDtype pointee;
  };
  Seen seen_[most];
};

/// The arguments of one call after binding: lives on the stack, nothing in it is initialized beyond the counts.
struct BoundCall {
  static constexpr unsigned maxLeaves = 256, maxWords = 3 * maxLeaves;
  const TegulaArg *leaves[maxLeaves];
  uint64_t words[maxWords];
  unsigned leafCount = 0, wordCount = 0;
  bool wide = false; // some pointer is big, or the options say so
  bool nulls = false; // set before bind(): of launches with null pointers, for which there is one form whatever the addresses are and however big the tensors

  uint64_t hash() const {
    uint64_t h = wordCount;
    for (unsigned i = 0; i < wordCount; ++i) h = (h ^ words[i]) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
    return h;
  }
};

/// Binds arguments to the parameters: flattens tuples, fills defaults in, makes the key. On failure the last error is set.
bool bind(TegulaFunction &f, const TegulaArg *args, size_t count, const CompileOptions &options, BoundCall &out);
/// What sema needs for the same arguments, one per parameter. `f.params()` and `args` must have passed bind().
/// `nulls`: as in BoundCall.
std::vector<sema::ParamSpec> specsOf(TegulaFunction &f, const TegulaArg *args, size_t count, bool nulls = false);
/// "x:*fp32:16, out:*fp32:16:x, n:i32, BLOCK:1024": `out` is the buffer of `x`.
std::string signatureText(const std::vector<Param> &params, const std::vector<sema::ParamSpec> &specs);
/// Exact text of the specs for the cache key.
std::string specKey(const std::vector<sema::ParamSpec> &specs);
/// The arguments of a kernel that was compiled, flattened into `leaves` (BoundCall::maxLeaves of them), PackItem::leaf numbers them. False with the last
/// error set if one of them breaks a fact that the kernel was specialized on.
bool matchArgs(const TegulaKernel &k, const TegulaArg *args, size_t count, const TegulaArg **leaves);
/// By argument of a kernel: values of integers (others 0), bytes behind pointers (-1: unknown, or no pointer). `leaves` as of matchArgs.
struct LaunchNumbers {
  std::vector<int64_t> values, extents;
  LaunchNumbers(const TegulaKernel &k, const TegulaArg *const *leaves);
};
/// Number of leaves a spec takes, in the order bind() makes them.
uint32_t leavesOf(const sema::ParamSpec &spec);

} // namespace tegula::api
