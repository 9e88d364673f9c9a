// device_print, device_assert, and the table of places in the source that run-time reports refer to.
#include "targets/nvidia/Lower.h"

namespace tegula::nvidia {

using ir::OpKind;
using targets::Site;

int Lowering::siteOf(const Op &op) {
  auto [it, isNew] = sites_.try_emplace(&op, static_cast<int>(meta_.sites.size()));
  if (!isNew)
    return it->second;
  Site s;
  s.kind = op.kind == OpKind::Load     ? Site::Kind::Load
           : op.kind == OpKind::Store  ? Site::Kind::Store
           : op.kind == OpKind::Print  ? Site::Kind::Print
           : op.kind == OpKind::Assert ? Site::Kind::Assert
           : op.kind == OpKind::AtomicRmw || op.kind == OpKind::AtomicCas ? Site::Kind::Atomic
                                                                           : Site::Kind::Other;
  if (op.loc) {
    LineCol at = op.loc.file->lineCol(op.loc.begin);
    s.file = op.loc.file->name();
    s.line = at.line;
    s.column = at.col;
  }
  s.function = op.inlinedAt >= 0 ? m_.inlineSites[static_cast<size_t>(op.inlinedAt)].callee : source_->name;
  if (s.kind == Site::Kind::Assert) {
    s.text = op.strAttr("message");
    if (auto f = op.strAttr("function"); !f.empty())
      s.function = f;
  } else if (s.kind == Site::Kind::Print) {
    s.text = op.strAttr("prefix");
    s.hex = op.intAttr("hex") != 0;
    auto signs = op.listAttr("signs");
    for (size_t i = 0; i < op.operands.size(); ++i)
      s.operands.push_back({op.operands[i]->type, i < signs.size() ? signs[i] != 0 : true});
  } else if (s.kind != Site::Kind::Other) {
    s.arg = baseArgument(op.operands[0]);
  }
  meta_.sites.push_back(std::move(s));
  return it->second;
}

void Lowering::print(const Op &op) {
  in_->setSite(siteOf(op));
  auto one = [&](int operand, V index, V x, V owns) {
    ifThen(owns, [&] {
      V bits = bitsOf(x);
      in_->print(operand, index, b_.CreateZExtOrTrunc(bits, b_.getInt64Ty()), {}, {});
    });
  };
  if (op.operands.empty())
    ifThen(ownsElements(0), [&] { in_->print(-1, b_.getInt64(0), b_.getInt64(0), {}, {}); });
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const ir::Type &t = op.operands[k]->type;
    const Regs &x = get(op.operands[k]);
    for (unsigned r = 0; r < x.size(); ++r)
      one(static_cast<int>(k), t.isScalar() ? b_.getInt64(0) : b_.CreateZExt(flatIndex(t.layout, r), b_.getInt64Ty()), x[r],
          ownsElements(t.layout));
  }
}

void Lowering::assertion(const Op &op) {
  in_->setSite(siteOf(op));
  V bad = nullptr;
  const Regs &x = get(op.operands[0]);
  for (unsigned r = 0; r < x.size(); ++r) {
    V b = b_.CreateNot(x[r]);
    if (op.operands.size() > 1)
      b = b_.CreateAnd(b, get(op.operands[1])[r]);
    bad = bad ? b_.CreateOr(bad, b) : b;
  }
  ifThen(bad, [&] { in_->assertFail(record_); });
}

} // namespace tegula::nvidia
