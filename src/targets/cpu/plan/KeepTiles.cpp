// See KeepTiles.h.
#include "targets/cpu/plan/KeepTiles.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/MathExtras.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;

static bool reads(const ir::Value *v, const Uses &uses, llvm::SmallPtrSetImpl<const ir::Value *> &seen) {
  if (!v->def || !seen.insert(v).second)
    return true;
  const Op &op = *v->def;
  if (op.kind == OpKind::Load && !uses.mayBeReadEarlier(op))
    return false;
  if (!v->type.isTensor() && op.kind != OpKind::Load)
    return true;
  return llvm::all_of(op.operands, [&](const ir::Value *x) { return reads(x, uses, seen); });
}

static bool waits(const Steps &all) {
  return llvm::any_of(all, [](const Step &s) {
    return (s.kind == StepKind::While && waitsForMemory(*s.op)) || llvm::any_of(s.bodies, waits);
  });
}

static void dotsThatKeep(Steps &all, const Uses &uses, llvm::SmallVectorImpl<Step *> &out,
                         llvm::SmallVectorImpl<Step *> &left) {
  constexpr int64_t leastRows = 16; // with less the multiply-adds are not what takes the time
  for (Step &s : all) {
    llvm::SmallPtrSet<const ir::Value *, 16> seen;
    // The initial values of a loop do not determine its carried values and results.
    auto told = [](const ir::Value *v) { return v->def && v->def->regions.empty(); };
    if (s.kind == StepKind::Dot && s.dot->byPanel && s.dot->m >= leastRows && told(s.op->operands[1]) &&
        reads(s.op->operands[1], uses, seen))
      out.push_back(&s);
    seen.clear();
    if (s.kind == StepKind::Dot && s.left && s.dot->byPanel && s.dot->m >= leastRows && told(s.op->operands[0]) &&
        reads(s.op->operands[0], uses, seen))
      left.push_back(&s);
    for (Steps &body : s.bodies)
      dotsThatKeep(body, uses, out, left);
  }
}

void keepTiles(Plan &p, const Uses &uses, const CpuTarget &target) {
  llvm::SmallVector<Step *, 4> dots, lefts;
  if (p.function->isKernel && !p.group && !uses.learnsOfOthers() && !waits(p.steps))
    dotsThatKeep(p.steps, uses, dots, lefts);
  constexpr uint64_t mostBytes = 4 << 20;
  const uint64_t most = std::min(mostBytes, std::max(target.l2Bytes, target.l3Bytes / 8));
  // what is packed of A should stay in L2; but many tiles of 64 rows are a little more
  constexpr uint64_t mostSlots = 256, leastSlots = 4, mostLeftBytes = 2 << 20, manySlots = 64;
  for (Step *s : lefts) { // what is written in any case, whether tiles are packed or not: on pages that are used anyway
    KeptLeft &k = s->keptLeft;
    k.tileBytes = llvm::alignTo(static_cast<uint64_t>(s->dot->aElems) * ir::byteWidth(s->dot->aElem), KeptTiles::line);
    const uint64_t slots =
        std::min({mostSlots, most / lefts.size() / k.tileBytes, std::max(manySlots, mostLeftBytes / k.tileBytes)});
    if (slots < leastSlots)
      continue;
    k.slots = static_cast<unsigned>(slots);
    k.state = llvm::alignTo(p.scratchBytes, KeptTiles::line);
    k.from = k.state + (KeptLeft::Last + KeptLeft::rowSets + slots) * KeptTiles::wordBytes;
    p.scratchBytes = k.from + slots * KeptTiles::words * KeptTiles::wordBytes;
  }
  for (Step *s : dots) {
    const DotPlan &d = *s->dot;
    const uint64_t tile = static_cast<uint64_t>(d.n * d.k) * ir::byteWidth(d.bElem), all = most / dots.size();
    KeptTiles &k = s->kept;
    k.count = static_cast<int64_t>(all / tile);
    if (k.count == 0)
      continue;
    k.state = llvm::alignTo(p.scratchBytes, KeptTiles::line);
    k.from = k.state + (KeptTiles::Last + KeptTiles::words) * KeptTiles::wordBytes;
    k.tiles = llvm::alignTo(k.from + static_cast<uint64_t>(k.count) * KeptTiles::words * KeptTiles::wordBytes,
                            KeptTiles::line);
    p.scratchBytes = k.tiles + static_cast<uint64_t>(k.count) * tile;
    p.keeps = true;
  }
  for (Step *s : lefts) {
    KeptLeft &k = s->keptLeft;
    if (!k.slots)
      continue;
    k.tiles = llvm::alignTo(p.scratchBytes, KeptTiles::line);
    p.scratchBytes = k.tiles + k.slots * k.tileBytes;
    p.keeps = true;
  }
  if (!p.keeps)
    return;
  // Room in front for the launch's number.
  p.scratchBytes += KeptTiles::line;
  for (Buffer &b : p.buffers)
    b.offset += KeptTiles::line;
  for (Step *s : dots)
    for (uint64_t *at : {&s->kept.state, &s->kept.from, &s->kept.tiles})
      *at += KeptTiles::line;
  for (Step *s : lefts)
    for (uint64_t *at : {&s->keptLeft.state, &s->keptLeft.from, &s->keptLeft.tiles})
      *at += KeptTiles::line;
}

} // namespace tegula::cpu
