// See TurnDots.h. Finder decides which values to compute transposed; Turner writes the kernel.
#include "gpu/layouts/TurnDots.h"
#include "gpu/FormWriter.h"
#include "ir/Walk.h"
#include "passes/HoistInvariants.h"
#include "passes/RemoveDead.h"
#include "passes/Users.h"
#include <map>
#include <set>

namespace tegula::gpu {

using namespace ir;

namespace {

bool isMatrix(const Value *v) { return v->type.shape.rank() == 2; }
Type transposed(const Type &t) { return t.withShape({t.shape[1], t.shape[0]}); }
bool isElementwise(const Op &op) { return op.has(traits::Elementwise) && op.has(traits::Pure); }
bool isTranspose(const Op &op) { return op.kind == OpKind::Permute && isMatrix(op.result()) && op.perm()[0] == 1; }

/// The value below a chain of transposes, and whether their number is odd.
struct Source {
  const Value *value;
  bool isTransposed = false;
};
Source sourceOf(const Value *v) {
  Source s{v};
  for (; s.value->def && isTranspose(*s.value->def); s.value = s.value->def->operands[0])
    s.isTransposed = !s.isTransposed;
  return s;
}

/// The number of loops around a value; a value that a loop carries is inside it.
unsigned depthOf(const Value *v) {
  unsigned depth = 0;
  for (const Block *b = v->def ? v->def->parent : v->block; b && b->parent && b->parent->op; b = b->parent->op->parent)
    depth += b->parent->op->kind != OpKind::If;
  return depth;
}

/// Values that are computed transposed.
using Turned = std::set<const Value *>;

/// Looks for the values that are best computed transposed.
class Finder {
public:
  Finder(const Function &f, const TargetInfo &target, unsigned warps)
      : f_(f), target_(target), warps_(warps), users_(*f.block()) {}

  /// The values with which the fewest tiles move.
  Turned find();
  /// Is `v` made of row and column numbers, constants and the like? Then it is computed in both orientations where both
  /// are needed.
  bool isCheap(const Value *v);
  /// Does the operation work on transposed tiles?
  bool isDoneTurned(const Op &op, const Turned &turned) const {
    for (const Value *r : op.results)
      if (isMatrix(r))
        return turned.contains(r);
    if (op.kind != OpKind::Reduce && op.kind != OpKind::Store && op.kind != OpKind::AtomicRmw)
      return false;
    return std::ranges::any_of(op.operands, [&](const Value *o) { return turned.contains(o); });
  }

private:
  /// A value that a loop carries or a branch yields: its initial value, arguments, yielded values and result. All are
  /// transposed together.
  struct Carried {
    std::vector<const Value *> places, given; // arguments and results; the values they are set to
  };
  void collect(const Block &b);
  void noteCarried(const Op &op);
  bool canTurn(const Value *v) const;
  void grow(const Value *v);
  void growOperands(const Op &op);
  void spread(const Value *v);
  Turned closure(const Turned &from, std::initializer_list<const Value *> seeds);

  /// A dot from whose result `v` is computed element by element; null if there is none.
  const Op *dotBehind(const Value *v);
  DotChoice choiceOf(const Op &dot, bool isTurned);
  bool isPossible(const Turned &turned);
  int64_t movesOf(const Turned &turned);

  const Function &f_;
  const TargetInfo &target_;
  const unsigned warps_;
  Users users_;
  std::vector<const Op *> ops_, dots_;
  std::vector<Carried> carried_;
  std::map<const Value *, std::vector<size_t>> carriedOf_; // indices of the entries that the value is part of
  std::map<const Value *, bool> cheap_;
  std::map<const Value *, const Op *> dotBehind_;
  std::map<std::pair<const Op *, bool>, DotChoice> choices_;
  Module types_; // has the transposed dots
  Turned turned_;
  std::vector<const Value *> work_;
};

void Finder::noteCarried(const Op &op) {
  for (size_t i = 0; i < op.results.size(); ++i) {
    if (!isMatrix(op.results[i]))
      continue;
    Carried c;
    c.places.push_back(op.results[i]);
    switch (op.kind) {
    case OpKind::For:
      c.places.push_back(op.region(0)->args[1 + i]);
      c.given = {op.operands[3 + i], op.region(0)->terminator()->operands[i]};
      break;
    case OpKind::While:
      c.places.insert(c.places.end(), {op.region(0)->args[i], op.region(1)->args[i]});
      c.given = {op.operands[i], op.region(0)->terminator()->operands[1 + i], op.region(1)->terminator()->operands[i]};
      break;
    default:
      for (const Region *r : op.regions)
        c.given.push_back(r->block->terminator()->operands[i]);
    }
    for (const auto *values : {&c.places, &c.given})
      for (const Value *v : *values)
        carriedOf_[v].push_back(carried_.size());
    carried_.push_back(std::move(c));
  }
}

void Finder::collect(const Block &b) {
  for (const Op *op : b.ops) {
    ops_.push_back(op);
    if (op->kind == OpKind::Dot && isMatrix(op->result()))
      dots_.push_back(op);
    if (op->kind == OpKind::For || op->kind == OpKind::While || op->kind == OpKind::If) {
      noteCarried(*op);
      for (const Region *r : op->regions)
        collect(*r->block);
    }
  }
}

bool Finder::isCheap(const Value *v) {
  if (!isMatrix(v))
    return true;
  auto [it, isNew] = cheap_.try_emplace(v, false);
  if (!isNew)
    return it->second;
  const Op *op = v->def;
  bool is = false;
  if (op && (op->kind == OpKind::Const || op->kind == OpKind::Poison || op->kind == OpKind::Splat ||
             op->kind == OpKind::ExpandDims))
    is = true;
  else if (op && (isElementwise(*op) || op->kind == OpKind::Broadcast || isTranspose(*op)))
    is = std::ranges::all_of(op->operands, [&](const Value *o) { return isCheap(o); });
  return cheap_[v] = is;
}

/// Can it be computed transposed, without the transpose of what it is made of at once?
bool Finder::canTurn(const Value *v) const {
  const Op *op = v->def;
  if (!op || op->kind == OpKind::For || op->kind == OpKind::While || op->kind == OpKind::If)
    return carriedOf_.contains(v);
  return isElementwise(*op) || op->kind == OpKind::Dot || op->kind == OpKind::Load || op->kind == OpKind::Scan ||
         op->kind == OpKind::AtomicRmw;
}

void Finder::grow(const Value *v) {
  if (isMatrix(v) && !isCheap(v) && canTurn(v) && turned_.insert(v).second)
    work_.push_back(v);
}

void Finder::growOperands(const Op &op) {
  for (const Value *o : op.operands)
    grow(o);
  for (const Value *r : op.results)
    grow(r);
}

/// Transposes the values that are computed with `v` element by element, and their operands.
void Finder::spread(const Value *v) {
  if (auto it = carriedOf_.find(v); it != carriedOf_.end())
    for (size_t i : it->second) {
      for (const Value *place : carried_[i].places)
        if (turned_.insert(place).second)
          work_.push_back(place);
      for (const Value *given : carried_[i].given)
        grow(given);
    }
  auto withNeighbours = [&](const Op &op) {
    if (isElementwise(op) || op.kind == OpKind::Load || op.kind == OpKind::Store || op.kind == OpKind::AtomicRmw ||
        op.kind == OpKind::Reduce || op.kind == OpKind::Scan)
      growOperands(op);
    else if (op.kind == OpKind::Dot && (op.result() == v || op.operands[2] == v)) {
      grow(op.operands[2]);
      grow(op.result());
    }
  };
  if (v->def)
    withNeighbours(*v->def);
  for (const Op *user : users_.of(v))
    withNeighbours(*user);
}

Turned Finder::closure(const Turned &from, std::initializer_list<const Value *> seeds) {
  turned_ = from;
  for (const Value *v : seeds)
    grow(v);
  while (!work_.empty()) {
    const Value *v = work_.back();
    work_.pop_back();
    spread(v);
  }
  return turned_;
}

const Op *Finder::dotBehind(const Value *v) {
  if (!isMatrix(v))
    return nullptr;
  auto [it, isNew] = dotBehind_.try_emplace(v, nullptr);
  if (!isNew)
    return it->second;
  const Op *found = nullptr, *op = v->def;
  if (op && op->kind == OpKind::Dot)
    found = op;
  else if (op && (isElementwise(*op) || isTranspose(*op)))
    for (size_t i = 0; i < op->operands.size() && !found; ++i)
      found = dotBehind(op->operands[i]);
  else if (auto carried = carriedOf_.find(v); carried != carriedOf_.end())
    for (const Value *given : carried_[carried->second[0]].given)
      if (!found)
        found = dotBehind(given);
  return dotBehind_[v] = found;
}

DotChoice Finder::choiceOf(const Op &dot, bool isTurned) {
  auto [it, isNew] = choices_.try_emplace({&dot, isTurned});
  if (!isNew)
    return it->second;
  if (!isTurned)
    return it->second = target_.chooseDot(dot, warps_);
  std::vector<Value *> operands;
  for (size_t i : {1, 0, 2})
    operands.push_back(types_.createValue(transposed(dot.operands[i]->type)));
  const Type result = transposed(dot.result()->type);
  return it->second =
             target_.chooseDot(*types_.createOp(OpKind::Dot, dot.loc, operands, {&result, 1}, dot.attrs), warps_);
}

bool Finder::isPossible(const Turned &turned) {
  return std::ranges::all_of(dots_, [&](const Op *dot) {
    return !turned.contains(dot->result()) || choiceOf(*dot, true).kind == DotKind::AsyncMma;
  });
}

/// The tiles that move between threads, each weighted by its loop depth.
int64_t Finder::movesOf(const Turned &turned) {
  // to shared memory for a dot, which reads either orientation, or to the registers of a transpose
  std::set<std::pair<const Value *, bool>> moved;
  for (const Op *op : ops_) {
    if (op->kind == OpKind::Permute || (op->results.size() == 1 && isCheap(op->result()) && isMatrix(op->result())))
      continue;
    const bool isDone = isDoneTurned(*op, turned), isDot = op->kind == OpKind::Dot && isMatrix(op->result());
    auto wants = [&](const Value *v, bool want) {
      const Source s = sourceOf(v);
      if (isMatrix(v) && !isCheap(s.value) && turned.contains(s.value) != (s.isTransposed != want))
        moved.insert({s.value, false});
    };
    if (isDot) {
      for (size_t i : {0, 1}) {
        const Source s = sourceOf(op->operands[i]);
        const Op *dot = dotBehind(s.value);
        if (!dot)
          continue;
        const bool isFirst = (i == 0) != isDone, isStraight = (turned.contains(s.value) != s.isTransposed) == isDone;
        const bool hasRows =
            choiceOf(*op, isDone).grid.n == 1 && choiceOf(*dot, turned.contains(dot->result())).grid.n == 1;
        if (!isFirst || !isStraight || !hasRows)
          moved.insert({s.value, true});
      }
      wants(op->operands[2], isDone);
    } else if (op->kind != OpKind::For && op->kind != OpKind::While && op->kind != OpKind::Yield &&
               op->kind != OpKind::Condition) {
      for (const Value *o : op->operands)
        wants(o, isDone);
    }
  }
  for (const Carried &c : carried_)
    for (const Value *v : c.given) {
      const Source s = sourceOf(v);
      if (!isCheap(s.value) && (turned.contains(s.value) != s.isTransposed) != turned.contains(c.places[0]))
        moved.insert({s.value, false});
    }
  int64_t sum = 0;
  for (const auto &[v, isOfDot] : moved)
    sum += int64_t{1} << (3 * std::min(depthOf(v), 6u));
  return sum;
}

Turned Finder::find() {
  collect(*f_.block());
  Turned best;
  if (dots_.size() < 2)
    return best;
  int64_t least = movesOf(best);
  auto attempt = [&](std::initializer_list<const Value *> seeds) {
    Turned next = closure(best, seeds);
    if (next.size() == best.size() || !isPossible(next))
      return;
    if (const int64_t moves = movesOf(next); moves < least) {
      best = std::move(next);
      least = moves;
    }
  };
  for (const Op *dot : dots_)
    for (size_t i : {1, 0}) {
      const Source s = sourceOf(dot->operands[i]);
      if (!dotBehind(s.value))
        continue;
      if (i == 1)
        s.isTransposed ? attempt({dot->result()}) : attempt({s.value, dot->result()});
      else if (s.isTransposed)
        attempt({s.value});
    }
  for (const Op *op : ops_)
    if (isTranspose(*op) && dotBehind(op->operands[0]))
      attempt({op->operands[0]});
  return best;
}

/// The forms are 0, as in the input kernel, and 1, transposed.
class Turner : FormWriter {
public:
  Turner(const Function &f, Finder &finder, const Turned &turned, Module &out)
      : FormWriter(out, 0), finder_(finder), turned_(turned) {
    writeKernel(f);
  }

private:
  int formOf(const Value *v) override { return turned_.contains(v); }
  Type typeIn(const Value *v, int form) override { return form && isMatrix(v) ? transposed(v->type) : v->type; }
  Value *want(const Value *v, int form) override;
  void compute(const Op &op) override;
  Op *write(const Op &op, int form);

  Finder &finder_;
  const Turned &turned_;
};

Value *Turner::want(const Value *v, int form) {
  if (!isMatrix(v))
    form = 0;
  if (Value *done = find(v, form))
    return done;
  if (v->def && isTranspose(*v->def)) // in form 1: what it is a transpose of
    return want(v->def->operands[0], 1 - form);
  constexpr int64_t swap[] = {1, 0};
  Value *made = b_.permute(want(v, 1 - form), swap);
  define(v, form, made);
  return made;
}

Op *Turner::write(const Op &op, int form) {
  std::vector<Value *> operands;
  std::vector<Type> results;
  for (const Value *o : op.operands)
    operands.push_back(want(o, form));
  for (const Value *r : op.results)
    results.push_back(typeIn(r, form));
  if (op.kind == OpKind::Dot && form)
    std::swap(operands[0], operands[1]);
  Op *now = clone(op, operands, results);
  if (form) {
    if (op.kind == OpKind::Reduce || op.kind == OpKind::Scan || op.kind == OpKind::ExpandDims)
      now->set(attr::axis, 1 - op.axis());
    for (Attr &a : now->attrs)
      if (a.key == attr::contiguity || a.key == attr::constancy || a.key == attr::divisibility)
        if (auto &list = std::get<std::vector<int64_t>>(a.value); list.size() == 2)
          std::swap(list[0], list[1]);
  }
  if (!op.regions.empty())
    scalarRegion(op, *now);
  return now;
}

void Turner::compute(const Op &op) {
  const bool isTile = op.results.size() == 1 && isMatrix(op.result());
  if (isTile && isTranspose(op))
    return; // made where it is needed
  const int form = finder_.isDoneTurned(op, turned_);
  const Op *now = write(op, form);
  for (size_t i = 0; i < op.results.size(); ++i)
    define(op.results[i], isMatrix(op.results[i]) ? form : 0, now->results[i]);
  if (isTile && !form && finder_.isCheap(op.result()))
    define(op.result(), 1, write(op, 1)->result());
}

} // namespace

std::unique_ptr<Module> turnDots(const Module &module, const TargetInfo &target, unsigned warps) {
  const Function &f = *module.kernel();
  Finder finder(f, target, warps);
  const Turned turned = finder.find();
  if (turned.empty())
    return nullptr;
  auto out = std::make_unique<Module>();
  out->sources = module.sources;
  out->inlineSites = module.inlineSites;
  Turner(f, finder, turned, *out);
  hoistInvariants(*out);
  removeDead(*out);
  return out;
}

} // namespace tegula::gpu
