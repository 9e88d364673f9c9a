// sema: instantiates a kernel. The language is a partial evaluator: a kernel is a template over argument types,
// facts and compile-time values; instantiate() runs the compile-time part and leaves tile IR for the rest.
#pragma once
#include "lang/Builtin.h"
#include "sema/Module.h"

namespace tegula::sema {

/// How one parameter of the kernel is bound for this instantiation.
struct ParamSpec {
  enum class Kind : uint8_t { Runtime, Constexpr, Tuple } kind = Kind::Constexpr;
  // Runtime
  lang::Dtype dtype;
  int64_t divisibility = 1; // of the value, or of the address in bytes (1 = nothing known; usually 16)
  // of a parameter that is a pointer: an earlier one of its type that is the same address (not of one itself); -1: none
  int32_t sameAs = -1;
  // of a pointer: those with one number, items of tuples too, may be of memory that overlaps in any way; 0: of memory
  // of its own
  int32_t overlap = 0;
  // Constexpr (None, ints equal to 1, functions, dtypes, strings...)
  lang::Value value;
  // Tuple or namedtuple
  std::vector<ParamSpec> items;
  std::shared_ptr<const lang::RecordClass> recordClass; // null for a plain tuple

  /// A tensor descriptor of blocks of `block`; extents and strides (not the last) divisible by `divisibility`.
  static ParamSpec descriptor(lang::Dtype element, const ir::Shape &block, bool nan, int64_t divisibility = 1,
                              bool tf32 = false);
  bool isDescriptor() const { return recordClass && recordClass->kind == lang::RecordClass::Kind::Descriptor; }
  static ParamSpec runtime(lang::Dtype d, int64_t div = 1) {
    ParamSpec p;
    p.kind = Kind::Runtime;
    p.dtype = d;
    p.divisibility = div;
    return p;
  }
  static ParamSpec constant(lang::Value v) { ParamSpec p; p.value = std::move(v); return p; }
};

/// Is every ParamSpec::sameAs what it says, an earlier pointer of that type, and of parameters only, and every overlap
/// a pointer's that is the same as no other? For what comes from files.
bool sameAsFits(std::span<const ParamSpec> params);

/// Of a descriptor, as signatures have it: "tensordesc<fp16[128, 64]>", and after it ":nan" for that padding, ":tf32"
/// for that rounding.
std::string descriptorText(const ParamSpec &p);

struct Options {
  lang::TargetInfo target;
  unsigned maxCallDepth = 200;      // nested calls of jit functions while instantiating
  uint64_t maxSteps = 5'000'000;   // statements and expressions evaluated; a limit against runaway compile-time loops
  uint64_t maxOps = 1 << 17;       // operations of a module: what unrolled loops and inlined helpers make together
  bool annotate = false;            // record what --emit tree shows
};

struct Instantiation {
  /// The kernel and the noinline helpers it calls; null on error (reported).
  std::unique_ptr<ir::Module> module;
  /// With Options::annotate: the instantiated syntax tree, each expression with its type or compile-time value, pruned
  /// arms left out.
  std::string tree;
  /// What static_print wrote, in order.
  std::string staticOutput;
};

/// Instantiates `kernel`: `params` must have one entry per parameter, in order (a *args parameter takes a Tuple). The
/// IR kernel has one argument per Runtime spec (tuples flattened), named after the parameter ("x", "t.0", "t.field").
/// Thread-safe: only the immutable Function/Module objects are shared.
Instantiation instantiate(const std::shared_ptr<const lang::Function> &kernel, std::span<const ParamSpec> params,
                          const Options &options, DiagEngine &diag);

/// An error in one of the language's own files, which are not the user's, moved to where the user called it.
Diagnostic atUsersLine(Diagnostic d);

/// `tegula check`: reports everything that can be said about a file without argument types (undefined names,
/// unsupported constructs in jit functions, wrong keywords of builtins). `strict`: what Triton does not have is
/// unsupported too.
void checkModule(const lang::Module &module, bool strict, DiagEngine &diag);

} // namespace tegula::sema
