// Prefetches of a dot while it multiplies: lines of the next panel of B, of A's next tile, of the result's destination
// (Dot.h, DotEmitter.h).
#include "targets/cpu/emit/DotEmitter.h"
#include <algorithm>
#include <bit>

namespace tegula::cpu {
using V = llvm::Value *;

/// All blocks of rows but the first share the rows of a panel.
int64_t DotEmitter::tripsOfPart() const {
  const int64_t groups = p.kBlock / p.kGroup, trips = groups / unrolled(groups),
                blocks = std::max<int64_t>(1, blocksOfRows(target, p) - 1);
  const int64_t lines = divideUp(p.kBlock, blocks) * static_cast<int64_t>(fetches.size());
  return divideUp(trips, divideUp(lines, mostLines));
}

/// Number of parts of `depth` k; null: of all k.
V DotEmitter::partsOf(V depth) {
  const int64_t unit = tripsOfPart() * unrolled(p.kBlock / p.kGroup) * p.kGroup;
  if (!depth)
    return b.getInt64(static_cast<uint64_t>(divideUp(p.kBlock, unit)));
  return b.CreateUDiv(b.CreateAdd(depth, b.getInt64(static_cast<uint64_t>(unit - 1))),
                      b.getInt64(static_cast<uint64_t>(unit)));
}

int64_t DotEmitter::linesPerPart() const {
  const int64_t groups = p.kBlock / p.kGroup, parts = divideUp(groups / unrolled(groups), tripsOfPart());
  return divideUp(p.kBlock, parts * std::max<int64_t>(1, blocksOfRows(target, p) - 1));
}

/// Fetches `count` of the lines, i64; none if it is 0 or negative.
void DotEmitter::fetch(const PanelFetch &lines, V from, V count) {
  loop(0, count, {{from, 0, lines.stride}}, {}, [&](llvm::ArrayRef<V> at, llvm::ArrayRef<V>) -> llvm::SmallVector<V> {
    prefetch(at[0]);
    return {};
  });
}

void DotEmitter::prefetch(V at) {
  b.CreateIntrinsic(llvm::Intrinsic::prefetch, {b.getPtrTy()}, {at, b.getInt32(0), b.getInt32(2), b.getInt32(1)});
}

void DotEmitter::setHalf(bool half) {
  if (half == isHalf)
    return;
  isHalf = half;
  vectors = half ? vectors / 2 : vectors * 2;
  std::swap(aside.fetches, fetches);
  std::swap(aside.slots, slots);
  std::swap(aside.sequences, sequences);
}

DotEmitter::Pieces DotEmitter::piecesOfLeft(V a, const InPlace &left) const {
  if (left.column && p.aDepthStride != 1)
    return {left.column, left.columnStride, p.kBlock, p.m * aBytes()};
  if (left.column)
    return {left.column, left.columnStride, p.m, p.kBlock * aBytes()};
  return {a, aStride, p.m, p.kBlock * aBytes()};
}

/// Counts the blocks of rows but the first, which is multiplied where the panel is packed.
void DotEmitter::planSlots(llvm::ArrayRef<PanelFetch> right, const InPlace &left, V a, V panel, V near) {
  constexpr int64_t line = 64, mostAtOnce = 2;
  auto number = [&](int64_t x) { return b.getInt64(static_cast<uint64_t>(x)); };
  const int64_t unit = PanelDot::depthUnit(p), trips = p.kBlock / unit,
                blocks = std::max<int64_t>(1, blocksOfRows(target, p) - 1),
                ofRight = unit * static_cast<int64_t>(right.size());
  Slots &s = slots.emplace();
  s.right.assign(right.begin(), right.end());
  s.perEntry = static_cast<unsigned>(unit), s.near = near;
  s.trips = depth ? b.CreateUDiv(depth, number(unit)) : number(trips);
  V none = number(0);
  s.rightSlots = right.empty() ? none : b.CreateSelect(b.CreateICmpSGE(right[0].rows, s.trips), number(ofRight), none);
  int64_t wanted = ofRight;
  const Pieces pieces = piecesOfLeft(a, left);
  const int64_t bytes = pieces.bytes, inRow = std::max<int64_t>(1, bytes / line), groups = pieces.count / trips;
  if (left.next && groups > 0) { // else a block's trips would lead after the tile
    s.groupBits = number(std::countr_zero(static_cast<uint64_t>(groups)));
    wanted += divideUp(inRow * groups, p.n / p.nr);
    // Rows that do not begin with a line end in another one; the first of them is the last of this tile.
    V comes = b.CreateICmpNE(left.next, none), atEnd = number(std::min(bytes, line) - 1);
    s.leftFirst = b.CreateGEP(b.getInt8Ty(), pieces.first, b.CreateAdd(left.next, atEnd)), s.leftStride = pieces.stride;
    s.leftSlots = b.CreateSelect(comes, number(inRow * groups), none);
    // A tile by columns has more of these than the result has rows.
    // In the last round, when there is no next tile (or none of this program), the rows that the result will be stored
    // to: each of these lines is waited for otherwise.
    if (const int64_t ofResult = std::min(groups, p.m / trips); left.result && ofResult > 0) {
      s.leftFirst = b.CreateSelect(comes, s.leftFirst, b.CreateGEP(b.getInt8Ty(), left.result, atEnd));
      s.leftStride = b.CreateSelect(comes, pieces.stride, left.resultStride);
      s.leftSlots = b.CreateSelect(comes, s.leftSlots, number(std::max<int64_t>(1, p.n * cBytes() / line) * ofResult));
      s.groupBits = b.CreateSelect(comes, s.groupBits, number(std::countr_zero(static_cast<uint64_t>(ofResult))));
    }
  }
  const int64_t atOnce = std::clamp<int64_t>(divideUp(wanted, blocks), 1, mostAtOnce);
  s.atOnce = static_cast<unsigned>(atOnce);
  s.leftFrom = b.CreateMul(panel, b.CreateSub(number(blocks * atOnce), s.rightSlots));
}

/// The first line of a slot, and the bytes from each line to the next.
std::pair<V, V> DotEmitter::lineOf(V slot) {
  const Slots &s = *slots;
  auto number = [&](uint64_t x) { return b.getInt64(x); };
  V at = s.near, step = number(0);
  if (!s.right.empty()) {
    PanelFetch of = s.right[0];
    for (size_t i = 1; i < s.right.size(); ++i) {
      V is = b.CreateICmpUGE(slot, number(i * s.perEntry));
      of = {b.CreateSelect(is, s.right[i].first, of.first), b.CreateSelect(is, s.right[i].stride, of.stride),
            b.CreateSelect(is, s.right[i].rows, of.rows)};
    }
    // Not after the last row, where there may be no memory.
    V part = b.CreateAnd(slot, number(s.perEntry - 1)),
      row = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b.CreateMul(part, s.trips), b.CreateSub(of.rows, s.trips));
    V is = b.CreateICmpSLT(slot, s.rightSlots);
    at = b.CreateSelect(is, b.CreateGEP(b.getInt8Ty(), of.first, b.CreateMul(row, of.stride)), at),
    step = b.CreateSelect(is, of.stride, step);
  }
  if (s.leftFirst) {
    V of = b.CreateAdd(s.leftFrom, b.CreateSub(slot, s.rightSlots));
    V is = b.CreateAnd(b.CreateICmpSGE(slot, s.rightSlots), b.CreateICmpSLT(of, s.leftSlots));
    V all = b.CreateShl(number(1), s.groupBits),
      row = b.CreateMul(b.CreateAnd(of, b.CreateSub(all, number(1))), s.trips),
      column = b.CreateShl(b.CreateLShr(of, s.groupBits), 6);
    V first = b.CreateGEP(b.getInt8Ty(), s.leftFirst, b.CreateAdd(b.CreateMul(row, s.leftStride), column));
    at = b.CreateSelect(is, first, at), step = b.CreateSelect(is, s.leftStride, step);
  }
  return {at, step};
}

/// Trips of loops over k while one panel is multiplied; the first block of rows is multiplied where it is packed.
int64_t DotEmitter::tripsOfPanel() const {
  const int64_t groups = p.kBlock / p.kGroup;
  return groups / unrolled(groups) * std::max<int64_t>(1, blocksOfRows(target, p) - 1);
}

/// So many lines in each trip that there are trips enough: of all rows of the first, then of the next one.
void DotEmitter::fetchRight(llvm::ArrayRef<PanelFetch> all, V near) {
  sequences.clear();
  if (all.empty())
    return;
  const int64_t entries = static_cast<int64_t>(all.size()), atOnce = divideUp(entries * p.kBlock, tripsOfPanel());
  V none = b.getInt64(0);
  for (int64_t from = 0, each = divideUp(entries, atOnce); from < entries; from += each) {
    LineSequence sequence;
    V before = none;
    for (const PanelFetch &f :
         all.slice(static_cast<size_t>(from), static_cast<size_t>(std::min(each, entries - from)))) {
      V any = b.CreateICmpSGT(f.rows, none), stride = b.CreateSelect(any, f.stride, none);
      V first =
          b.CreateGEP(b.getInt8Ty(), b.CreateSelect(any, f.first, near), b.CreateNeg(b.CreateMul(before, stride)));
      sequence.parts.push_back({before, first, stride});
      before = b.CreateAdd(before, b.CreateSelect(any, f.rows, none));
    }
    sequence.last = b.CreateSub(before, b.getInt64(1));
    sequences.push_back(sequence);
  }
}

/// Of the rows of A's next tile as many as make all of it in the panels of a block of k, line by line. (Rows that do
/// not begin with a line end in another one; the first of them is the last of this tile.) In the last round, when there
/// is no next tile, as much of the rows that the result will be stored to: each of these lines is waited for otherwise.
void DotEmitter::fetchLeft(V a, const InPlace &left, V panel, V near) {
  constexpr int64_t line = 64;
  const Pieces pieces = piecesOfLeft(a, left);
  const int64_t bytes = pieces.bytes, inRow = std::max<int64_t>(1, bytes / line),
                rows = divideUp(pieces.count, p.n / p.nr);
  const int64_t atOnce = std::min(rows, divideUp(rows * inRow, tripsOfPanel()));
  for (int64_t i = 0; i < atOnce; ++i) {
    const int64_t each = divideUp(rows, atOnce);
    V row = b.CreateAdd(b.CreateMul(panel, b.getInt64(static_cast<uint64_t>(rows))),
                        b.getInt64(static_cast<uint64_t>(i * each)));
    V comes = b.CreateICmpNE(left.next, b.getInt64(0)),
      inside = b.CreateICmpSLE(row, b.getInt64(static_cast<uint64_t>(pieces.count - each)));
    V atEnd = b.getInt64(static_cast<uint64_t>(std::min(bytes, line) - 1));
    V first = b.CreateGEP(b.getInt8Ty(), pieces.first,
                          b.CreateAdd(b.CreateAdd(left.next, b.CreateMul(row, pieces.stride)), atEnd)),
      stride = pieces.stride;
    if (left.result) {
      // with each block of k other columns
      V inRow = b.CreateSub(b.CreatePtrToInt(a, b.getInt64Ty()), b.CreatePtrToInt(left.pointer, b.getInt64Ty()));
      V there = b.CreateICmpULT(inRow, b.getInt64(static_cast<uint64_t>(p.n * cBytes())));
      // a tile by columns may have more of these
      there = b.CreateAnd(there, b.CreateICmpSLE(row, b.getInt64(static_cast<uint64_t>(p.m - each))));
      V otherwise = near, otherStride = b.getInt64(0);
      if (left.behind) {
        V is = b.CreateICmpNE(left.behind, b.getInt64(0)),
          of = b.CreateGEP(b.getInt8Ty(), pieces.first, b.CreateAdd(left.behind, b.CreateMul(row, pieces.stride)));
        otherwise = b.CreateSelect(is, of, near), otherStride = b.CreateSelect(is, pieces.stride, otherStride);
      }
      V result = b.CreateGEP(b.getInt8Ty(), left.result,
                             b.CreateAdd(b.CreateMul(row, left.resultStride), b.CreateAdd(inRow, atEnd)));
      first = b.CreateSelect(comes, first, b.CreateSelect(there, result, otherwise)),
      stride = b.CreateSelect(comes, pieces.stride, b.CreateSelect(there, left.resultStride, otherStride));
      comes = b.getTrue();
    }
    V any = b.CreateAnd(comes, inside);
    sequences.push_back(
        {{{b.getInt64(0), b.CreateSelect(any, first, near), b.CreateSelect(any, stride, b.getInt64(0))}},
         b.getInt64(static_cast<uint64_t>(each * inRow - 1)),
         static_cast<unsigned>(std::countr_zero(static_cast<uint64_t>(inRow)))});
  }
}

/// The line with that number of each sequence; the last one where there are not that many.
void DotEmitter::fetch(V number) {
  for (const LineSequence &sequence : sequences) {
    V i = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, number, sequence.last), first = sequence.parts[0].first,
      stride = sequence.parts[0].stride;
    for (const LineSequence::Part &part : llvm::drop_begin(sequence.parts)) {
      V isIn = b.CreateICmpSGE(number, part.from);
      first = b.CreateSelect(isIn, part.first, first), stride = b.CreateSelect(isIn, part.stride, stride);
    }
    V row = i, in = nullptr;
    if (sequence.rowBits)
      row = b.CreateLShr(i, sequence.rowBits),
      in = b.CreateShl(b.CreateAnd(i, (uint64_t(1) << sequence.rowBits) - 1), 6);
    V at = b.CreateGEP(b.getInt8Ty(), first, b.CreateMul(stride, row));
    if (in)
      at = b.CreateGEP(b.getInt8Ty(), at, in);
    prefetch(at);
  }
}

void PanelDot::fetch(llvm::ArrayRef<PanelFetch> lines, const InPlace &left, V number, V near) {
  const Fetches how = blockShape(emitter_->target, p_).fetches;
  if (how == Fetches::Bursts)
    emitter_->fetches.assign(lines.begin(), lines.end());
  if (how == Fetches::ByStride && (!lines.empty() || left.next))
    emitter_->planSlots(lines, left, rows_[0], number, near);
  if (how != Fetches::ByNumber)
    return;
  emitter_->fetchRight(lines, near);
  if (left.next)
    emitter_->fetchLeft(rows_[0], left, number, near);
}

bool PanelDot::fetches(const CpuTarget &target, const DotPlan &p) {
  constexpr int64_t enough = 4; // blocks: more lines than that before one wait for each other
  return p.nr > 1 && blocksOfRows(target, p) > enough;
}

bool PanelDot::fetchesLeft(const CpuTarget &target, const DotPlan &p) {
  constexpr int64_t least = 256; // bytes of a row: the hardware has fetched the lines after what was read
  const bool isShort = p.aDepthStride == 1 && p.kBlock * ir::byteWidth(p.aElem) < least;
  return blockShape(target, p).fetches != Fetches::Bursts && fetches(target, p) && !isShort;
}

} // namespace tegula::cpu
