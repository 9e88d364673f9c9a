// Dot products by mma.sync and wgmma; by multiply-adds: LowerFma.cpp. The choice stands on the dot; assignLayouts has
// put accumulator and operands into its layouts.
#include "ir/Walk.h"
#include "targets/common/NvptxOps.h"
#include "targets/nvidia/DotChoice.h"
#include "targets/nvidia/TargetInfo.h"
#include "targets/nvidia/lower/LowerPart.h"

namespace tegula::nvidia {

using ir::Elem;

/// Starts a part; its registers, which may be read after a wait.
Regs Lowering::DotInParts::start(Instr &in, unsigned part) const {
  llvm::SmallVector<Instr::WgmmaStep, 8> own;
  const auto tiles = static_cast<unsigned>(registers()) / (w.n / 2);
  for (const Instr::WgmmaStep &s : steps)
    if (s.tile / tiles == part)
      own.push_back({s.tile % tiles, s.aOffset, s.bOffset, {}});
  return in.wgmmaGroups(w, {own}, a, b, llvm::ArrayRef<V>(zeros).slice(part * registers(), registers()));
}

struct Lowering::MatrixDots : Part {
  using Part::Part;
  Regs mma(const Op &op, const DotChoice &c), wgmma(const Op &op, const DotChoice &c);
  V operandDescriptor(const Op &dot, unsigned operand, V offset, const SharedOperand &s);
};

void Lowering::dot(const Op &op) {
  DotChoice c = dotChoice(op);
  switch (c.kind) {
  case DotKind::Fma:
    return set(op.result(), fma(op));
  case DotKind::FmaTiles:
    return set(op.result(), fmaLoop(op));
  case DotKind::Mma:
    return set(op.result(), MatrixDots(*this).mma(op, c));
  case DotKind::AsyncMma:
    return set(op.result(), MatrixDots(*this).wgmma(op, c));
  }
}

// ---- tensor cores

Regs Lowering::packed(const Regs &x, unsigned first, unsigned count) {
  Regs out;
  unsigned bits = x[first]->getType()->getPrimitiveSizeInBits();
  unsigned per = 32 / bits;
  for (unsigned i = 0; i < count; i += per) {
    if (per == 1) {
      out.push_back(bitsOf(x[first + i])); // tf32: the instruction drops the low bits
      continue;
    }
    Regs elements;
    for (unsigned j = 0; j < per; ++j)
      elements.push_back(bitsOf(x[first + i + j]));
    out.push_back(targets::packWord(b_, elements));
  }
  return out;
}

/// Accumulators of narrower types than the instruction's are widened around it.
static bool isWide(const ir::Type &t) { return t.elem == Elem::F32 || t.elem == Elem::I32; }

/// Are there no tensor cores for fp8 behind mma.sync? On sm_90 and sm_100 the assembler makes two products of fp16 of
/// each, and adds their sum to the accumulator by four FADD. Products that are written as such add to the accumulator
/// themselves. A thread's four indices of k are the same in both operands, so that their first and second halves are
/// products of their own.
static bool emulatesFp8Mma(const NvTarget &t) { return t.sm >= 90 && t.sm < 120; }

Regs Lowering::MatrixDots::mma(const Op &op, const DotChoice &c) {
  const MatrixInstr instr = matrixInstr(c, op);
  const ir::Type &t = op.result()->type;
  const Regs &a = get(op.operands[0]), &b = get(op.operands[1]);
  Regs acc;
  for (V x : get(op.operands[2]))
    acc.push_back(isWide(t) ? x : vec_->widen(x, t.elem));
  // Registers come fragment by fragment: C 16x8 in 4, then columns, rows, batches; A 16xk in `fa`, then k, rows,
  // batches; B kx8 in `fb`, then k, columns, batches.
  unsigned perWord = 4 / ir::byteWidth(op.operands[0]->type.elem), fa = 4 * perWord, fb = 2 * perWord;
  auto bitsAlong = [&](const Value *v, unsigned axis) {
    unsigned n = 0;
    for (uint64_t basis : layoutOf(v).bases(layout::Dim::Register))
      n += layoutOf(v).outs().part(basis, layout::tensorDim(axis)) != 0;
    return n;
  };
  unsigned rank = t.shape.rank();
  unsigned tilesN = (1u << bitsAlong(op.result(), rank - 1)) / 2, tilesM = (1u << bitsAlong(op.result(), rank - 2)) / 2;
  unsigned batches = rank == 3 ? 1u << bitsAlong(op.result(), 0) : 1;
  auto depth = static_cast<unsigned>(op.operands[0]->type.shape[rank - 1]) / instr.k;
  const ir::Elem elemA = op.operands[0]->type.elem, elemB = op.operands[1]->type.elem;
  const bool byHalves = ir::isFp8(elemA) && emulatesFp8Mma(target_);
  for (unsigned batch = 0; batch < batches; ++batch) {
    // the second ones: of the other products, where there are two for an instruction
    std::vector<std::array<Regs, 2>> fragmentsA, fragmentsB;
    auto fragment = [&](const Regs &x, unsigned first, unsigned count, ir::Elem elem) {
      std::array<Regs, 2> out{frame_.packed(x, first, count)};
      if (byHalves)
        for (V &word : out[0]) {
          const std::array<V, 2> halves = frame_.fp8ToHalves(word, elem);
          word = halves[0];
          out[1].push_back(halves[1]);
        }
      return out;
    };
    for (unsigned i = 0; i < tilesM * depth; ++i)
      fragmentsA.push_back(fragment(a, (batch * tilesM * depth + i) * fa, fa, elemA));
    for (unsigned i = 0; i < tilesN * depth; ++i)
      fragmentsB.push_back(fragment(b, (batch * tilesN * depth + i) * fb, fb, elemB));
    for (unsigned k = 0; k < depth; ++k)
      for (unsigned m = 0; m < tilesM; ++m)
        for (unsigned n = 0; n < tilesN; ++n) {
          V *tile = &acc[((batch * tilesM + m) * tilesN + n) * 4];
          const std::array<Regs, 2> &x = fragmentsA[m * depth + k], &y = fragmentsB[n * depth + k];
          auto add = [&](unsigned length, MmaType typeA, MmaType typeB, unsigned half) {
            Regs d = in_->mma(length, instr.d, typeA, typeB, x[half], y[half], llvm::ArrayRef<V>(tile, 4));
            std::copy(d.begin(), d.end(), tile);
          };
          if (!byHalves) {
            add(instr.k, instr.a, instr.b, 0);
            continue;
          }
          add(instr.k / 2, MmaType::F16, MmaType::F16, 0);
          add(instr.k / 2, MmaType::F16, MmaType::F16, 1);
        }
  }
  if (!isWide(t))
    for (V &x : acc)
      x = vec_->narrow(x, t.elem);
  return acc;
}

/// Does a producer fill the rings of its loop?
static bool isBesideProducer(const ir::Op &dot) {
  const ir::Op *around = &dot;
  while (around && around->kind != ir::OpKind::Partitions)
    around = around->parent->parent ? around->parent->parent->op : nullptr;
  return around;
}

/// Has a thread a register for what stays the same about each ring, beside the results of the dots around and the left
/// operands that it holds? Attention with dropout has none (128x64, D=128, four warps): the assembler computed the keys
/// of its random numbers again for each element then, 5240 instructions an iteration for 4690, H200: 4122 -> 4701 us; a
/// prefix in pages 3410 -> 3824.
static bool hasRegistersForRings(const ir::Op &dot, unsigned threads, const NvTarget &target) {
  int64_t needed = tegula::gpu::registersOfDots(*dot.parent, threads);
  for (const ir::Op *o : dot.parent->ops)
    if (o->kind == ir::OpKind::Dot && !o->operands[0]->type.isShared)
      needed += o->operands[0]->type.numel() * ir::byteWidth(o->operands[0]->type.elem) / 4 / threads;
  return needed <= NvTargetInfo(target).registerLimit(threads);
}

/// The slot of a ring that a tile is, seen through views; null: it is none.
static const ir::Op *slotOf(const ir::Value *tile) {
  while (tile->def && (tile->def->kind == ir::OpKind::Permute || tile->def->kind == ir::OpKind::Reshape))
    tile = tile->def->operands[0];
  return tile->def && tile->def->kind == ir::OpKind::SharedSlot ? tile->def : nullptr;
}

/// The 64-bit description of what lies `offset` bytes behind the start of a tile for wgmma (PTX ISA, "Matrix Descriptor
/// Format"; docs/hopper.md). That of a ring's first slot is the same in all iterations, so that one addition to its
/// lower word is left for each, where a thread has a register to keep it in. Not beside a producer: two warpgroups of
/// attention find another turn then (D=128, 128x64, H200, six instructions of 336 fewer: 940 -> 1030 us).
V Lowering::MatrixDots::operandDescriptor(const Op &dot, unsigned operand, V offset, const SharedOperand &s) {
  constexpr unsigned unit = 4; // log2 of the bytes that addresses count
  uint64_t mode = s.mode == layout::SwizzleMode::B128  ? 1
                  : s.mode == layout::SwizzleMode::B64 ? 2
                  : s.mode == layout::SwizzleMode::B32 ? 3
                                                       : 0;
  const uint32_t high = static_cast<uint32_t>(mode << 30) | s.stride >> unit, leading = s.leading >> unit << 16;
  const Value *tile = dot.operands[operand];
  const Op *slot = slotOf(tile);
  if (slot && (isBesideProducer(dot) || !hasRegistersForRings(dot, frame_.meta_.threads, target_)))
    slot = nullptr;
  // In a cluster the rank stands in bits 24 and up; the field has room for the offset only.
  V address = b_.CreateAdd(scalar(slot ? slot->operands[0] : tile), offset);
  V low = b_.CreateOr(b_.CreateLShr(b_.CreateAnd(address, b_.getInt32(0x3FFFF)), unit), b_.getInt32(leading));
  if (slot) {
    const auto step = static_cast<uint32_t>(slotBytes(slot->result()->type) >> unit);
    low = b_.CreateAdd(low, b_.CreateMul(scalar(slot->operands[1]), b_.getInt32(step)));
  }
  return b_.CreateOr(b_.CreateZExt(low, b_.getInt64Ty()), b_.getInt64(uint64_t{high} << 32));
}

/// Is it repeated, and another loop with it (the first dot of a tile of a persistent kernel)? Registers that only the
/// first of several rounds does not read are live all the way from the last time then, through the other loop: 64 of a
/// thread that computes 128x128 by eight warps (260 bytes of spills, C7512). Nothing else runs before that loop, so
/// zeros cost no wait.
static bool isBesideLoop(const ir::Op &op) {
  const auto isLoop = [](const ir::Op &o) { return o.kind == ir::OpKind::For || o.kind == ir::OpKind::While; };
  for (const ir::Op *inside = &op; const ir::Op *around = inside->parent->parent ? inside->parent->parent->op : nullptr;
       inside = around)
    if (isLoop(*around))
      return ir::anyOp(*inside->parent, isLoop);
  return false;
}

Regs Lowering::MatrixDots::wgmma(const Op &op, const DotChoice &c) {
  const ir::Type &t = op.result()->type, &ta = op.operands[0]->type, &tb = op.operands[1]->type;
  bool aInRegisters = !ta.isShared, isAsync = op.isAsync();
  in_->setSite(frame_.siteOf(op));
  // What the warpgroup adds to the place of its tile; one bit of the warp index after the other.
  const LinearLayout &l = layoutOf(op.result());
  auto groupOffset = [&](const SharedOperand &s, unsigned axis) {
    V sum = b_.getInt32(0);
    for (unsigned i = 2; i < l.inBits(layout::Dim::Warp); ++i)
      if (uint32_t at = l.basis(layout::Dim::Warp, i, layout::tensorDim(axis)))
        sum = b_.CreateAdd(sum,
                           b_.CreateMul(b_.CreateAnd(b_.CreateLShr(frame_.warp_, i), 1), b_.getInt32(s.offset(at, 0))));
    return sum;
  };
  SharedOperand sa, sb = sharedOperand(tb, false, contiguousAxis(layoutOf(op.operands[1]), ir::byteWidth(tb.elem)));
  V descA = nullptr, descB = operandDescriptor(op, 1, groupOffset(sb, 1), sb);
  Regs acc, wordsA;
  if (aInRegisters) {
    const Regs &a = get(op.operands[0]);
    wordsA = frame_.packed(a, 0, static_cast<unsigned>(a.size()));
  } else {
    sa = sharedOperand(ta, true, contiguousAxis(layoutOf(op.operands[0]), ir::byteWidth(ta.elem)));
    descA = operandDescriptor(op, 0, groupOffset(sa, 0), sa);
  }
  // Zeroes under a condition are not read, as zeroes are not: a selection would write registers that an older wgmma may
  // be at.
  const Op *unless = isAsync && op.rounds() <= 1 ? tegula::gpu::zeroesOf(op) : nullptr;
  for (V x : get(unless ? unless->operands[2] : op.operands[2]))
    acc.push_back(isWide(t) ? x : vec_->widen(x, t.elem));
  MatrixInstr instr = matrixInstr(c, op);
  gpu::PartsOfSum sum = gpu::partsOfSum(op, frame_.users_, static_cast<int64_t>(acc.size()));
  if (sum.parts > 1)
    instr.n = std::min(instr.n, 2 * static_cast<unsigned>(acc.size()) / sum.parts);
  Instr::Wgmma w{instr.n, instr.d, instr.a, instr.b, sa.transposed, sb.transposed, false, false};
  auto depth = static_cast<unsigned>(ta.shape[1]) / instr.k;
  unsigned columns = static_cast<unsigned>(t.shape[1]) / c.grid.n / instr.n,
           rows = static_cast<unsigned>(acc.size()) / (instr.n / 2) / columns;
  // Nothing runs beside a dot that is waited for at once.
  DotRounds r = !aInRegisters && op.rounds() > 1 && sum.parts == 1 ? dotRounds(instr, sa, sb, depth, !isAsync)
                                                                   : DotRounds{.products = depth};
  llvm::SmallVector<Instr::WgmmaStep, 8> steps;
  for (unsigned m = 0; m < rows; ++m)
    for (unsigned n = 0; n < columns; ++n)
      for (unsigned i = 0; i < r.products; ++i) {
        unsigned k = r.at(0, i);
        llvm::ArrayRef<V> fragment;
        if (aInRegisters)
          fragment = llvm::ArrayRef<V>(wordsA).slice((m * depth + k) * 4, 4);
        steps.push_back({m * columns + n, aInRegisters ? 0 : sa.offset(64 * m, k * instr.k) >> 4,
                         sb.offset(instr.n * n, k * instr.k) >> 4, fragment});
      }
  if (sum.parts > 1) {
    assert(rows * columns % sum.parts == 0 && "a part is one tile of an instruction, or several");
    const DotInParts &d =
        frame_.dotsInParts_[sum.wait] = {w, {steps.begin(), steps.end()}, descA, descB, std::move(sum), std::move(acc)};
    return d.start(*in_, 0);
  }
  Instr::WgmmaRounds rounds{steps};
  if (r.rounds > 1)
    rounds = {steps, r.rounds, sa.offset(0, r.at(1, 0) * instr.k) >> 4, sb.offset(0, r.at(1, 0) * instr.k) >> 4,
              isBesideLoop(op)};
  acc =
      in_->wgmmaGroups(w, rounds, descA, descB, acc, unless ? scalar(unless->operands[0]->def->operands[0]) : nullptr);
  if (isAsync)
    return acc;
  acc = in_->wgmmaWait(0, acc);
  if (!isWide(t))
    for (V &x : acc)
      x = vec_->narrow(x, t.elem);
  return acc;
}

void Lowering::dotWait(const Op &op) {
  auto pending = static_cast<unsigned>(op.pending());
  in_->setSite(siteOf(op));
  if (dotsInParts_.contains(&op))
    return sumInParts(op);
  bool behindLoop = op.behindLoop();
  if (op.results.empty())
    in_->wgmmaWait(pending, {}, behindLoop);
  for (size_t i = 0; i < op.results.size(); ++i)
    set(op.results[i], in_->wgmmaWait(pending, get(op.operands[i]), behindLoop && i == 0));
}

void Lowering::sumInParts(const Op &wait) {
  const DotInParts &d = dotsInParts_.at(&wait);
  const size_t count = d.registers();
  Regs running = get(wait.operands[0]), sums;
  for (unsigned part = 0; part < d.sum.parts; ++part) {
    in_->setSite(siteOf(wait));
    Regs now = in_->wgmmaWait(0, running);
    const Value *from = wait.result();
    for (const Op *step : d.sum.steps) {
      if (lines_)
        b_.SetCurrentDebugLocation(lines_->location(*step));
      for (size_t i = 0; i < count; ++i) {
        llvm::SmallVector<V, 2> args;
        for (const Value *v : step->operands)
          args.push_back(v == from ? now[i] : get(v)[part * count + i]);
        now[i] = vec_->elementwise(*step, args, step->operands[0]->type.elem, step->result()->type.elem);
      }
      from = step->result();
    }
    if (part + 1 < d.sum.parts) {
      in_->setSite(siteOf(*wait.operands[0]->def));
      running = d.start(*in_, part + 1);
    }
    sums.append(now.begin(), now.end());
  }
  for (const Op *step : d.sum.steps)
    isLowered_.insert(step);
  set(d.sum.steps.back()->result(), std::move(sums));
  dotsInParts_.erase(&wait);
}

} // namespace tegula::nvidia
