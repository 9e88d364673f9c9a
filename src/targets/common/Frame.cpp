// See Frame.h.
#include "targets/common/Frame.h"
#include "support/Bits.h"
#include "targets/Diagnostics.h"

namespace tegula::targets {

bool checkExtents(const ir::Block &b, DiagEngine &diag) {
  for (const ir::Op *op : b.ops) {
    for (const ir::Value *v : op->results)
      for (int32_t d : v->type.shape)
        if (!isPowerOfTwo(d)) {
          diag.report(diag::extentNotPowerOfTwo, op->loc, ir::str(v->type));
          return false;
        }
    for (const ir::Region *r : op->regions)
      if (r->block && !checkExtents(*r->block, diag))
        return false;
  }
  return true;
}

Site siteAt(const ir::Module &m, const ir::Op &op, Site::Kind kind, const std::string &kernel) {
  Site s;
  s.kind = kind;
  if (op.loc) {
    LineCol at = op.loc.file->lineCol(op.loc.begin);
    s.file = op.loc.file->name();
    s.line = at.line;
    s.column = at.col;
  }
  s.function = op.inlinedAt >= 0 ? m.inlineSites[static_cast<size_t>(op.inlinedAt)].callee : kernel;
  if (kind == Site::Kind::Assert) {
    s.text = op.message();
    if (auto f = op.inFunction(); !f.empty())
      s.function = f;
  } else if (kind == Site::Kind::Print) {
    s.text = op.prefix();
    s.hex = op.hex();
    auto signs = op.signs();
    for (size_t i = 0; i < op.operands.size(); ++i)
      s.operands.push_back({op.operands[i]->type, i < signs.size() ? signs[i] != 0 : true});
  }
  return s;
}

} // namespace tegula::targets
