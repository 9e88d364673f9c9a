// Divides the bits of a nest's iteration space into lanes of a vector, unrolled copies, and loops.
//
// From the lowest bit on: lanes, copies, loops (one per dimension, the outermost dimension outside). The dimension that
// is reduced or scanned is the innermost loop unless the lanes cover it already.
// Nests that transpose (EmitTranspose.cpp) have lanes of two dimensions, and those that pack a panel for a dot
// have loops over the panel's blocks outside.
#include "targets/cpu/emit/Emitter.h"

namespace tegula::cpu {

/// Lays out one nest, for FunctionEmitter::layOut().
class NestLayOut {
public:
  NestLayOut(FunctionEmitter &emitter, NestState &state)
      : e_(emitter), n(state), nest_(*state.nest), taken_(bitCount(nest_.space), false) {}
  void run();

private:
  unsigned laneBits() const;
  void chooseLanes();
  std::optional<unsigned> turnedDim() const;
  bool hasCopies() const;
  void chooseCopies();
  void addLoop(unsigned from, unsigned bits);
  void addDim(unsigned d) { addLoop(dimOffset(nest_.space, d), dimBits(nest_.space, d)); }
  void addPanelLoops();
  void addLoops();
  unsigned total() const { return static_cast<unsigned>(taken_.size()); }
  // the columns of programs that run at once are a row's highest bits
  unsigned groupBits() const { return log2Exact(static_cast<uint64_t>(e_.plan_.group->size)); }

  FunctionEmitter &e_;
  NestState &n;
  const Nest &nest_;
  std::vector<bool> taken_; // bits that are no loop's
  Bits packed_;             // lanes of a nest that turns memory around; empty: it does not
  unsigned vectorBits_ = 0; // of packed_, those of one vector
  std::optional<unsigned> turned_;
};

// The number of lane bits: as many elements as fill a vector with the widest elements that the roots use, of 16 bits at
// least, and of 32 bits at most unless they are reduced.
unsigned NestLayOut::laneBits() const {
  if (nest_.sequential)
    return 0;
  unsigned bits = 8;
  for (const Root &r : nest_.roots) {
    const bool reduces = r.op && r.op->kind == ir::OpKind::Reduce;
    for (const ir::Value *v : r.asked())
      if (reduces)
        bits = std::max(bits, ir::bitWidth(v->type.elem));
      else if (!v->type.isPtr && !v->type.isVoid())
        bits = std::max(bits, std::min(32u, ir::bitWidth(v->type.elem)));
  }
  const unsigned lanes = log2Exact(std::max(1u, e_.state_.target.vectorBits / std::max(bits, 16u)));
  return std::min(lanes, total());
}

void NestLayOut::chooseLanes() {
  n.laneBits = laneBits();
  // a loop is no function of vectors: the axis in order
  if (nest_.isOnly(RootKind::Scan) && e_.plan_.regions.contains(nest_.roots[0].op->regions[0]))
    n.laneBits = std::min(n.laneBits, dimOffset(nest_.space, static_cast<unsigned>(nest_.axis)));
  if (n.laneBits == 0)
    e_.state_.notVectorized(nest_);
  packed_ = e_.packingLanes(nest_, vectorBits_);
  const Bits lanes = packed_.empty() ? identityBits(n.laneBits) : packed_;
  n.laneBits = static_cast<unsigned>(lanes.size());
  if (!packed_.empty() && vectorBits_ < n.laneBits) {
    bool inRow = true;
    for (unsigned i = vectorBits_; i < n.laneBits; ++i)
      inRow &= lanes[i] == lanes[vectorBits_] + static_cast<BitSource>(i - vectorBits_);
    if (inRow) {
      n.vectorBits = vectorBits_;
      n.vectors = {static_cast<unsigned>(lanes[vectorBits_]), n.laneBits - vectorBits_};
    }
  }
  for (unsigned i = 0; i < n.laneBits; ++i) {
    n.laneOf[static_cast<size_t>(lanes[i])] = static_cast<int>(i);
    taken_[static_cast<size_t>(lanes[i])] = true;
  }
}

// The dimension that a transposing store walks first, along its own rows: partly written lines would conflict in few
// cache sets, as rows are often some KiB apart. A copy of columns does the same.
std::optional<unsigned> NestLayOut::turnedDim() const {
  if (packed_.empty())
    return {};
  const auto bit = static_cast<unsigned>(packed_[0]);
  const bool copiesColumns = !nest_.panelDepthBits && vectorBits_ == n.laneBits && bit >= nest_.columnBits();
  if (nest_.roots[0].kind != RootKind::Store && !copiesColumns)
    return {};
  for (unsigned d = 0; d < nest_.space.rank(); ++d)
    if (unsigned from = dimOffset(nest_.space, d); bit >= from && bit < from + dimBits(nest_.space, d))
      return d;
  return {};
}

bool NestLayOut::hasCopies() const {
  return (!nest_.sequential && !nest_.isOnly(RootKind::Scan) && n.laneBits) || nest_.isOnly(RootKind::Histogram);
}

// Unrolled copies: the bits above the lanes, inside one dimension, while the body stays small.
void NestLayOut::chooseCopies() {
  unsigned work = 0;
  for (const Root &r : nest_.roots)
    work += r.kind == RootKind::Reduce ? 4 : 3;
  unsigned want = work <= 6 ? 2 : work <= 12 ? 1 : 0, dimEnd = 0, from = 0;
  if (turned_) // on along what is written
    from = dimOffset(nest_.space, *turned_);
  while (from < total() && taken_[from])
    ++from;
  for (unsigned d = nest_.space.rank(); d-- > 0 && dimEnd <= from;)
    dimEnd = dimOffset(nest_.space, d) + dimBits(nest_.space, d);
  if (e_.plan_.groupsColumns() && from < nest_.columnBits()) // inside of one program
    dimEnd = nest_.columnBits() - groupBits();
  if (!packed_.empty())
    // chunks of several vectors; copies of one each
    want = n.laneBits > 6 ? 0 : turned_ && nest_.roots[0].kind != RootKind::Store ? 2 : 1;
  constexpr unsigned registers = 3; // eight, as all of them are under masks in a row's last trip
  if (n.byRow && from <= nest_.columnBits() && nest_.columnBits() - from <= registers) // the whole row
    want = nest_.columnBits() - from;
  if (nest_.panelDepthBits) {
    const bool alongRow = from < nest_.columnBits();
    dimEnd = alongRow ? nest_.panelColumnBits : nest_.columnBits() + nest_.panelDepthBits;
    if (alongRow && n.laneBits <= 6) // whole rows of the panel
      want = std::max(want, dimEnd - std::min(from, dimEnd));
  }
  for (unsigned i = from; i < std::min(dimEnd, from + want); ++i)
    n.unrolled.push_back(i);
  // Four rows beside one another where what they have in common would not stay in L1 beside what passes by. Else one
  // row after the other, as memory is read best.
  const unsigned axisBits = nest_.axis >= 0 ? dimBits(nest_.space, static_cast<unsigned>(nest_.axis)) : 0;
  if (bytesInCommon(nest_) > e_.state_.target.l1Bytes / 2 && axisBits > n.laneBits + want)
    for (unsigned i = axisBits; i < std::min(total(), axisBits + 2); ++i)
      n.unrolled.push_back(i);
  for (unsigned i : n.unrolled)
    taken_[i] = true;
}

// A loop over what is left of these bits, inside of those that are there.
void NestLayOut::addLoop(unsigned from, unsigned bits) {
  while (bits && taken_[from]) {
    ++from;
    --bits;
  }
  while (n.ofOneProgram && bits && taken_[from + bits - 1])
    --bits;
  if (!bits)
    return;
  for (unsigned i = from; i < from + bits; ++i)
    n.loopOf[i] = static_cast<int>(n.loops.size());
  n.loops.push_back({from, bits});
}

// The loops over panels, then those inside of one.
void NestLayOut::addPanelLoops() {
  const unsigned columns = nest_.columnBits();
  addLoop(columns + nest_.panelDepthBits, total() - columns - nest_.panelDepthBits);
  addLoop(nest_.panelColumnBits, columns - nest_.panelColumnBits);
  n.panel->loops = static_cast<unsigned>(n.loops.size());
  addLoop(columns, nest_.panelDepthBits);
  addLoop(0, nest_.panelColumnBits);
  if (n.loops.size() == n.panel->loops) // one trip
    n.loops.push_back({columns, 0});
  else if (unsigned first = n.loops.back().firstBit; first >= columns && (1u << (first - columns)) == n.panel->kGroup)
    n.panel->depth = n.panel->kGroup; // chunks of more rows are turned around by shuffles, which need the registers
}

void NestLayOut::addLoops() {
  const unsigned axis = nest_.axis >= 0 ? static_cast<unsigned>(nest_.axis) : nest_.space.rank();
  const unsigned axisBits = nest_.axis >= 0 ? dimBits(nest_.space, axis) : 0;
  const bool flat = nest_.space.rank() > 4; // hypercubes: one loop over all small dimensions
  if (nest_.panelDepthBits) {
    addPanelLoops();
  } else if (flat && axisBits) {
    const unsigned from = dimOffset(nest_.space, axis);
    addLoop(from + axisBits, total() - from - axisBits);
    addLoop(0, from);
  } else if (flat) {
    addLoop(0, total());
  } else {
    for (unsigned d = 0; d < nest_.space.rank(); ++d)
      if (d != axis && d != turned_)
        addDim(d);
    if (turned_)
      addDim(*turned_);
  }
  if (axisBits)
    addDim(axis);
}

void NestLayOut::run() {
  n.loopOf.assign(total(), -1);
  n.laneOf.assign(total(), -1);
  chooseLanes();
  if (n.ofOneProgram)
    for (unsigned i = nest_.columnBits() - groupBits(); i < nest_.columnBits(); ++i)
      taken_[i] = true;
  turned_ = turnedDim();
  if (hasCopies())
    chooseCopies();
  addLoops();
  n.loops.reserve(n.loops.size() + 1); // apart(), while others are open
  n.memo.resize(n.loops.size() + 1);
  n.addressMemo.resize(n.loops.size() + 1);
}

void FunctionEmitter::layOut(NestState &n) { NestLayOut(*this, n).run(); }

} // namespace tegula::cpu
