// Do the arguments of a launch satisfy the specialization of a bundle's entry?
#pragma once
#include "runtime/Bundle.h"

namespace tegula::runtime {

/// The run-time arguments of a call, in the order of KernelInfo::args: pointers into the caller's arguments.
struct BundleCall {
  static constexpr unsigned maxArgs = 256;
  const TegulaArg *args[maxArgs];
  unsigned count = 0;
};

/// True: every fact holds, and `call` has the arguments. Otherwise `why`, unless null, names the fact that does not
/// hold ("`n` is not divisible by 16").
bool fits(const BundleRecord &record, const TegulaArg *args, size_t count, BundleCall &call, std::string *why);
/// The number of facts that it assumes: of two entries that fit, the one with more is faster.
unsigned factsOf(const BundleRecord &record);
/// Can code compiled for `general` replace code for `special`: has it the same types and compile-time values, and no
/// fact that `special` lacks?
bool covers(const BundleRecord &general, const BundleRecord &special);
/// The first reason why `general` does not cover `special`, for messages; "" if it does. `count`, unless null: the
/// number of reasons.
std::string differenceOf(const BundleRecord &general, const BundleRecord &special, unsigned *count = nullptr);
/// Tensors with at least that many elements need 64-bit offsets.
constexpr int64_t bundleBigElements = int64_t(1) << 30;

} // namespace tegula::runtime
