// Elementary functions on float and double.
#include "targets/cpu/VecUtil.h"

namespace tegula::cpu {

using ir::OpKind;
using V = llvm::Value *;

V emitMath(VecEmitter &v, OpKind kind, V x) {
  Arith a(v);
  switch (kind) {
  case OpKind::Rsqrt: return a.b.CreateFDiv(a.f(x, 1), a.b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x));
  default: llvm_unreachable("not an elementary function");
  }
}

} // namespace tegula::cpu
