// Do the arguments of a launch fit what an entry of a bundle was compiled for?
#pragma once
#include "runtime/Bundle.h"

namespace tegula::runtime {

/// The run-time arguments of a call, in the order of KernelInfo::args: pointers into what the caller gave.
struct BundleCall {
  static constexpr unsigned maxArgs = 256;
  const TegulaArg *args[maxArgs];
  unsigned count = 0;
};

/// True: every fact holds; `call` has the arguments. Else `why`, if it is not null, says which does not ("`n` is not
/// divisible by 16").
bool fits(const BundleRecord &record, const TegulaArg *args, size_t count, BundleCall &call, std::string *why);
/// How many facts it relies on: of two that fit, the one with more is the faster one.
unsigned factsOf(const BundleRecord &record);
/// Can what was compiled for `general` stand in for `special`: has it the same types and compile-time values, and no
/// fact that the other has not?
bool covers(const BundleRecord &general, const BundleRecord &special);
/// The first thing in which `general` is no such thing, for messages; "" if it is.
/// `count`, if it is not null: in how many.
std::string differenceOf(const BundleRecord &general, const BundleRecord &special, unsigned *count = nullptr);
/// From how many elements on a tensor asks for offsets of 64 bits.
constexpr int64_t bundleBigElements = int64_t(1) << 30;

} // namespace tegula::runtime
