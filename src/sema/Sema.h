// sema instantiates a kernel. The language is a partial evaluator: a kernel is a template over argument types, facts
// and compile-time values; instantiate() runs the compile-time part and leaves tile IR for the rest.
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
  // of a pointer parameter: an earlier parameter of its type with the same address (whose own sameAs is -1); -1: none
  int32_t sameAs = -1;
  // of a pointer: pointers with equal numbers, items of tuples included, may overlap in any way; 0: memory of its own
  int32_t overlap = 0;
  // Constexpr (None, ints equal to 1, functions, dtypes, strings...)
  lang::Value value;
  // Tuple or namedtuple
  std::vector<ParamSpec> items;
  std::shared_ptr<const lang::RecordClass> recordClass; // null for a plain tuple

  /// A tensor descriptor with blocks of shape `block`; its extents and strides (except the last) are divisible by
  /// `divisibility`.
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

/// Is every ParamSpec::sameAs valid (only of parameters, an earlier pointer of the same type), and is every overlap on
/// a pointer without sameAs? For specs read from files.
bool sameAsFits(std::span<const ParamSpec> params);

/// A descriptor in a signature: "tensordesc<fp16[128, 64]>", followed by ":nan" for that padding, ":tf32" for that
/// rounding.
std::string descriptorText(const ParamSpec &p);

struct Options {
  lang::TargetInfo target;
  unsigned maxCallDepth = 200;      // nested calls of jit functions while instantiating
  uint64_t maxSteps = 5'000'000;   // statements and expressions evaluated; a limit against runaway compile-time loops
  uint64_t maxOps = 1 << 17;       // operations of a module: of all unrolled loops and inlined helpers together
  bool annotate = false;            // record the output of --emit tree
};

struct Instantiation {
  /// The kernel and the noinline helpers it calls; null on error (reported).
  std::unique_ptr<ir::Module> module;
  /// With Options::annotate: the instantiated syntax tree, each expression with its type or compile-time value, without
  /// pruned arms.
  std::string tree;
  /// The output of static_print, in order.
  std::string staticOutput;
};

/// Instantiates `kernel`: `params` must have one entry per parameter, in order (a *args parameter takes a Tuple). The
/// IR kernel has one argument per Runtime spec (tuples flattened), named after the parameter ("x", "t.0", "t.field").
/// Thread-safe: only the immutable Function/Module objects are shared.
Instantiation instantiate(const std::shared_ptr<const lang::Function> &kernel, std::span<const ParamSpec> params,
                          const Options &options, DiagEngine &diag);

/// Moves an error in one of the language's own files, which are not the user's, to the location of the user's call.
Diagnostic atUsersLine(Diagnostic d);

/// `tegula check`: reports everything that can be diagnosed in a file without argument types (undefined names,
/// unsupported constructs in jit functions, wrong keywords of builtins). `strict`: features that Triton lacks are
/// unsupported too.
void checkModule(const lang::Module &module, bool strict, DiagEngine &diag);

} // namespace tegula::sema
