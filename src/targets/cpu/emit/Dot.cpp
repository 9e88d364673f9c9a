// See Dot.h. Two forms of micro-kernel:
//   outer product: rows x columns of C live in registers; each step of k loads one row of a B panel, broadcasts one
//   element of
//     each A row and does rows * (nr / vector length) multiply-adds. All sizes are powers of two, so panels of nr
//     always fit; rows that the preferred block height does not divide are covered by a second, lower block
//     (rowBlocks).
//   inner product: for at most four columns vectors run along k instead (nr = 1: columns are contiguous) and are summed
//   at the end.
// Loop order: k blocks (a B panel stays in L1) > panels of B > row blocks of A > k. C is touched once per k block.
#include "targets/cpu/emit/Dot.h"
#include "targets/common/VecUtil.h"
#include "targets/cpu/emit/DotEmitter.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsX86.h"
#include <algorithm>
#include <bit>
#include <memory>

namespace tegula::cpu {
using targets::Arith, targets::lanesOf, targets::likeShape;

using ir::Elem;
using V = llvm::Value *;

llvm::SmallVector<V> DotEmitter::loop(int64_t count, V counted, llvm::ArrayRef<Pointer> pointers,
                                      llvm::ArrayRef<V> carried, Body body) {
  llvm::SmallVector<V> starts;
  for (const Pointer &q : pointers)
    starts.push_back(q.start);
  if (count == 1 && !counted)
    return body(starts, carried);
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::Function *f = before->getParent();
  auto *head = llvm::BasicBlock::Create(b.getContext(), "dot", f);
  auto *exit = llvm::BasicBlock::Create(b.getContext(), "dot.end", f);
  // The caller's block may already have instructions after the insertion point.
  if (b.GetInsertPoint() != before->end()) {
    exit->splice(exit->end(), before, b.GetInsertPoint(), before->end());
    for (llvm::BasicBlock *s : llvm::successors(exit))
      s->replacePhiUsesWith(before, exit);
  }
  b.SetInsertPoint(before);
  if (counted && carried.empty())
    b.CreateCondBr(b.CreateICmpSGT(counted, b.getInt64(0)), head, exit);
  else
    b.CreateBr(head);
  b.SetInsertPoint(head);
  llvm::PHINode *left = b.CreatePHI(b.getInt64Ty(), 2);
  left->addIncoming(counted ? counted : b.getInt64(count), before);
  llvm::SmallVector<llvm::PHINode *> phis;
  llvm::SmallVector<V> now, state;
  auto phi = [&](V start) {
    phis.push_back(b.CreatePHI(start->getType(), 2));
    phis.back()->addIncoming(start, before);
    return phis.back();
  };
  for (V s : starts)
    now.push_back(phi(s));
  for (V s : carried)
    state.push_back(phi(s));
  llvm::SmallVector<V> next = body(now, state);
  llvm::SmallVector<V> advanced;
  for (size_t i = 0; i < pointers.size(); ++i)
    if (now[i]->getType()->isIntegerTy())
      advanced.push_back(
          b.CreateAdd(now[i], pointers[i].by ? pointers[i].by : b.getInt64(static_cast<uint64_t>(pointers[i].step))));
    else
      advanced.push_back(pointers[i].by ? b.CreateGEP(b.getInt8Ty(), now[i], pointers[i].by)
                                        : at(now[i], pointers[i].step));
  V remaining = b.CreateSub(left, b.getInt64(1));
  llvm::BasicBlock *latch = b.GetInsertBlock();
  left->addIncoming(remaining, latch);
  for (size_t i = 0; i < phis.size(); ++i)
    phis[i]->addIncoming(i < now.size() ? advanced[i] : next[i - now.size()], latch);
  b.CreateCondBr(b.CreateICmpNE(remaining, b.getInt64(0)), head, exit);
  b.SetInsertPoint(exit, exit->begin());
  return next;
}

/// x * y + acc, summed over the group of k for the types that have groups.
V DotEmitter::multiplyAdd(V acc, V x, V y) {
  using namespace llvm::Intrinsic;
  unsigned n = lanesOf(acc);
  if (p.kGroup == 1) {
    if (p.accElem == Elem::I32)
      return b.CreateAdd(acc, b.CreateMul(x, y));
    return Arith(v).mulAdd(x, y, acc);
  }
  if (p.aElem == Elem::BF16) {
    llvm::Intrinsic::ID id = n == 16  ? x86_avx512bf16_dpbf16ps_512
                             : n == 8 ? x86_avx512bf16_dpbf16ps_256
                                      : x86_avx512bf16_dpbf16ps_128;
    return b.CreateIntrinsic(id, {}, {acc, x, y});
  }
  if (p.aElem == Elem::I8) {
    if (p.bUnsigned)
      std::swap(x, y); // the first factor is the unsigned one
    if (target.multipliesBytes()) {
      llvm::Intrinsic::ID id = n == 16  ? x86_avx512_vpdpbusd_512
                               : n == 8 ? x86_avx512_vpdpbusd_256
                                        : x86_avx512_vpdpbusd_128;
      return b.CreateIntrinsic(id, {}, {acc, x, y});
    }
    auto bytes = [&](V value) { return b.CreateBitCast(value, llvm::FixedVectorType::get(b.getInt8Ty(), 4 * n)); };
    V pairs = b.CreateIntrinsic(n == 16  ? x86_avx512_pmaddubs_w_512
                                : n == 8 ? x86_avx2_pmadd_ub_sw
                                         : x86_ssse3_pmadd_ub_sw_128,
                                {}, {bytes(x), bytes(y)});
    V ones = llvm::ConstantInt::get(pairs->getType(), 1);
    llvm::Intrinsic::ID id = n == 16 ? x86_avx512_pmaddw_d_512 : n == 8 ? x86_avx2_pmadd_wd : x86_sse2_pmadd_wd;
    return b.CreateAdd(acc, b.CreateIntrinsic(id, {}, {pairs, ones}));
  }
  if (target.multipliesBytes()) {
    llvm::Intrinsic::ID id = n == 16  ? x86_avx512_vpdpwssd_512
                             : n == 8 ? x86_avx512_vpdpwssd_256
                                      : x86_avx512_vpdpwssd_128;
    return b.CreateIntrinsic(id, {}, {acc, b.CreateBitCast(x, acc->getType()), b.CreateBitCast(y, acc->getType())});
  }
  llvm::Intrinsic::ID id = n == 16 ? x86_avx512_pmaddw_d_512 : n == 8 ? x86_avx2_pmadd_wd : x86_sse2_pmadd_wd;
  return b.CreateAdd(acc, b.CreateIntrinsic(id, {}, {x, y}));
}

/// Operand of multiplyAdd from one group of k (broadcast) or from a loaded vector.
V DotEmitter::groupOf(V x, unsigned accLanes, bool isA) {
  if (!x->getType()->isVectorTy() && accLanes > 1)
    x = b.CreateVectorSplat(accLanes, x);
  if (p.kGroup == 1)
    return x;
  if (p.aElem == Elem::I8)
    return isA && biased() ? b.CreateXor(x, bias(x->getType())) : x;
  llvm::Type *elem = p.aElem == Elem::BF16 ? llvm::Type::getBFloatTy(b.getContext()) : b.getInt16Ty();
  return b.CreateBitCast(x, llvm::FixedVectorType::get(elem, accLanes * p.kGroup));
}

llvm::SmallVector<V> DotEmitter::starts(unsigned rows, V sums) {
  if (!p.bBiased)
    return llvm::SmallVector<V>((rows + (biased() ? 1 : 0)) * vectors, llvm::Constant::getNullValue(accType));
  llvm::SmallVector<V> all;
  for (unsigned r = 0; r < rows; ++r)
    all.append(vectors, b.CreateVectorSplat(lanes, load(b.getInt32Ty(), at(sums, r * cBytes()), cBytes())));
  return all;
}

/// sum of A * (B + 128) = sum of A * B + 128 * sum of A: the sums of a row's `depth` bytes, whole groups, a vector at a
/// time. They are needed once for all columns, while A with a bias would be made again for each panel.
void DotEmitter::sumRows(V a, V depth) {
  const int64_t bytes = std::min<int64_t>(p.k, target.vectorBits / 8), groups = bytes / p.kGroup;
  llvm::Type *sum = v.vecType(p.accElem, static_cast<unsigned>(groups));
  llvm::BasicBlock &first = b.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> entry(&first, first.begin());
  rowSums = entry.CreateAlloca(b.getInt32Ty(), entry.getInt32(static_cast<uint32_t>(p.m)));
  llvm::SmallVector<V> inside; // of the bytes of a vector
  for (int64_t k = 0; depth && k < p.k; k += bytes)
    inside.push_back(b.CreateICmpSLT(
        targets::consecutive(b.getInt32Ty(), static_cast<unsigned>(groups), static_cast<uint64_t>(k / p.kGroup)),
        b.CreateVectorSplat(static_cast<unsigned>(groups),
                            b.CreateTrunc(b.CreateUDiv(depth, b.getInt64(p.kGroup)), b.getInt32Ty()))));
  const Pointer rows[] = {{a, p.aRowStride * aBytes(), aStride}, {rowSums, cBytes()}};
  loop(p.m, rows, {}, [&](llvm::ArrayRef<V> q, llvm::ArrayRef<V>) -> llvm::SmallVector<V> {
    V all = llvm::Constant::getNullValue(sum);
    for (int64_t k = 0; k < p.k; k += bytes) {
      V from = at(q[0], k);
      V x = depth ? b.CreateMaskedLoad(sum, from, llvm::Align(1), inside[static_cast<size_t>(k / bytes)],
                                       llvm::Constant::getNullValue(sum))
                  : load(sum, from, 1);
      all = multiplyAdd(all, x, bias(sum));
    }
    b.CreateAlignedStore(b.CreateNeg(b.CreateAddReduce(all)), q[1], llvm::Align(cBytes()));
    return {};
  });
}

/// Pointers that addresses in that many rows are made from. With a stride known at run time only there is one for each
/// four rows, to which one, two or three strides are added as the index of an address.
llvm::SmallVector<V> DotEmitter::rowPointers(V a, unsigned rows) {
  llvm::SmallVector<V> r{a};
  for (unsigned row = 4; aStride && row < rows; row += 4)
    r.push_back(unrelated(b.CreateGEP(b.getInt8Ty(), a, rowsOf(row))));
  return r;
}

/// The same value; what it has been computed from, LLVM does not see. It would make each row's address from the one
/// before, all loads of several steps from one address in a row, as there are not registers for all addresses, and
/// spill what is loaded too early.
V DotEmitter::unrelated(V x) {
  llvm::FunctionType *type = llvm::FunctionType::get(x->getType(), {x->getType()}, false);
  return b.CreateCall(type, llvm::InlineAsm::get(type, "", "=r,0", /*hasSideEffects=*/false), {x});
}

V DotEmitter::inRow(llvm::ArrayRef<V> a, unsigned row, int64_t bytes) {
  if (!aStride)
    return at(a[0], row * p.aRowStride * aBytes() + bytes);
  V pointer = a[row / 4];
  if (unsigned in = row % 4)
    pointer = b.CreateGEP(b.getInt8Ty(), pointer, strides[in - 1]);
  return at(pointer, bytes);
}

/// acc += A[rows][one group of k] * panel[the group][nr], the group `step` groups after the pointers.
void DotEmitter::multiplyStep(unsigned rows, int64_t step, llvm::ArrayRef<V> a, V bp, llvm::SmallVectorImpl<V> &acc) {
  unsigned sums = rows * vectors;
  // A group of k is loaded as one integer of the accumulator's width.
  llvm::Type *aType = p.kGroup == 1 ? v.elemType(p.aElem) : b.getInt32Ty();
  llvm::Type *bType = p.kGroup == 1 ? v.vecType(p.bElem, lanes) : llvm::FixedVectorType::get(b.getInt32Ty(), lanes);
  int64_t vectorBytes = lanes * p.kGroup * bBytes();
  llvm::SmallVector<V> columns;
  for (unsigned j = 0; j < vectors; ++j)
    columns.push_back(groupOf(load(bType, at(bp, step * stepBytesB() + j * vectorBytes), bBytes()), lanes, false));
  for (unsigned j = 0; biased() && j < vectors; ++j)
    acc[sums + j] = multiplyAdd(acc[sums + j], bias(accType), columns[j]);
  for (unsigned r = 0; r < rows; ++r) {
    V x = groupOf(load(aType, inRow(a, r, step * stepBytesA()), aBytes()), lanes, true);
    for (unsigned j = 0; j < vectors; ++j)
      acc[r * vectors + j] = multiplyAdd(acc[r * vectors + j], x, columns[j]);
  }
}

void DotEmitter::addToC(unsigned rows, llvm::ArrayRef<V> acc, V c, bool accumulate) {
  unsigned sums = rows * vectors;
  for (unsigned r = 0; r < rows; ++r)
    for (unsigned j = 0; j < vectors; ++j) {
      V pointer = at(c, (r * p.cRowStride + j * lanes) * cBytes());
      V sum = acc[r * vectors + j];
      if (biased())
        sum = b.CreateSub(sum, acc[sums + j]);
      if (accumulate) {
        V old = load(accType, pointer, cBytes());
        sum = p.accElem == Elem::I32 ? b.CreateAdd(old, sum) : b.CreateFAdd(old, sum);
      }
      b.CreateAlignedStore(sum, pointer, llvm::Align(cBytes()));
    }
}

/// C[rows][nr] += A[rows][k] * panel[k][nr]. `lines`: of each of `fetches` the line to begin with, and how many are
/// left; or the number of the first line of `sequences`, or of the block's first one of `slots`.
void DotEmitter::outerBlock(unsigned rows, int64_t k, V a, V bp, V c, V sums, bool accumulate,
                            llvm::ArrayRef<V> lines) {
  int64_t steps = k / p.kGroup, unroll = unrolledHere(steps), trips = steps / unroll;
  V counted = depth ? b.CreateUDiv(depth, b.getInt64(unroll * p.kGroup)) : nullptr;
  auto body = [&](llvm::ArrayRef<V> q, llvm::ArrayRef<V> carried) {
    llvm::SmallVector<V> acc(carried);
    const size_t fetched = slots ? slots->atOnce : 0;
    for (V line : q.take_back(fetched))
      prefetch(line);
    if (!sequences.empty())
      fetch(q.back());
    for (int64_t u = 0; u < unroll; ++u)
      multiplyStep(rows, u, q.drop_front(), q[0], acc);
    return acc;
  };
  auto pointersAt = [&](V panel, llvm::ArrayRef<V> from, int64_t trips) {
    llvm::SmallVector<Pointer> pointers{{panel, trips * unroll * stepBytesB()}};
    for (V row : from)
      pointers.push_back({row, trips * unroll * stepBytesA()});
    return pointers;
  };
  llvm::SmallVector<V> from = rowPointers(a, rows);
  if (fetches.empty()) {
    llvm::SmallVector<Pointer> pointers = pointersAt(bp, from, 1);
    if (!sequences.empty())
      pointers.push_back({lines[0], 1});
    for (unsigned i = 0; slots && i < slots->atOnce; ++i) {
      auto [first, step] = lineOf(b.CreateAdd(lines[0], b.getInt64(i)));
      pointers.push_back({first, 0, step});
    }
    return addToC(rows, loop(trips, counted, pointers, starts(rows, sums), body), c, accumulate);
  }
  // A few lines, some trips, a few lines ...: many at once would hold up the loads.
  const int64_t part = tripsOfPart();
  if (!counted && trips % part) // the last part is shorter
    counted = b.getInt64(static_cast<uint64_t>(trips));
  llvm::SmallVector<Pointer> pointers = pointersAt(bp, from, part);
  for (size_t i = 0; i < fetches.size(); ++i) {
    pointers.push_back(
        {lines[2 * i], 0, b.CreateMul(fetches[i].stride, b.getInt64(static_cast<uint64_t>(linesPerPart())))});
    pointers.push_back({lines[2 * i + 1], -linesPerPart()});
  }
  if (counted)
    pointers.push_back({counted, -part});
  auto partOfDepth = [&](llvm::ArrayRef<V> q, llvm::ArrayRef<V> carried) {
    llvm::ArrayRef<V> line = q.drop_front(1 + from.size());
    for (size_t i = 0; i < fetches.size(); ++i)
      fetch(fetches[i], line[2 * i],
            b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, line[2 * i + 1],
                                    b.getInt64(static_cast<uint64_t>(linesPerPart()))));
    V most = counted ? b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, q.back(), b.getInt64(static_cast<uint64_t>(part)))
                     : nullptr;
    return loop(part, most, pointersAt(q[0], q.slice(1, from.size()), 1), carried, body);
  };
  addToC(rows, loop(divideUp(trips, part), depth ? partsOf(depth) : nullptr, pointers, starts(rows, sums), partOfDepth),
         c, accumulate);
}

/// The same for all n <= 4 columns of C at once; vectors along k.
void DotEmitter::innerBlock(unsigned rows, int64_t k, V a, V bp, V c, bool accumulate) {
  unsigned n = static_cast<unsigned>(p.n);
  int64_t groups = k / p.kGroup;
  unsigned native = target.vectorBits / ir::bitWidth(p.accElem);
  unsigned width = static_cast<unsigned>(std::min<int64_t>(native, groups));
  // The grouped instructions exist for 4 lanes and more; dotPlan sees to it that there are as many groups.
  llvm::Type *vec = v.vecType(p.accElem, width);
  llvm::Type *aType = p.kGroup == 1 ? v.vecType(p.aElem, width) : llvm::FixedVectorType::get(b.getInt32Ty(), width);
  llvm::Type *bType = p.kGroup == 1 ? v.vecType(p.bElem, width) : llvm::FixedVectorType::get(b.getInt32Ty(), width);
  unsigned sums = rows * n;
  llvm::SmallVector<V> zero(sums + (biased() ? n : 0), llvm::Constant::getNullValue(vec));
  int64_t step = width * p.kGroup;
  auto body = [&](llvm::ArrayRef<V> q, llvm::ArrayRef<V> carried) {
    llvm::SmallVector<V> acc(carried), columns;
    for (unsigned j = 0; j < n; ++j)
      columns.push_back(groupOf(load(bType, at(q[0], j * p.bPanelStride * bBytes()), bBytes()), width, false));
    for (unsigned j = 0; biased() && j < n; ++j)
      acc[sums + j] = multiplyAdd(acc[sums + j], bias(vec), columns[j]);
    for (unsigned r = 0; r < rows; ++r) {
      V x = groupOf(load(aType, inRow(q.drop_front(), r, 0), aBytes()), width, true);
      for (unsigned j = 0; j < n; ++j)
        acc[r * n + j] = multiplyAdd(acc[r * n + j], x, columns[j]);
    }
    return acc;
  };
  llvm::SmallVector<Pointer> pointers{{bp, step * bBytes()}};
  for (V from : rowPointers(a, rows))
    pointers.push_back({from, step * aBytes()});
  llvm::SmallVector<V> acc = loop(groups / width, pointers, zero, body);
  bool isInt = p.accElem == Elem::I32;
  for (unsigned r = 0; r < rows; ++r)
    for (unsigned j = 0; j < n; ++j) {
      V sum = acc[r * n + j];
      if (biased())
        sum = b.CreateSub(sum, acc[sums + j]);
      for (unsigned half = width / 2; half; half /= 2) {
        llvm::SmallVector<int> low, high;
        for (unsigned i = 0; i < half; ++i) {
          low.push_back(static_cast<int>(i));
          high.push_back(static_cast<int>(i + half));
        }
        V x = b.CreateShuffleVector(sum, low), y = b.CreateShuffleVector(sum, high);
        sum = isInt ? b.CreateAdd(x, y) : b.CreateFAdd(x, y);
      }
      if (width > 1)
        sum = b.CreateExtractElement(sum, uint64_t(0));
      V pointer = at(c, (r * p.cRowStride + j) * cBytes());
      if (accumulate) {
        V old = load(v.elemType(p.accElem), pointer, cBytes());
        sum = isInt ? b.CreateAdd(old, sum) : b.CreateFAdd(old, sum);
      }
      b.CreateAlignedStore(sum, pointer, llvm::Align(cBytes()));
    }
}

unsigned DotEmitter::firstRows() const { return rowBlocks(p, blockShape(target, p).lowRows).front().rows; }

/// All rows of one panel for one block of k, or all but the first block of rows.
void DotEmitter::rows(int64_t k, V a, V bp, V c, bool accumulate, bool withoutFirst, V unless) {
  bool inner = p.nr == 1;
  unsigned lowRows = inner ? std::min<unsigned>(p.mr, static_cast<unsigned>(p.m)) : blockShape(target, p).lowRows;
  int64_t row = 0;
  const bool byNumber = !sequences.empty();
  V done = b.getInt64(0), perBlock = nullptr; // lines, or slots, of one
  if (byNumber)
    perBlock = depth ? b.CreateUDiv(depth, b.getInt64(static_cast<uint64_t>(PanelDot::depthUnit(p))))
                     : b.getInt64(static_cast<uint64_t>(k / PanelDot::depthUnit(p)));
  else if (slots)
    perBlock = b.getInt64(slots->atOnce);
  else if (!fetches.empty())
    perBlock = b.CreateMul(partsOf(depth), b.getInt64(static_cast<uint64_t>(linesPerPart())));
  auto fetchedBy = [&](V count) { return b.CreateMul(count, perBlock); };
  auto lineAt = [&](const PanelFetch &f, V number) {
    return b.CreateGEP(b.getInt8Ty(), f.first, b.CreateMul(f.stride, number));
  };
  for (RowBlock block : rowBlocks(p, lowRows)) {
    // a loop with one round more where the first block is to be done, too
    const bool mayBegin = withoutFirst && unless && row == 0;
    if (withoutFirst && row == 0 && !unless) {
      row = block.rows;
      if (--block.count == 0)
        continue;
    }
    V a0 = !aStride ? at(a, row * p.aRowStride * aBytes())
           : row    ? b.CreateGEP(b.getInt8Ty(), a, rowsOf(static_cast<unsigned>(row)))
                    : a;
    V c0 = at(c, row * p.cRowStride * cBytes()), sums0 = rowSums ? at(rowSums, row * cBytes()) : nullptr;
    auto rowsBody = [&](llvm::ArrayRef<V> s, llvm::ArrayRef<V>) -> llvm::SmallVector<V> {
      if (inner)
        innerBlock(block.rows, k, s[0], bp, s[1], accumulate);
      else
        outerBlock(block.rows, k, s[0], bp, s[1], rowSums ? s[2] : nullptr, accumulate, s.drop_front(rowSums ? 3 : 2));
      return {};
    };
    V count = nullptr, first = mayBegin ? b.CreateZExt(b.CreateNot(unless), b.getInt64Ty()) : nullptr;
    auto blocksTo = [&](V end, int64_t more) {
      V blocks = b.CreateSDiv(b.CreateAdd(b.CreateSub(end, b.getInt64(row)), b.getInt64(more)), b.getInt64(block.rows));
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, blocks, b.getInt64(block.count));
    };
    if (rowsTo)
      count = blocksTo(rowsTo, block.rows - 1);
    if (rowsFrom)
      first = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, blocksTo(rowsFrom, 0), first ? first : b.getInt64(0));
    if (first) {
      count = b.CreateSub(count ? count : b.getInt64(block.count), first);
      a0 = b.CreateGEP(
          b.getInt8Ty(), a0,
          b.CreateMul(first, aStride ? rowsOf(block.rows) : b.getInt64(block.rows * p.aRowStride * aBytes())));
      c0 = b.CreateGEP(b.getInt8Ty(), c0, b.CreateMul(first, b.getInt64(block.rows * p.cRowStride * cBytes())));
      if (rowSums)
        sums0 = b.CreateGEP(b.getInt8Ty(), sums0, b.CreateMul(first, b.getInt64(block.rows * cBytes())));
    }
    llvm::SmallVector<Pointer> pointers{
        {a0, block.rows * p.aRowStride * aBytes(), aStride ? rowsOf(block.rows) : nullptr},
        {c0, block.rows * p.cRowStride * cBytes()}};
    if (rowSums)
      pointers.push_back({sums0, block.rows * cBytes()});
    for (const PanelFetch &f : fetches) {
      pointers.push_back({lineAt(f, fetchedBy(done)), 0, b.CreateMul(f.stride, perBlock)});
      pointers.push_back({b.CreateSub(f.rows, fetchedBy(done)), 0, b.CreateNeg(perBlock)});
    }
    if (byNumber || slots)
      pointers.push_back({fetchedBy(done), 0, perBlock});
    loop(block.count, count, pointers, {}, rowsBody);
    row += block.rows * block.count;
    done = b.CreateAdd(done, count ? b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, count, b.getInt64(0))
                                   : b.getInt64(static_cast<uint64_t>(block.count)));
  }
  if (!rowsFrom && !rowsTo && !depth)
    return;
  for (const PanelFetch &f : fetches) // perhaps not all of them
    fetch(f, lineAt(f, fetchedBy(done)), b.CreateSub(f.rows, fetchedBy(done)));
  if (!byNumber || (!rowsFrom && !rowsTo))
    return;
  V last = sequences.front().last;
  for (const LineSequence &sequence : llvm::drop_begin(sequences))
    last = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, last, sequence.last);
  loop(0, b.CreateSub(b.CreateAdd(last, b.getInt64(1)), fetchedBy(done)), {{fetchedBy(done), 1}}, {},
       [&](llvm::ArrayRef<V> number, llvm::ArrayRef<V>) -> llvm::SmallVector<V> {
         fetch(number[0]);
         return {};
       });
}

/// All of C for one block of k.
void DotEmitter::panels(int64_t k, V a, V bp, V c, bool accumulate) {
  if (p.nr == 1)
    return rows(k, a, bp, c, accumulate);
  loop(p.n / p.nr, {{bp, p.bPanelStride * bBytes()}, {c, p.nr * cBytes()}}, {},
       [&](llvm::ArrayRef<V> q, llvm::ArrayRef<V>) -> llvm::SmallVector<V> {
         rows(k, a, q[0], q[1], accumulate);
         return {};
       });
}

void DotEmitter::run(V a, V bp, V c, bool accumulate) {
  if (p.bBiased)
    sumRows(a, nullptr);
  int64_t kBlock = p.kBlock, blocks = p.k / kBlock;
  if (!accumulate) {
    panels(kBlock, a, bp, c, false);
    if (--blocks == 0)
      return;
    a = at(a, kBlock * p.aDepthStride * aBytes());
    bp = at(bp, kBlock * p.nr * bBytes());
  }
  loop(blocks, {{a, kBlock * p.aDepthStride * aBytes()}, {bp, kBlock * p.nr * bBytes()}}, {},
       [&](llvm::ArrayRef<V> q, llvm::ArrayRef<V>) -> llvm::SmallVector<V> {
         panels(kBlock, q[0], q[1], c, true);
         return {};
       });
}

llvm::Value *truncTf32(VecEmitter &v, llvm::Value *x) {
  Arith a(v);
  V cut = a.floatOf(a.and_(a.bitsOf(x), 0xFFFFE000));
  // A NaN whose payload is in the dropped bits must not become infinity.
  return a.b.CreateSelect(a.isNan(x), x, cut);
}

PanelDot::PanelDot(VecEmitter &v, const CpuTarget &target, const DotPlan &p, V a, V aStride, bool accumulate)
    : emitter_(std::make_unique<DotEmitter>(v, target, p, aStride)), p_(p), accumulate_(accumulate), a_(a) {}
PanelDot::~PanelDot() = default;

void PanelDot::at(V kBytes) {
  rows_ = emitter_->rowPointers(emitter_->v.b.CreateGEP(emitter_->v.b.getInt8Ty(), a_, kBytes), emitter_->firstRows());
}

void PanelDot::sumRows(V depth) {
  if (p_.bBiased)
    emitter_->sumRows(a_, depth);
}

llvm::SmallVector<V> PanelDot::begin() { return emitter_->starts(emitter_->firstRows(), emitter_->rowSums); }

llvm::SmallVector<V> PanelDot::step(llvm::ArrayRef<V> carried, int64_t depth, V kBytes, V panel) {
  llvm::IRBuilder<> &b = emitter_->v.b;
  llvm::SmallVector<V> acc(carried), rows;
  for (V row : rows_)
    rows.push_back(b.CreateGEP(b.getInt8Ty(), row, kBytes));
  for (int64_t i = 0; i < depth / p_.kGroup; ++i)
    emitter_->multiplyStep(emitter_->firstRows(), i, rows, panel, acc);
  return acc;
}

void PanelDot::finish(llvm::ArrayRef<V> carried, V c) {
  emitter_->addToC(emitter_->firstRows(), carried, c, accumulate_);
}

void PanelDot::rest(bool withoutFirst, V unless, V panel, V c) {
  emitter_->rows(p_.kBlock, rows_[0], panel, c, accumulate_, withoutFirst, unless);
}

bool PanelDot::narrow(bool half) {
  constexpr unsigned wide = 4; // vectors
  const unsigned vectors = p_.nr / emitter_->lanesOfRow();
  if (vectors < wide)
    return false;
  emitter_->setHalf(half);
  return true;
}

int64_t PanelDot::depthUnit(const DotPlan &p) { return DotEmitter::unrolled(p.kBlock / p.kGroup) * p.kGroup; }

void PanelDot::limit(V from, V to, V depth) {
  emitter_->rowsFrom = from, emitter_->rowsTo = to, emitter_->depth = depth;
}

void emitDot(VecEmitter &v, const CpuTarget &target, const DotPlan &p, V a, V bPacked, V c, bool accumulate,
             V aStride) {
  DotEmitter(v, target, p, aStride).run(a, bPacked, c, accumulate);
}

} // namespace tegula::cpu
