// tl.extra.cuda (LANGUAGE 3.10): what a program asks of the GPU it runs on. On other devices the same calls have the
// nearest meaning, so that a kernel that uses them runs everywhere.
#include "lang/builtins/Args.h"
#include "lang/builtins/Families.h"

namespace tegula::lang {

namespace {

using ir::OpKind;

Value number(BuiltinCall &call, OpKind kind, Scalar type) {
  return tensor(dtype(type), call.b().create1(kind, {}, irType(dtype(type), {})));
}
Value globalTimer(BuiltinCall &call) { return number(call, OpKind::Clock, Scalar::Int64); }
Value smId(BuiltinCall &call) { return number(call, OpKind::SmId, Scalar::Int32); }

Value numWarps(BuiltinCall &call) { return Value::integer(call.ctx.target().numWarps); }
Value numThreads(BuiltinCall &call) { return Value::integer(call.ctx.target().numWarps * 32); }

template <OpKind Kind> Value event(BuiltinCall &call) {
  call.b().create(Kind, {}, {});
  return Value::none();
}

/// The language's own cast supports fp8e4b15 on every target.
Value convertFloat8(BuiltinCall &call) {
  Args a(call, "convert_custom_float8");
  std::optional<Dtype> to = a.type(1, "dst_ty");
  return to ? cast(call.ctx, a[0], *to, a.loc(0)) : Value::error();
}

constexpr const char *conversion = "arg, dst_ty, fp_downcast_rounding=None";

constexpr Builtin rows[] = {
    {"extra.cuda.globaltimer", "", globalTimer, 0, "A clock in nanoseconds, int64."},
    {"extra.cuda.smid", "", smId, 0, "The multiprocessor that runs the program, int32; 0 where there are none."},
    {"extra.cuda.num_warps", "", numWarps, 0, "`num_warps` of the launch, at compile time."},
    {"extra.cuda.num_threads", "", numThreads, 0, "Threads of a program, at compile time."},
    {"extra.cuda.gdc_wait", "", event<OpKind::GridWait>, 0,
     "With launch_pdl: waits until the kernel before in the stream has ended and what it wrote is visible."},
    {"extra.cuda.gdc_launch_dependents", "", event<OpKind::GridLaunch>, 0,
     "With launch_pdl: the next kernel of the stream may start once all programs have said so or ended."},
    {"extra.cuda.convert_custom_float8_sm70", conversion, convertFloat8, 0, "A cast from or to fp8e4b15."},
    {"extra.cuda.convert_custom_float8_sm80", conversion, convertFloat8, 0, "A cast from or to fp8e4b15."},
};

} // namespace

std::span<const Builtin> cudaBuiltins() { return rows; }

} // namespace tegula::lang
