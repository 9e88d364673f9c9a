#include "passes/MergeArguments.h"
#include "passes/ArgumentAccess.h"
#include <algorithm>
#include <unordered_map>

namespace tegula {

using ir::ArgInfo;
using ir::Value;

static void replace(const ir::Block &b, const std::unordered_map<const Value *, Value *> &by) {
  for (ir::Op *op : b.ops) {
    for (Value *&v : op->operands)
      if (auto it = by.find(v); it != by.end())
        v = it->second;
    for (const ir::Region *r : op->regions)
      replace(*r->block, by);
  }
}

/// Overlapping pointers without writes through any of them count as distinct.
static void leaveWritten(ir::Function &f, const std::vector<ArgumentAccess> &access) {
  std::unordered_map<int32_t, bool> written;
  auto groupOf = [&](size_t i) {
    return f.argInfo[f.argInfo[i].sameAs >= 0 ? static_cast<size_t>(f.argInfo[i].sameAs) : i].overlap;
  };
  for (size_t i = 0; i < f.argInfo.size(); ++i)
    written[groupOf(i)] |= access[i].writes;
  for (ArgInfo &a : f.argInfo)
    if (!written[a.overlap])
      a.overlap = 0;
}

void mergeArguments(ir::Module &m) {
  ir::Function *f = m.kernel();
  if (!f ||
      std::ranges::none_of(f->argInfo, [](const ArgInfo &a) { return a.overlap || (a.sameAs >= 0 && a.access < 0); }))
    return;
  const std::vector<ArgumentAccess> access = kernelAccess(m);
  leaveWritten(*f, access);
  std::unordered_map<const Value *, Value *> by;
  for (size_t i = 0; i < f->argInfo.size(); ++i) {
    ArgInfo &info = f->argInfo[i];
    if (info.sameAs < 0)
      continue;
    const size_t first = static_cast<size_t>(info.sameAs);
    by[f->block()->args[i]] = f->block()->args[first];
    f->argInfo[first].isConst &= info.isConst;
    for (size_t k : {i, first})
      f->argInfo[k].access = access[k].reads + 2 * access[k].writes;
  }
  replace(*f->block(), by);
}

} // namespace tegula
