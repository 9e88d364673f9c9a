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

/// The arguments of one call after binding: lives on the stack, nothing in it is initialized beyond the counts.
struct BoundCall {
  static constexpr unsigned maxLeaves = 256, maxWords = 3 * maxLeaves;
  const TegulaArg *leaves[maxLeaves];
  uint64_t words[maxWords];
  unsigned leafCount = 0, wordCount = 0;
  bool wide = false; // some pointer is big, or the options say so

  uint64_t hash() const {
    uint64_t h = wordCount;
    for (unsigned i = 0; i < wordCount; ++i) h = (h ^ words[i]) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
    return h;
  }
};

/// Binds arguments to the parameters: flattens tuples, fills defaults in, makes the key. On failure the last error is set.
bool bind(TegulaFunction &f, const TegulaArg *args, size_t count, const CompileOptions &options, BoundCall &out);
/// What sema needs for the same arguments, one per parameter. `f.params()` and `args` must have passed bind().
std::vector<sema::ParamSpec> specsOf(TegulaFunction &f, const TegulaArg *args, size_t count);
/// "x:*fp32:16, n:i32, BLOCK:1024"
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
