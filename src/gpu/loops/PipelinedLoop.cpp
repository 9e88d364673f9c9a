// See PipelinedLoop.h. Here: plan(), which selects loads and dots. RingSizes.cpp: the number of slots;
// PipelinedBody.cpp: the rewritten body.
#include "gpu/loops/PipelinedLoop.h"
#include "gpu/BlockEdit.h"
#include "gpu/Dots.h"
#include "gpu/Fragments.h"
#include "gpu/Layouts.h"
#include "gpu/loops/CopyLoads.h"
#include "gpu/shared/SharedNeeds.h"
#include "gpu/shared/Tiles.h"
#include "layout/Constructors.h"
#include "layout/Conversion.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

bool PipelinedLoop::plan() {
  if (std::optional<std::string> reason = obstacleOfLoop(loop_))
    return remarks_.notPipelined(*reason), false;
  if (!hasDot(loop_))
    return remarks_.notPipelined("it has no dot, and loads are started early only for those"), false;
  findCopies();
  findAsyncRings(body_);
  findAsyncDots();
  if (rings_.empty() && waits_.waits.empty()) {
    if (loadsOfDots(body_).empty())
      remarks_.notPipelined("nothing is loaded in it that its dots are computed from");
    return false;
  }
  return fitMemory();
}

/// Marks the rings that only the second dot reads (attention: the values) as late, so that the copies of the first
/// dot's tiles need not wait for those to be free. Only with two stages, where the first dot's tiles could not be
/// filled ahead otherwise. With three stages the second wait costs more than it gains (docs/performance-history.md).
void PipelinedLoop::findLate() {
  leaveLate();
  if (options_.numCtas > 1 || dots_.size() < 2 || stages_ > 2)
    return;
  for (Ring &r : rings_) {
    const Value *v = r.source->result();
    std::vector<Op *> users = usersIn(body_, v);
    while (users.size() == 1 && (users[0]->kind == OpKind::Permute || users[0]->kind == OpKind::Reshape ||
                                 users[0]->kind == OpKind::ToShared)) {
      v = users[0]->result();
      users = usersIn(body_, v);
    }
    r.isLate = r.inStages && users.size() == 1 && users[0] == dots_[1] && ringOfTile(v) == &r;
  }
  if (!anyRing([](const Ring &r) { return r.inStages && !r.isLate; }))
    leaveLate();
}

void PipelinedLoop::leaveLate() {
  for (Ring &r : rings_)
    r.isLate = false;
}

void PipelinedLoop::waitForLate() {
  if (!barriers_.lateFull)
    return;
  Block here;
  b_.setBlock(&here);
  b_.setLoc(loop_.loc);
  b_.setInlinedAt(loop_.inlinedAt);
  waitFor(barriers_.lateFull, slot_[stages_], phase_, false);
  splice(here, body_, positionOf(body_, dots_[1]));
}

/// The layout that a tile of this load needs so that asynchronous dots read it directly; 0 if no user does.
uint16_t PipelinedLoop::wantedLayout(const Value *v) {
  for (const Op *user : usersIn(body_, v)) {
    if (user->kind == OpKind::ToShared)
      return user->result()->type.layout;
    if (user->kind == OpKind::Permute || user->kind == OpKind::Reshape)
      if (uint16_t l = wantedLayout(user->result()))
        return module_.internLayout(operandLayout(*user, LinearLayout(module_.layouts[l - 1u])));
  }
  return 0;
}

/// The conversion of a loaded tile, or of a fragment that is computed from it element by element and reads the tile in
/// the fragment's layout (HoistConverts.h); null: there is none.
const Op *PipelinedLoop::readerOf(const Value *v) const {
  const std::vector<Op *> users = usersIn(body_, v);
  for (const Op *user : users)
    if (user->kind == OpKind::Convert)
      return user;
  for (const Op *user : users)
    if (user->has(traits::Elementwise) && user->results.size() == 1)
      if (const Op *convert = readerOf(user->result()); convert && isFragment(body_, convert->result()))
        return convert;
  return nullptr;
}

/// The tile layout for a load that threads read back in another layout than they have loaded it in: the candidate with
/// the fewest bank conflicts. Matrix moves may transpose bytes on the way to a dot. Operands that are multiplied by
/// unpacked weights are read eight elements at a time, which takes two wavefronts in the swizzle for matrix moves.
LinearLayout PipelinedLoop::tileForReads(const Op &load, LinearLayout plain) {
  const Type &t = load.result()->type;
  const unsigned bytes = byteWidth(t.elem);
  if (t.shape.rank() != 2 || load.vec() * bytes != 16)
    return plain;
  const unsigned axis = contiguousAxis(module_.layoutOf(t), bytes);
  const Op *convert = readerOf(load.result());
  if (!convert)
    return plain;
  const LinearLayout read = module_.layoutOf(convert->result()->type);
  if (std::optional<LinearLayout> rows = rowsForTurns(t, read, axis, load.vec(), target_.conversions()))
    return *rows;
  auto wavefronts = [&](const LinearLayout &tile) {
    const layout::SharedSide side =
        layout::planSharedAccess(read, tile, 8 * bytes, /*store=*/false, target_.conversions());
    return side.accesses.size() * side.wavefronts;
  };
  LinearLayout best = plain;
  const std::span<const uint64_t> lanes = read.bases(layout::Dim::Lane);
  // lanes that an access serves together: eight read 16 bytes each, sixteen read two words of a 16-bit fragment each
  for (size_t bits : {3u, 4u}) {
    const LinearLayout rows =
        layout::sharedRows(t.shape, lanes.first(std::min(bits, lanes.size())), axis, load.vec(), 8 * bytes);
    if (wavefronts(rows) < wavefronts(best))
      best = rows;
  }
  return best;
}

Type PipelinedLoop::tileOf(const Op &load) {
  const Type &t = load.result()->type;
  if (load.kind == OpKind::DescLoad)
    return Type::shared(t.shape, t.elem, module_.internLayout(target_.blockTile(load)));
  // Asynchronous dots read operands of 8 and 32 bits K-major. Where the load is contiguous along the other axis, the
  // operands pass through registers.
  uint16_t l = wantedLayout(load.result());
  int64_t vec = load.vec();
  const LinearLayout registers = module_.layoutOf(t);
  const bool isTurned = l && !keepsVectors(LinearLayout(module_.layouts[l - 1u]), registers, vec);
  if (isTurned && t.shape.rank() == 2 && vec * byteWidth(t.elem) == 16) // the threads that copy it read it
    l = module_.internLayout(
        layout::sharedRows(registers, contiguousAxis(registers, byteWidth(t.elem)), vec, 8 * byteWidth(t.elem)));
  else if (!l || isTurned)
    l = module_.internLayout(tileForReads(load, plainTile(t, registers, vec)));
  return Type::shared(t.shape, t.elem, l);
}

/// The loads that `v` is computed from in the body by arithmetic, if each has few elements and addresses that are known
/// ahead; nothing otherwise.
std::optional<std::vector<const Op *>> PipelinedLoop::stagedLoadsOf(const Value *v) {
  constexpr int64_t mostOfThread = 8;
  const int64_t most = mostOfThread * target_.lanes() * options_.numWarps;
  std::vector<const Op *> loads;
  std::unordered_set<const Op *> seen;
  auto walk = [&](auto &&self, const Value *x) -> bool {
    const Op *op = x->def;
    if (!slice_.isInside(x) || !op || !seen.insert(op).second)
      return true;
    if (op->kind == OpKind::Load) {
      loads.push_back(op);
      return op->result()->type.isTensor() &&
             std::all_of(op->operands.begin(), op->operands.end(), [&](const Value *o) { return slice_.add(o); });
    }
    return op->kind != OpKind::Convert &&
           std::all_of(op->operands.begin(), op->operands.end(), [&](const Value *o) { return self(self, o); });
  };
  if (!walk(walk, v) || loads.empty() || !slice_.add(v, most))
    return std::nullopt;
  return loads;
}

/// Can the addresses and the mask be computed ahead of the iteration?
bool PipelinedLoop::isKnownAhead(const Op &load) {
  // One index, or one for each row of a tile.
  const int64_t mostIndices = startsCopies_ || gathers_ ? 512 : 0;
  return std::ranges::all_of(load.operands, [&](const Value *v) { return slice_.add(v, mostIndices); });
}

/// Is `v` the result of one load, possibly converted element by element, and can that load be copied ahead? The
/// conversion between threads then reads the copy (HoistConverts.h).
bool PipelinedLoop::isCopyable(const Value *v) {
  while (v->def && slice_.isInside(v) && v->def->operands.size() == 1 &&
         (v->def->has(traits::Elementwise) || renames(v->def->kind)))
    v = v->def->operands[0];
  return v->def && slice_.isInside(v) && v->def->kind == OpKind::Load && !obstacleOfCopy(*v->def) &&
         isKnownAhead(*v->def);
}

/// Finds layout conversions between threads of values computed from a few loaded elements, such as the zero points of
/// quantized groups. Their exchange moves ahead, where the ring's barrier also covers it.
void PipelinedLoop::findStaged() {
  std::unordered_set<const Op *> loads;
  for (Op *op : body_.ops) {
    if (op->kind != OpKind::Convert || op->result()->type.isPtr || op->result()->type.elem == Elem::I1)
      continue;
    const LinearLayout &from = module_.layoutOf(op->operands[0]->type), &to = module_.layoutOf(op->result()->type);
    // Full operands are copied from memory instead.
    constexpr uint64_t mostBytes = 8192;
    if (layout::exchangeScope(from, to) <= layout::ExchangeScope::Warp || slotBytes(op->result()->type) > mostBytes)
      continue;
    std::vector<Op *> users = usersIn(body_, op->result());
    if (std::any_of(users.begin(), users.end(),
                    [](const Op *user) { return user->kind == OpKind::ToShared || user->kind == OpKind::Dot; }) ||
        isCopyable(op->operands[0]))
      continue;
    std::optional<std::vector<const Op *>> of = stagedLoadsOf(op->operands[0]);
    if (!of)
      continue;
    loads.insert(of->begin(), of->end());
    const Type &t = op->result()->type;
    Ring r;
    r.source = op;
    r.tile = Type::shared(t.shape, t.elem, module_.internLayout(layout::sharedByThreads(to)));
    r.isCopied = r.isStaged = true;
    rings_.push_back(r);
  }
  for (const Op *op : body_.ops)
    if (loads.count(op))
      stagedLoads_.push_back(op);
}

/// Does each element of the tile have an address of its own, other than the sum of a row part and a column part? This
/// is a table lookup by a function of row and column.
static bool isLookedUp(const Value *pointer, std::unordered_set<const Value *> &seen) {
  const Op *op = pointer->def;
  if (!pointer->type.isTensor() || pointer->type.shape.rank() < 2 || !op || !seen.insert(pointer).second)
    return false;
  switch (op->kind) {
  case OpKind::Add:
  case OpKind::Sub:
  case OpKind::Mul:
  case OpKind::AddPtr:
  case OpKind::SExt:
  case OpKind::ZExt:
  case OpKind::Trunc:
  case OpKind::Convert:
  case OpKind::Const:
  case OpKind::Splat:
  case OpKind::Broadcast:
    break;
  default:
    if (!renames(op->kind))
      return true;
  }
  return std::ranges::any_of(op->operands, [&](const Value *o) { return isLookedUp(o, seen); });
}

/// Does a dot read the tile directly, or through views?
static bool isOperand(const Block &body, const Value *v) {
  return std::ranges::any_of(usersIn(body, v), [&](const Op *u) {
    return u->kind == OpKind::Dot || u->kind == OpKind::ToShared || (isView(u->kind) && isOperand(body, u->result()));
  });
}

/// Is a plain load cheaper than copies? Copies of single scattered elements take one turn each, while a warp's load
/// takes one for all contiguous elements: biases by the clipped distance of query and key (attention 128x128, D=64,
/// H200: 2034 us, by loads 497). Operands of dots have to come to shared memory in any case.
static bool isBetterLoaded(const Block &body, const Op &load) {
  constexpr unsigned word = 4;
  const Type &t = load.result()->type;
  if (load.kind != OpKind::Load || t.shape.rank() < 2 || load.vec() != 1 || byteWidth(t.elem) != word ||
      isOperand(body, load.result()))
    return false;
  std::unordered_set<const Value *> seen;
  return isLookedUp(load.operands[0], seen);
}

void PipelinedLoop::findCopies() {
  remarks_.otherLoads(loadsOfDots(body_));
  if (startsCopies_)
    findStaged();
  std::unordered_set<const Op *> staged;
  for (const Ring &r : rings_)
    staged.insert(r.source);
  const std::vector<Op *> loads = loadsOfDots(body_, staged);
  for (Op *load : loads) {
    if (std::optional<std::string> reason = obstacleOfCopy(*load)) {
      remarks_.notCopied(*load, *reason);
      continue;
    }
    if (!isKnownAhead(*load)) {
      remarks_.notComputedAhead(*load);
      continue;
    }
    if (isBetterLoaded(body_, *load)) {
      remarks_.notCopied(*load, "each element has an address of its own, for which a copy takes longer than a load");
      continue;
    }
    Ring r;
    r.source = load;
    r.tile = tileOf(*load);
    r.isCopied = true;
    r.inStages = load->kind == OpKind::DescLoad || gathers_;
    rings_.push_back(r);
  }
  // Staged tiles alone do not justify rings.
  if (std::all_of(rings_.begin(), rings_.end(), [](const Ring &r) { return r.isStaged; })) {
    rings_.clear();
    stagedLoads_.clear();
  }
}

Ring *PipelinedLoop::ringOf(const Op *source) {
  auto it = std::find_if(rings_.begin(), rings_.end(), [&](const Ring &r) { return r.source == source; });
  return it == rings_.end() ? nullptr : &*it;
}

/// The ring that a dot's tile comes from; null if the tile is loop-invariant or has no ring. Only this user decides
/// whether it reads the tile of a load directly, by the same rule as in useTile(): other users of the load may need
/// another layout.
Ring *PipelinedLoop::ringOfTile(const Value *tile) {
  const Op *op = tile->def;
  if (!op || op->parent != &body_)
    return nullptr;
  if (Ring *r = ringOf(op))
    return r;
  std::vector<const Op *> views;
  for (op = op->operands[0]->def;
       op && op->parent == &body_ && (op->kind == OpKind::Permute || op->kind == OpKind::Reshape);) {
    views.push_back(op);
    op = op->operands[0]->def;
  }
  Ring *r = op && op->parent == &body_ ? ringOf(op) : nullptr;
  if (!r || !r->isCopied || r->isStaged)
    return nullptr;
  uint16_t layout = r->tile.layout;
  for (auto view = views.rbegin(); view != views.rend(); ++view)
    layout = module_.internLayout(resultLayout(**view, LinearLayout(module_.layouts[layout - 1u])));
  return layout == tile->type.layout ? r : nullptr;
}

/// Moves the operation that writes the registers of a dot's A right before the dot, so that the last iteration's dot,
/// which reads the same registers, can run until then. The operation does not move past another asynchronous dot of the
/// iteration, which would have to be waited for first (AsyncDots.cpp, hasInputsMadeBeside). It moves up before such a
/// dot where its operands allow that.
void PipelinedLoop::placeFragments(const Op &dot) {
  Op *made = dot.operands[0]->def;
  if (dot.operands[0]->type.isShared || !made || made->parent != &body_ || !made->has(traits::Pure) ||
      (!made->has(traits::Elementwise) && made->kind != OpKind::Convert))
    return;
  size_t known = 0; // after its operands
  for (const Value *v : made->operands)
    if (v->def && v->def->parent == &body_)
      known = std::max(known, positionOf(body_, v->def) + 1);
  size_t place = positionOf(body_, &dot);
  for (size_t i = place; i-- > known;)
    if (body_.ops[i]->kind == OpKind::Dot && isAsyncMma(*body_.ops[i]))
      place = i;
  const size_t now = positionOf(body_, made);
  auto isUser = [&](const Op *op) { return uses(*op, made->result()); };
  // Sink it only if the dot is its only user. A conversion stays: the time until the dot can hide its exchange.
  if (now < place && (made->kind == OpKind::Convert || std::ranges::count_if(body_.ops, isUser) != 1))
    return;
  body_.ops.erase(body_.ops.begin() + static_cast<long>(now));
  body_.ops.insert(body_.ops.begin() + static_cast<long>(place - (now < place)), made);
}

/// Marks rings that asynchronous dots read: their writes need a fence before those dots. This includes dots that are
/// waited for at once, such as those with 16-bit accumulators, and dots under an `if`.
void PipelinedLoop::findAsyncRings(const Block &block) {
  for (const Op *op : block.ops) {
    for (const Region *r : op->regions)
      findAsyncRings(*r->block);
    if (op->kind != OpKind::Dot || !isAsyncMma(*op))
      continue;
    for (unsigned i = 0; i < 2; ++i)
      if (Ring *r = op->operands[i]->type.isShared ? ringOfTile(op->operands[i]) : nullptr)
        r->feedsAsyncDot = true;
  }
}

/// Makes a branch that uses a dot's result yield it, if operations after the branch use the result, too. Those
/// operations then use one value, whether or not the branch has waited for the dot.
void PipelinedLoop::giveBack(Value *result) {
  for (size_t i = 0; i < body_.ops.size(); ++i) {
    Op *op = body_.ops[i];
    auto isUsed = [&](const Op *o) { return uses(*o, result); };
    if (op->kind != OpKind::If || !isUsed(op) ||
        std::none_of(body_.ops.begin() + static_cast<long>(i) + 1, body_.ops.end(), isUsed))
      continue;
    for (Region *side : op->regions)
      side->block->terminator()->operands.push_back(result);
    Value *after = module_.addResult(op, result->type);
    replaceUses(body_, result, after, i + 1);
    result = after;
  }
}

void PipelinedLoop::findAsyncDots() {
  std::vector<Op *> dots;
  for (Op *op : body_.ops) {
    if (op->kind != OpKind::Dot || !isAsyncMma(*op) || bitWidth(op->result()->type.elem) != 32)
      continue;
    const std::vector<Value *> &yields = body_.terminator()->operands;
    if (std::count(yields.begin(), yields.end(), op->result()) > 1)
      continue;
    dots.push_back(op);
    // Operands that are computed and then stored for asynchronous dots get rings as well.
    for (unsigned i = 0; i < 2; ++i)
      if (Op *tile = op->operands[i]->def;
          tile && tile->kind == OpKind::ToShared && tile->parent == &body_ && !ringOfTile(op->operands[i])) {
        Ring r;
        r.source = tile;
        r.tile = tile->result()->type;
        rings_.push_back(r);
      }
  }
  for (const Op *dot : dots) {
    placeFragments(*dot);
    giveBack(dot->result());
  }
  waits_ = placeDotWaits(body_, dots);
  for (Op *dot : dots)
    for (unsigned i = 0; i < 2; ++i)
      if (Ring *r = dot->operands[i]->type.isShared ? ringOfTile(dot->operands[i]) : nullptr)
        r->staysInFlight |= waits_.isAtEnd(dot);
  dots_ = std::move(dots);
}

} // namespace tegula::gpu
