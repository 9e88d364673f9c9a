// See WidenDots.h.
#include "targets/nvidia/WidenDots.h"
#include "ir/Builder.h"
#include "targets/nvidia/DotChoice.h"
#include <limits>

namespace tegula::nvidia {

using namespace ir;

namespace {

class Rewriter {
public:
  Rewriter(Module &m, const NvTarget &target) : b_(m), target_(target) {}
  void run(Block &block);

private:
  struct Terms {
    std::string_view precision;
    Elem elem;
    unsigned count;
  };

  bool usesTensorCores(const Op &dot) const {
    DotKind kind = chooseDot(dot, target_, 4).kind;
    return kind == DotKind::Mma || kind == DotKind::AsyncMma;
  }
  bool wantsFp16(const Op &dot) const;
  bool narrow(Op &dot);
  const Terms *termsOf(Op &dot) const;
  void split(Op &dot, const Terms &t);
  std::vector<Value *> parts(Value *v, const Terms &t);
  Value *moved(Value *v, Elem to);

  Builder b_;
  const NvTarget &target_;
};

bool isFloat32(const Op &dot) {
  return dot.operands[0]->type.elem == Elem::F32 && dot.operands[1]->type.elem == Elem::F32;
}

bool Rewriter::wantsFp16(const Op &dot) const {
  return isFp8(dot.operands[0]->type.elem) && isFp8(dot.operands[1]->type.elem) &&
         (dot.precision() == "wide" || !usesTensorCores(dot));
}

/// What `v` was widened from, if its elements only changed places since.
const Value *widenedFrom(const Value *v) {
  while (v->def && (v->def->kind == OpKind::Permute || v->def->kind == OpKind::Reshape ||
                    v->def->kind == OpKind::Broadcast || v->def->kind == OpKind::ExpandDims))
    v = v->def->operands[0];
  if (!v->def || v->def->kind != OpKind::FpExt)
    return nullptr;
  const Value *from = v->def->operands[0];
  return from->type.elem == Elem::F16 || from->type.elem == Elem::BF16 ? from : nullptr;
}

/// `v` as it would be without the widening.
Value *Rewriter::moved(Value *v, Elem to) {
  if (v->def->kind == OpKind::FpExt)
    return v->def->operands[0];
  return b_.create1(v->def->kind, {moved(v->def->operands[0], to)}, v->type.withElem(to), v->def->attrs);
}

/// Products of 16-bit numbers are exact in float32 on either way. True if the operands are narrow now.
bool Rewriter::narrow(Op &dot) {
  const Value *x = widenedFrom(dot.operands[0]), *y = widenedFrom(dot.operands[1]);
  const Shape &s = dot.operands[0]->type.shape;
  if (!x || !y || x->type.elem != y->type.elem || s[s.rank() - 1] < 16)
    return false;
  for (unsigned i = 0; i < 2; ++i)
    dot.operands[i] = moved(dot.operands[i], x->type.elem);
  return true;
}

/// The parts that the dot's operands are split into, if tensor cores then compute it.
const Rewriter::Terms *Rewriter::termsOf(Op &dot) const {
  static constexpr Terms table[] = {{"tf32x3", Elem::F32, 2}, {"bf16x3", Elem::BF16, 2}, {"bf16x6", Elem::BF16, 3}};
  for (const Terms &t : table) {
    if (dot.precision() != t.precision)
      continue;
    dot.set(attr::precision, std::string("tf32"));
    const Shape &s = dot.operands[0]->type.shape;
    bool fits = usesTensorCores(dot) && (t.elem == Elem::F32 || s[s.rank() - 1] >= 16);
    dot.set(attr::precision, std::string(t.precision));
    return fits ? &t : nullptr;
  }
  return nullptr;
}

/// Numbers whose sum is `v` but for what the last one loses, the largest first: one if it was widened from what holds
/// it. Infinity leaves a NaN behind itself.
std::vector<Value *> Rewriter::parts(Value *v, const Terms &t) {
  std::vector<Value *> out;
  if (const Value *from = widenedFrom(v); from && (t.elem == Elem::F32 || from->type.elem == t.elem))
    return {t.elem == Elem::F32 ? v : moved(v, t.elem)};
  for (unsigned i = 0; i < t.count; ++i) {
    Value *wide = v;
    if (t.elem == Elem::BF16) {
      out.push_back(b_.cast(OpKind::FpTrunc, v, Elem::BF16));
      wide = i + 1 < t.count ? b_.cast(OpKind::FpExt, out.back(), Elem::F32) : nullptr;
    } else {
      if (i + 1 < t.count) { // the last one is cut by the instruction
        Value *bits = b_.cast(OpKind::Bitcast, v, Elem::I32);
        wide = b_.cast(OpKind::Bitcast, b_.binary(OpKind::And, bits, b_.constInt(bits->type, ~int64_t(0x1fff))),
                       Elem::F32);
      }
      out.push_back(wide);
    }
    if (i + 1 < t.count)
      v = b_.binary(OpKind::FSub, v, wide);
  }
  return out;
}

void Rewriter::split(Op &dot, const Terms &t) {
  std::vector<Value *> x = parts(dot.operands[0], t), y = parts(dot.operands[1], t);
  std::vector<Attr> attrs = dot.attrs;
  for (Attr &a : attrs)
    if (a.key == attr::precision)
      a.value = std::string("tf32");
  Value *zeros = b_.constFloat(dot.result()->type, 0), *sum = zeros;
  for (unsigned order = t.count - 1; order > 0; --order)
    for (unsigned i = 0; i <= order; ++i)
      if (i < x.size() && order - i < y.size())
        sum = b_.create1(OpKind::Dot, {x[i], y[order - i], sum}, dot.result()->type, attrs);
  // What is not finite comes back with the largest parts, and would meet the infinity of another sign here. (Beside
  // infinity LLVM asks the bits, two instructions.)
  Value *largest = b_.constFloat(sum->type, std::numeric_limits<float>::max());
  sum = b_.select(b_.cmp(CmpPred::Ole, b_.unary(OpKind::FAbs, sum), largest), sum, zeros);
  sum = b_.create1(OpKind::Dot, {x[0], y[0], sum}, dot.result()->type, attrs);
  dot.kind = OpKind::FAdd;
  dot.operands = {dot.operands[2], sum};
  dot.attrs.clear();
}

void Rewriter::run(Block &block) {
  std::vector<Op *> ops;
  ops.swap(block.ops);
  block.ops.reserve(ops.size());
  for (Op *op : ops) {
    for (Region *r : op->regions)
      run(*r->block);
    if (op->kind == OpKind::Dot) {
      b_.setBlock(&block);
      b_.setLoc(op->loc);
      b_.setInlinedAt(op->inlinedAt);
      if (wantsFp16(*op)) {
        for (unsigned i = 0; i < 2; ++i)
          op->operands[i] = b_.cast(OpKind::FpExt, op->operands[i], Elem::F16);
      } else if (isFloat32(*op) && (op->precision() == "tf32" || termsOf(*op)) && !narrow(*op)) {
        if (const Terms *t = termsOf(*op))
          split(*op, *t);
      }
    }
    block.ops.push_back(op);
  }
}

} // namespace

void widenDots(Module &module, const NvTarget &target) {
  for (Function *f : module.functions)
    Rewriter(module, target).run(*f->block());
}

} // namespace tegula::nvidia
