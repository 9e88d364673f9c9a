// The table of functions that the language implements in C++ (everything composite is library text, src/lib/*.py).
//
// One row per function: its Python signature as text (parsed once), its handler, its flags. sema binds arguments by the
// signature and calls the handler with one Value per parameter. Each family has a file (lang/builtins/Math.cpp, ...)
// that defines a `std::span<const Builtin> mathBuiltins()`; lang/Builtin.cpp joins them into the name table.
#pragma once
#include "ir/Builder.h"
#include "lang/Level.h"
#include "lang/Value.h"
#include "support/Diag.h"
#include <optional>
#include <span>
#include <string_view>

namespace tegula::lang {

/// Hint for features that only Python execution supports: stop in a debugger, print a tile, call any function.
inline constexpr std::string_view interpreterHint =
    "in the interpreter ($TEGULA_INTERPRET=1, tegula.interpret()) Python runs the kernel, and this works";

/// The properties of the target that the language depends on.
struct TargetInfo {
  std::string name = "cpu";       // cpu | cuda
  int cudaCapability = 0;         // 90 for sm_90
  std::string defaultDotPrecision = "ieee"; // of fp32 dots: "tf32" on GPUs
  std::vector<std::string> dotPrecisions = {"ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"};
  bool debug = false;             // device_assert active
  bool sanitizeOverflow = true;   // with debug: overflow asserts on int add, sub, mul and minus
  bool fpFusion = true;
  int numWarps = 4;               // as requested at the launch, on CPUs too
  Level level = latestLevel;
  bool strict = false; // rejects extensions that Triton does not have, as Triton does
};

/// What handlers need besides their arguments: the builder, the diagnostics, the target, and callbacks into sema.
class Context {
public:
  virtual ~Context() = default;
  ir::Builder &builder() { return builder_; }
  DiagEngine &diag() { return diag_; }
  const TargetInfo &target() const { return target_; }
  /// Records the use of an extension that Triton does not have: a remark with the portable spelling, once per place.
  template <typename... Args> void extension(const DiagKind &remark, Loc loc, Args &&...args) {
    extensions_.report(remark, loc, std::forward<Args>(args)...);
  }
  const DiagEngine &extensions() const { return extensions_; }
  /// Calls a language-level callable (jit function, builtin, library function) at the current insertion point.
  virtual Value call(const Value &callee, std::span<const Value> args, Loc loc) = 0;
  /// Calls a library function by name (`lib("cdiv")`), see src/lib.
  virtual Value libraryFunction(std::string_view name) = 0;
  /// Output of static_print.
  virtual void staticPrint(std::string text, Loc loc) = 0;
  /// `object.name` including attributes that sema defines (modules, functions); the default has lang's own (Ops.h).
  virtual std::optional<Value> objectAttribute(const Value &object, std::string_view name, Loc loc);
  /// Name of the function being instantiated, for device_assert's message.
  virtual std::string currentFunction() const { return {}; }
  /// Whether that function is marked `exact`: its products and sums are never fused, and its integers are not checked
  /// for overflow.
  virtual bool isExact() const { return false; }
  /// A hint (attachHint) about `value`, which is loop-carried and so has no defining operation.
  virtual void hintCarried(ir::Value *value, ir::ListKey key, std::vector<int64_t> values);

protected:
  Context(ir::Builder &b, DiagEngine &d, const TargetInfo &t) : builder_(b), diag_(d), target_(t) {}

private:
  ir::Builder &builder_;
  DiagEngine &diag_;
  const TargetInfo &target_;
  DiagEngine extensions_;
};

struct BuiltinCall {
  Context &ctx;
  Loc loc;                          // of the whole call
  std::span<const Value> args;      // one per parameter of the signature, defaults filled in; *args is a tuple
  std::span<const Loc> argLocs;     // parallel; the call's loc for defaults

  ir::Builder &b() { return ctx.builder(); }
  DiagEngine &diag() { return ctx.diag(); }
};

using BuiltinFn = Value (*)(BuiltinCall &call);

struct Builtin {
  enum Flags : uint8_t { None = 0, Method = 1, MustUse = 2, HostOnly = 4, RawErrors = 8 };
  const char *name;      // "expand_dims"; dotted for submodules: "math.exp" (aliases name the same handler)
  const char *signature; // "input, axis, keep_dims=False, *shape": Python parameter list; defaults are literals
  BuiltinFn fn;
  uint8_t flags;         // Method: also a method of tensors (first parameter is self)
  /// One sentence for docs and stubs.
  const char *doc;
};

/// Parsed signature of a builtin, computed once per process (immutable afterwards).
struct Signature {
  struct Param {
    std::string name;
    bool variadic = false;
    bool keywords = false; // **name: a tuple of (name, value)
    bool hasDefault = false;
    bool keywordOnly = false;
    Value defaultValue = Value::none();
  };
  std::vector<Param> params;
};
const Signature &signatureOf(const Builtin &b);

/// Runs the handler: sets the builder's location; returns Error without a call if an argument is Error. `args` has one
/// value per parameter of the signature.
Value callBuiltin(Context &ctx, const Builtin &b, std::span<const Value> args, std::span<const Loc> argLocs, Loc loc);

/// All builtins in `tl` (names without dots) and its submodules; null if unknown. Prefixes:
///   "math."        tl.math                 "extra.libdevice."  tl.extra.libdevice (and those of cuda, cpu)
///   "target_info." tl.target_info          "python."           Python's own names: len, range, ... (LANGUAGE 1.8)
///   "python.math." the host module `math`, on compile-time numbers
///   "python.str."  methods of compile-time values; also "python.int.", "python.float.", "python.tuple.", "python.dict."
///   "tensor."      method forms that differ from the function (x.exp() takes fp16, x.to is cast)
///   "descriptor."  methods of tensor descriptors
///   "dtype."       methods of dtypes (is_fp8, ...)
const Builtin *findBuiltin(std::string_view name);
/// isinstance(v, cls) where classes and objects may be the host's; nullopt if only the host can decide.
std::optional<bool> isInstance(Context &c, const Value &v, const Value &cls, Loc loc);
/// A builtin that may be called as a method of tensors (row "tensor.<name>", or a row with the Method flag).
const Builtin *findMethod(std::string_view name);
std::span<const Builtin *const> allBuiltins();
/// Names that are not functions: "float32" (a dtype), "TRITON_MAX_TENSOR_NUMEL", "PropagateNan", "tensor", "math.pi"...
/// with the same prefixes as findBuiltin; nullopt if unknown.
std::optional<Value> findConstant(std::string_view name);
/// All names that findConstant() finds.
std::vector<std::string> constantNames();
/// Whether a method of tensors is library text (src/lib): "sum", "softmax", ...
bool isLibraryMethod(std::string_view name);

} // namespace tegula::lang
