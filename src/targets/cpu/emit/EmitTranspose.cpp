// Order of lanes in nests that write packed operands, and the shuffles between two orders.
//
// Such a nest should read whole vectors in the order of its source and write whole vectors in the order of its target.
// Where these differ (a transposed operand, pairs of k rows side by side), the lanes of a chunk are the bits that are
// contiguous in either:
//
//   target: 16 columns in a row    source: 16 elements of k in a row    chunk: lanes {n0 n1 n2 n3 k0 k1 k2 k3}, 16 vectors
//
// A chunk is loaded piece by piece; a piece is a vector whose lanes are some of these bits, the others are the number
// of the piece. transposeLanes() exchanges bits of both kinds, one at a time, by shuffles of two vectors: 4 times 16 of
// them in the example.
#include "targets/cpu/emit/Emitter.h"
#include "targets/cpu/plan/Uses.h"
#include <algorithm>

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;
using Labels = llvm::SmallVector<unsigned, 10>;

V concatenate(llvm::IRBuilder<> &b, std::vector<V> parts) {
  while (parts.size() > 1) {
    std::vector<V> next;
    auto *t = llvm::dyn_cast<llvm::FixedVectorType>(parts[0]->getType());
    llvm::SmallVector<int, 64> all(2 * (t ? t->getNumElements() : 1));
    for (size_t k = 0; k < all.size(); ++k)
      all[k] = static_cast<int>(k);
    for (size_t i = 0; i < parts.size(); i += 2)
      next.push_back(b.CreateShuffleVector(parts[i], parts[i + 1], all));
    parts = std::move(next);
  }
  return parts[0];
}

namespace {

/// Vectors whose element e of vector r is lane {bits of e named by `lane`, bits of r named by `vector`} of the chunk.
struct Chunk {
  llvm::IRBuilder<> &b;
  std::vector<V> vectors;
  Labels lane, vector;

  /// Lane bit `leaving` and vector bit `entering` change places; the lanes then have the order `order`.
  void exchange(unsigned leaving, unsigned entering, const Labels &order);
  /// Two vectors that differ in bit `label` of their number become one.
  void join(unsigned label);
  void sortVectors();

private:
  size_t positionOf(const Labels &l, unsigned label) const {
    return static_cast<size_t>(std::find(l.begin(), l.end(), label) - l.begin());
  }
};

void Chunk::exchange(unsigned leaving, unsigned entering, const Labels &order) {
  size_t bit = positionOf(vector, entering), count = size_t(1) << lane.size();
  // Lane e of the result: the vector with bit `entering` as e has it, the element with bit `leaving` as the result's
  // number has it.
  llvm::SmallVector<int, 64> pick[2];
  for (unsigned high = 0; high < 2; ++high)
    for (size_t e = 0; e < count; ++e) {
      size_t from = 0, second = 0;
      for (size_t i = 0; i < order.size(); ++i) {
        if (order[i] == entering)
          second = e >> i & 1;
        else
          from |= (e >> i & 1) << positionOf(lane, order[i]);
      }
      from |= size_t(high) << positionOf(lane, leaving);
      pick[high].push_back(static_cast<int>(second * count + from));
    }
  for (size_t r = 0; r < vectors.size(); ++r)
    if (!(r >> bit & 1)) {
      V x = vectors[r], y = vectors[r | size_t(1) << bit];
      vectors[r] = b.CreateShuffleVector(x, y, pick[0]);
      vectors[r | size_t(1) << bit] = b.CreateShuffleVector(x, y, pick[1]);
    }
  vector[bit] = leaving;
  lane = order;
}

void Chunk::join(unsigned label) {
  size_t bit = positionOf(vector, label);
  std::vector<V> next;
  for (size_t r = 0; r < vectors.size(); ++r)
    if (!(r >> bit & 1))
      next.push_back(concatenate(b, {vectors[r], vectors[r | size_t(1) << bit]}));
  vectors = std::move(next);
  lane.push_back(label);
  vector.erase(vector.begin() + static_cast<long>(bit));
}

/// Vector bits in ascending order: only a matter of names.
void Chunk::sortVectors() {
  Labels sorted = vector;
  llvm::sort(sorted);
  std::vector<V> next(vectors.size());
  for (size_t r = 0; r < vectors.size(); ++r) {
    size_t to = 0;
    for (size_t i = 0; i < vector.size(); ++i)
      to |= (r >> i & 1) << positionOf(sorted, vector[i]);
    next[to] = vectors[r];
  }
  vectors = std::move(next);
  vector = sorted;
}

} // namespace

// `parts[r]` holds the lanes whose bits `inPart` are the element's number and whose bits `ofPart` are r. Gives all
// lanes in order.
V FunctionEmitter::transposeLanes(std::vector<V> parts, Labels inPart, Labels ofPart) {
  unsigned native = log2Exact(state_.target.vectorBits / elementBits(parts[0]->getType()));
  Chunk c{b_, std::move(parts), std::move(inPart), std::move(ofPart)};
  auto wanted = [&](unsigned label) { return label < native; };
  while (c.lane.size() < native && !c.vector.empty()) {
    auto best = std::find_if(c.vector.rbegin(), c.vector.rend(), wanted);
    c.join(best == c.vector.rend() ? c.vector.back() : *best);
  }
  Labels inOrder;
  for (unsigned i = 0; i < c.lane.size(); ++i)
    inOrder.push_back(i);
  while (true) {
    Labels entering, leaving;
    std::copy_if(c.vector.begin(), c.vector.end(), std::back_inserter(entering), wanted);
    std::copy_if(c.lane.begin(), c.lane.end(), std::back_inserter(leaving), [&](unsigned l) { return !wanted(l); });
    if (entering.empty())
      break;
    // Preferably at the place where it belongs; the last exchange puts all lanes in order.
    unsigned in = entering[0], out = leaving[0];
    for (unsigned l : entering)
      if (!wanted(c.lane[l])) {
        in = l;
        out = c.lane[l];
        break;
      }
    Labels order = c.lane;
    std::replace(order.begin(), order.end(), out, in);
    c.exchange(out, in, entering.size() == 1 ? inOrder : order);
  }
  if (c.lane != inOrder) {
    llvm::SmallVector<int, 64> pick;
    for (size_t e = 0; e < size_t(1) << c.lane.size(); ++e) {
      size_t from = 0;
      for (size_t i = 0; i < c.lane.size(); ++i)
        from |= (e >> c.lane[i] & 1) << i;
      pick.push_back(static_cast<int>(from));
    }
    for (V &x : c.vectors)
      x = b_.CreateShuffleVector(x, pick);
  }
  c.sortVectors();
  return concatenate(b_, std::move(c.vectors));
}

/// Bits with strides unit, 2 * unit, 4 * unit ...
static Bits contiguous(llvm::ArrayRef<int64_t> stride, int64_t unit) {
  Bits r;
  while (true) {
    auto next = std::find(stride.begin(), stride.end(), unit << r.size());
    if (next == stride.end())
      return r;
    r.push_back(static_cast<BitSource>(next - stride.begin()));
  }
}

// The bits of the space in which elements of that many bytes at `pointers`, needed at `at`, are contiguous, lowest
// first.
Bits FunctionEmitter::orderOfLanes(const ir::Value *pointers, unsigned bytes, const Bits &at) {
  const Lin l = lin(pointers); // a copy: asking for another may move it
  if (l.self)
    return {};
  llvm::SmallVector<int64_t, 24> stride(nest_->loopOf.size(), 0);
  auto add = [&](BitSource bit, Coef c) {
    if (bit >= 0)
      // a stride known at run time only is not contiguous
      stride[static_cast<size_t>(bit)] += c.s ? int64_t(1) << 62 : c.k;
  };
  for (size_t i = 0; i < at.size(); ++i)
    add(at[i], l.coef[i]);
  for (const Opaque &o : l.opaque) {
    const std::optional<Wrapped> of = wrapped(o.value->def);
    const Coef scale = scaleOf(l, o);
    const Lin *inner = of && !scale.s ? &lin(of->x) : nullptr;
    for (size_t i = 0; i < o.at.size(); ++i) {
      BitSource bit = o.at[i] >= 0 ? at[static_cast<size_t>(o.at[i])] : o.at[i];
      bool known = inner && inner->opaque.empty() && !inner->coef[i].s;
      add(bit, known ? Coef{inner->coef[i].k * scale.k} : Coef{int64_t(1) << 62});
    }
  }
  return contiguous(stride, std::max(1u, bytes));
}

// The same for the memory that `v` is computed from; empty if there is none, or more than one order. `bytes`: the
// elements' size. Allows few operations between load and `v`: they process a whole chunk, whose vectors must stay in
// registers.
Bits FunctionEmitter::sourceOrder(const ir::Value *v, const Bits &at, bool root, unsigned &budget, unsigned &bytes) {
  if (v->type.isScalar() || v->type.isPtr || budget == 0)
    return {};
  --budget;
  llvm::SmallVector<bool, 24> seen(nest_->loopOf.size(), false);
  for (BitSource s : at)
    if (s >= 0)
      seen[static_cast<size_t>(s)] = true;
  if (llvm::is_contained(seen, false)) // repeats: small
    return {};
  int buffer = plan_.bufferFor(v);
  if (buffer >= 0 && !root) {
    const Buffer &b = plan_.buffers[static_cast<size_t>(buffer)];
    llvm::SmallVector<int64_t, 24> stride(nest_->loopOf.size(), 0);
    for (size_t i = 0; i < at.size(); ++i)
      if (at[i] >= 0)
        stride[static_cast<size_t>(at[i])] = b.stride[i];
    bytes = b.element.isPtr ? 8 : ir::byteWidth(b.element.elem);
    return contiguous(stride, 1);
  }
  if (!v->def)
    return {};
  const Op &op = *v->def;
  if (op.kind == OpKind::Load) {
    bytes = v->type.isPtr ? 8 : ir::byteWidth(v->type.elem);
    return orderOfLanes(op.operands[0], bytes, at);
  }
  bool shape = op.has(ir::traits::Shape) && op.kind != OpKind::Join && op.kind != OpKind::Cat;
  if (!shape && !(op.has(ir::traits::Elementwise) && opCost(op) <= 4))
    return {};
  Bits found;
  for (unsigned i = 0; i < op.operands.size(); ++i) {
    Bits one = sourceOrder(op.operands[i], operandBits(op, i, v->index, at), false, budget, bytes);
    if (!found.empty() && !one.empty() && found != one)
      return {};
    if (found.empty())
      found = one;
  }
  return found;
}

/// Are the taken bits of each dimension its lowest ones? Loops run over what is left.
static bool leavesLoops(const ir::Shape &s, const Bits &lanes) {
  for (unsigned d = 0; d < s.rank(); ++d) {
    unsigned from = dimOffset(s, d), taken = 0, end = from;
    for (BitSource l : lanes)
      if (unsigned bit = static_cast<unsigned>(l); bit >= from && bit < from + dimBits(s, d)) {
        ++taken;
        end = std::max(end, bit + 1);
      }
    if (end != from + taken)
      return false;
  }
  return true;
}

/// Made of integer comparisons, which loops are split by: no vectors of a chunk are needed for it inside.
static bool splitsLoops(const ir::Value *mask, unsigned depth = 0) {
  if (!mask->def || depth > 12)
    return false;
  const Op &op = *mask->def;
  if (op.kind == OpKind::CmpI)
    return !op.operands[0]->type.isPtr;
  bool passes = op.kind == OpKind::And || isView(op);
  return passes && llvm::all_of(op.operands, [&](const ir::Value *v) { return splitsLoops(v, depth + 1); });
}

// Lanes of a nest that copies into one buffer, or stores one tile, if another order than the lowest bits is better;
// else empty. The first `vectorBits` of them are a vector of what is written.
Bits FunctionEmitter::packingLanes(const Nest &n, unsigned &vectorBits) {
  if (plan_.groupsColumns())
    return {};
  if (n.roots.size() != 1 || nest_->copyFrom >= 0 || n.space.rank() > 4)
    return {};
  const Root &root = n.roots[0];
  const ir::Value *value = root.value;
  unsigned targetBytes = 1;
  int64_t lowest = 1; // stride of the lowest bit
  Bits target, all = identityBits(bitCount(n.space));
  if (root.kind == RootKind::Materialize) {
    const Buffer &b = plan_.buffers[static_cast<size_t>(root.buffer)];
    if (b.element.isPtr || b.element.elem == ir::Elem::I1 || b.stride.size() != bitCount(n.space) || b.stride.empty())
      return {};
    targetBytes = ir::byteWidth(b.element.elem), lowest = b.stride[0];
    target = contiguous(b.stride, 1);
  } else if (root.kind == RootKind::Store && !state_.options.checked) {
    const Op &op = *root.op;
    value = op.operands[1];
    const ir::Type &t = value->type;
    if (op.isVolatile() || t.isPtr || t.elem == ir::Elem::I1 || all.empty() ||
        (op.operands.size() > 2 && !splitsLoops(op.operands[2])))
      return {};
    targetBytes = ir::byteWidth(t.elem);
    target = orderOfLanes(op.operands[0], targetBytes, all);
  } else {
    return {};
  }
  const unsigned registerBits = state_.target.vectorBits;
  unsigned budget = 8, bytes = 1;
  Bits source;
  if (!state_.options.checked)
    source = sourceOrder(value, all, root.makes, budget, bytes);
  auto native = [&](unsigned elementBytes) { return log2Exact(std::max(1u, registerBits / 8 / elementBytes)); };
  auto front = [](const Bits &bits, unsigned count) { return Bits(llvm::ArrayRef(bits).take_front(count)); };
  auto outside = [&](BitSource bit) { // of the panel at hand
    unsigned columns = n.columnBits(), i = static_cast<unsigned>(bit);
    return n.panelDepthBits && (i < columns ? i >= n.panelColumnBits : i - columns >= n.panelDepthBits);
  };
  // A panel of groups (Dot.h: consecutive k side by side) has more than one vector of lanes to read whole vectors, too.
  constexpr int64_t mostInGroup = 4; // else columns are together
  bool groups = root.kind == RootKind::Materialize && lowest > 1 && lowest <= mostInGroup;
  Bits lanes = front(target, groups ? std::min(6u, native(targetBytes) + log2Exact(lowest)) : native(targetBytes));
  unsigned run = 0; // bits of the source that are contiguous in these lanes
  while (run < source.size() && llvm::is_contained(lanes, source[run]))
    ++run;
  vectorBits = static_cast<unsigned>(lanes.size());
  bool goodRun = run == source.size() || (bytes << run) >= std::min(16u, registerBits / 8);
  if (!goodRun && target.size() >= 2 && source.size() >= 2) {
    // Stores have a copy with masks, whose code grows with the lanes: rows of 16 elements are enough.
    unsigned row = native(std::max(targetBytes, bytes));
    lanes = front(target, root.kind == RootKind::Store ? std::min(4u, row) : row);
    vectorBits = static_cast<unsigned>(lanes.size());
    unsigned added = 0, most = registerBits >= 512 ? 4 : 3; // 16 or 8 vectors
    for (BitSource bit : front(source, native(bytes)))
      if (added < most && !llvm::is_contained(lanes, bit) && !outside(bit)) {
        lanes.push_back(bit);
        ++added;
      }
  } else if (!groups && (root.kind != RootKind::Materialize || n.panelDepthBits || lanes.empty() || lanes[0] == 0)) {
    return {}; // else a copy of columns, which are together on both sides
  }
  if (llvm::any_of(lanes, outside))
    return {};
  return leavesLoops(n.space, lanes) ? lanes : Bits{};
}

// What `emit` emits under masks: chunks of several vectors, which are for loads of whole vectors, are done vector by
// vector there, in a loop, as masks and addresses of all their elements would be thousands of instructions.
void FunctionEmitter::apart(llvm::function_ref<void()> emit) {
  NestState &n = *nest_;
  if (!n.vectors.bits)
    return emit();
  const unsigned laneBits = n.laneBits;
  const size_t mixed = mixed_.mark();
  auto set = [&](bool loops) {
    n.laneBits = loops ? n.vectorBits : laneBits;
    for (unsigned i = 0; i < n.vectors.bits; ++i) {
      n.laneOf[n.vectors.firstBit + i] = loops ? -1 : static_cast<int>(n.vectorBits + i);
      n.loopOf[n.vectors.firstBit + i] = loops ? static_cast<int>(n.loops.size()) : -1;
    }
    n.apart = loops;
  };
  // Vectors that were computed before here have more lanes.
  std::vector<std::map<std::pair<const ir::Value *, Bits>, V>> memo(n.memo.size() + 1);
  std::vector<std::map<std::pair<const void *, Bits>, V>> addresses(n.memo.size() + 1);
  memo.swap(n.memo);
  addresses.swap(n.addressMemo);
  set(true);
  n.loops.push_back(n.vectors);
  emit();
  n.loops.pop_back();
  set(false);
  memo.swap(n.memo);
  addresses.swap(n.addressMemo);
  mixed_.backTo(mixed);
}

} // namespace tegula::cpu
