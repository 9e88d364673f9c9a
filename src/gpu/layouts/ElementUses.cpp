// See ElementUses.h.
#include "gpu/layouts/ElementUses.h"
#include "gpu/Dots.h"
#include "gpu/Layouts.h"
#include "layout/Constructors.h"
#include <algorithm>
#include <unordered_set>

namespace tegula::gpu {

using ir::Op;
using ir::OpKind;
using ir::Value;

/// Does the operation have one result, each element of which comes from one element of each operand?
static bool followsElements(const Op &op) {
  return op.results.size() == 1 && (op.has(ir::traits::Elementwise) || renames(op.kind) || op.kind == OpKind::Join);
}

void JoinedStores::add(const Users &users, const ir::Block &b) {
  // Users first: they come after the value, or are in regions.
  for (auto op = b.ops.rbegin(); op != b.ops.rend(); ++op) {
    for (auto r = (*op)->regions.rbegin(); r != (*op)->regions.rend(); ++r)
      add(users, *(*r)->block);
    for (const Value *v : (*op)->results)
      if (Bytes bytes = of(users, v); bytes.stored)
        bytes_[v] = bytes;
  }
}

JoinedStores::Bytes JoinedStores::of(const Users &users, const Value *v) const {
  Bytes out;
  for (const Op *u : users.of(v)) {
    Bytes next;
    if (u->kind == OpKind::Store) {
      if (u->operands[1] == v)
        next.stored = ir::byteWidth(v->type.elem);
    } else if (u->kind != OpKind::Broadcast && followsElements(*u)) {
      if (auto known = bytes_.find(u->result()); known != bytes_.end())
        next = known->second;
      if (u->kind == OpKind::Join)
        next.joined = next.stored *= 2;
    }
    if (!out.joined)
      out.joined = next.joined;
    if (!out.stored)
      out.stored = next.stored;
  }
  return out;
}

unsigned JoinedStores::bytesOf(const Value *v) const {
  auto known = bytes_.find(v);
  return known != bytes_.end() ? known->second.joined : 0;
}

unsigned tileBytes(const Users &users, const Value *v, unsigned depth,
                   const std::function<bool(const Op &)> &readsTiles) {
  if (!depth)
    return 0;
  for (const Op *u : users.of(v)) {
    unsigned bytes = 0;
    if (u->kind == OpKind::Dot)
      bytes = u->operands[2] != v && readsTiles(*u) ? ir::byteWidth(v->type.elem) : 0;
    else if (followsElements(*u))
      bytes = tileBytes(users, u->result(), depth - 1, readsTiles);
    if (bytes)
      return bytes;
  }
  return 0;
}

bool isSplit(const Users &users, const Value *v, unsigned depth) {
  return depth && std::ranges::any_of(users.of(v), [&](const Op *u) {
           return u->kind == OpKind::Split ||
                  (u->results.size() == 1 && u->has(ir::traits::Elementwise) && isSplit(users, u->result(), depth - 1));
         });
}

bool feedsDot(const Users &users, const Value *v, unsigned depth) {
  return depth && std::ranges::any_of(users.of(v), [&](const Op *u) {
           return u->kind == OpKind::Dot ? u->operands[2] != v
                                         : followsElements(*u) && feedsDot(users, u->result(), depth - 1);
         });
}

const Op *scanBeside(const Users &users, const Op &reduce) {
  for (const Value *v : reduce.operands)
    for (const Op *u : users.of(v))
      if (u->kind == OpKind::Scan && u->parent == reduce.parent && u->axis() == reduce.axis())
        return u;
  return nullptr;
}

const Op *memoryUser(const Users &users, const Value *v, unsigned depth) {
  if (depth == 0)
    return nullptr;
  for (const Op *u : users.of(v)) {
    bool isAccess = u->kind == OpKind::Load || u->kind == OpKind::Store || u->kind == OpKind::AtomicRmw ||
                    u->kind == OpKind::AtomicCas;
    if (isAccess && (u->operands[0] == v || u->mask() == v))
      return u;
  }
  for (const Op *u : users.of(v))
    if (u->has(ir::traits::Elementwise) && u->result()->type.shape == v->type.shape)
      if (const Op *found = memoryUser(users, u->result(), depth - 1))
        return found;
  return nullptr;
}

namespace {

/// The search of pathToTile(): it visits each value once.
struct TileSearch {
  const Users &users;
  unsigned depth;
  std::unordered_set<const Value *> seen = {};
  std::vector<const Op *> path = {};

  bool find(const Value *v, unsigned work, bool isBroadcast) {
    for (const Op *u : users.of(v)) {
      const bool isElementwise = u->has(ir::traits::Elementwise) && u->results.size() == 1;
      const bool moves = u->kind == OpKind::Join || (renames(u->kind) && u->kind != OpKind::Splat);
      if ((!isElementwise && !moves) || work + isElementwise > depth || !seen.insert(u->result()).second)
        continue;
      path.push_back(u);
      auto isData = [](const Value *o) {
        return !o->def || !(renames(o->def->kind) || o->def->kind == OpKind::Const || o->def->kind == OpKind::Range);
      };
      if (isElementwise && isBroadcast && std::any_of(u->operands.begin(), u->operands.end(), isData))
        return true;
      if (find(u->result(), work + isElementwise, isBroadcast || u->kind == OpKind::Broadcast))
        return true;
      path.pop_back();
    }
    return false;
  }
};

} // namespace

std::vector<const Op *> pathToTile(const Users &users, const Value *v, unsigned depth) {
  TileSearch search{users, depth};
  search.find(v, 0, false);
  return std::move(search.path);
}

std::vector<const Op *> scalesIn(const Users &users, const Op &load, unsigned depth) {
  if (load.kind != OpKind::Load || !load.result()->type.isTensor() || load.isVolatile() || !isInFor(load) ||
      feedsDot(users, load.result(), 8))
    return {};
  std::vector<const Op *> path = pathToTile(users, load.result(), depth);
  if (path.empty() || path.back()->parent != load.parent ||
      load.result()->type.numel() * 8 > path.back()->result()->type.numel())
    return {};
  return path;
}

std::optional<layout::LinearLayout> layoutBefore(std::span<const Op *const> path, layout::LinearLayout l) {
  for (size_t i = path.size() - 1; i-- > 0;) {
    const Op &op = *path[i];
    if (op.kind == OpKind::Join) {
      if (layout::splittable(l) != l)
        return std::nullopt;
      l = layout::slice(l, op.operands[0]->type.shape.rank());
    } else if (renames(op.kind)) {
      l = operandLayout(op, l);
    }
  }
  return l;
}

int64_t elementsOfWord(const Value *v, unsigned depth, const std::function<bool(const Value *)> &isCheap) {
  int64_t most = std::max<int64_t>(1, wordBytes / ir::byteWidth(v->type.elem));
  const Op *op = v->def;
  if (std::optional<Repeated> r = op && depth ? repeatedBy(*op) : std::nullopt)
    return std::max(most, r->times * elementsOfWord(r->of, depth - 1, isCheap));
  if (!op || !depth || op->kind == OpKind::Splat || op->kind == OpKind::Broadcast ||
      !(op->has(ir::traits::Elementwise) || renames(op->kind) || op->kind == OpKind::Join))
    return most;
  for (const Value *o : op->operands)
    if (o->type.isTensor() && o->type.elem != ir::Elem::I1 && !isCheap(o))
      most = std::max(most, (op->kind == OpKind::Join ? 2 : 1) * elementsOfWord(o, depth - 1, isCheap));
  return most;
}

int64_t runBeside(const Users &users, const AxisFacts &facts, const Op &load, unsigned axis, int64_t vec,
                  int64_t threads, const std::function<bool(const Op &)> &isPlain,
                  const std::function<bool(const Value *)> &isData) {
  const ir::Type &pointer = load.operands[0]->type;
  const int64_t bytes = ir::byteWidth(pointer.elem), perThread = pointer.shape.numel() / threads;
  const bool isWide = vec * bytes == 16;
  if (perThread <= vec || !isPlain(load))
    return 0;
  if (feedsDot(users, load.result(), 8)) {
    // Two words where the addresses, one for each run, would take the registers that accumulators leave, or where the
    // elements are combined with others before the dot.
    constexpr int64_t mostRuns = 16, manySums = 128;
    const int64_t word = std::min(wordBytes / bytes, perThread),
                  contiguity = facts.of(load.operands[0], axis).contiguity;
    if (vec >= word || contiguity < word)
      return 0;
    const bool isAlone =
        std::ranges::all_of(users.of(load.result()), [](const Op *u) { return u->kind == OpKind::Dot; });
    return ((perThread > word * mostRuns && registersOfDots(*load.parent, threads) >= manySums) || !isAlone) &&
                   contiguity >= 2 * word
               ? std::min(2 * word, perThread)
               : word;
  }
  constexpr size_t most = 32; // values
  std::vector<const Value *> work{load.result()};
  auto meet = [&](const Value *v) {
    if (v->type.shape == pointer.shape && work.size() < most && isData(v) && std::ranges::find(work, v) == work.end())
      work.push_back(v);
  };
  int64_t run = 0, moved = perThread; // elements of a thread that would cross shared memory
  for (size_t i = 0; i < work.size(); ++i) {
    for (const Op *u : users.of(work[i]))
      if (u->has(ir::traits::Elementwise) && u->results.size() == 1)
        meet(u->result());
    const Op *def = work[i]->def;
    if (def && def->has(ir::traits::Elementwise))
      std::ranges::for_each(def->operands, meet);
    if (!def || def == &load || !isPlain(*def))
      continue;
    const int64_t narrow = ir::byteWidth(work[i]->type.elem),
                  own = std::min(facts.vectorWidth(def->operands[0], def->mask(), axis), 16 / narrow);
    const bool isAligned = facts.of(def->operands[0], axis).divisibility % (own * narrow) == 0;
    if ((isWide ? narrow < bytes : narrow == bytes) && isAligned)
      run = std::max(run, own);
    if (narrow == bytes && (!isAligned || own * narrow < 16))
      moved += perThread;
  }
  constexpr int64_t many = 64;
  if (!isWide && moved < many)
    return 0;
  run = std::min({run, perThread, (isWide ? sectorBytes : 16) / bytes});
  return run > vec && facts.of(load.operands[0], axis).contiguity >= run ? run : 0;
}

bool isInFor(const Op &op) {
  const Op *around = op.parent->parent->op;
  return around && around->kind == OpKind::For;
}

} // namespace tegula::gpu
