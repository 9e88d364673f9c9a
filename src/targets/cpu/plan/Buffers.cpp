// Scratch memory: coalesces buffers, and assigns their offsets.
//
// Both work on steps in program order and on what each step reads: a step reads a buffer if some root reaches its value
// through virtual values. "At the same place" means that element i is read only to compute element i, so that a nest
// may overwrite its input.
#include "targets/cpu/plan/Buffers.h"
#include "llvm/ADT/SmallPtrSet.h"
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

namespace tegula::cpu {
using ir::Op;
using ir::Value;

namespace {

struct Access {
  uint32_t step;
  int buffer;
  bool write;
  bool samePlace; // reads: as the element that the step's nest is at
  unsigned root;  // order within the nest
};

/// All accesses to buffers, in program order, and the loops as ranges of step numbers.
class Accesses {
public:
  explicit Accesses(Plan &p) : plan_(p) {
    visit(p.steps);
    byBuffer_.resize(p.buffers.size());
    for (const Access &x : all)
      byBuffer_[static_cast<size_t>(x.buffer)].push_back(x);
    outer_.resize(loops.size());
    std::vector<size_t> open; // loops without one around them so far
    for (size_t i = 0; i < loops.size(); ++i) {
      for (; !open.empty() && loops[open.back()].begin > loops[i].begin; open.pop_back())
        outer_[open.back()] = i;
      open.push_back(i);
    }
    for (size_t i : open)
      outer_[i] = loops.size();
  }
  std::vector<Access> all;
  struct Range {
    uint32_t begin, end; // steps [begin, end)
  };
  std::vector<Range> loops; // ordered by their ends, so that inner ones come first

  /// The accesses to one buffer, in program order.
  const std::vector<Access> &of(int buffer) const { return byBuffer_[static_cast<size_t>(buffer)]; }
  /// The loops that a step is in, but for one whose own step it is; the innermost first.
  std::vector<Range> loopsAround(uint32_t step) const {
    std::vector<Range> out;
    auto first =
        std::upper_bound(loops.begin(), loops.end(), step, [](uint32_t s, const Range &l) { return s < l.end; });
    // It is the innermost loop around the step, or a later one in that.
    for (auto i = static_cast<size_t>(first - loops.begin()); i < loops.size(); i = outer_[i])
      if (loops[i].begin < step)
        out.push_back(loops[i]);
    return out;
  }

private:
  void visit(Steps &steps) {
    for (Step &s : steps) {
      s.number = now_++;
      if (s.kind == StepKind::Dot)
        dot(s);
      else if (s.nest)
        nest(s);
      else if (s.op && s.bodies.empty())
        plain(s);
      uint32_t begin = s.number;
      for (size_t i = 0; i < s.bodies.size(); ++i) {
        visit(s.bodies[i]);
        // The terminator is a step that needs the yielded values where they are.
        ++now_;
        if (i < s.op->regions.size() && s.op->regions[i]->block && s.op->regions[i]->block->terminator())
          for (const Value *v : s.op->regions[i]->block->terminator()->operands)
            touch(plan_.bufferFor(v), false, true);
      }
      if (!s.bodies.empty()) {
        if (s.kind != StepKind::If)
          loops.push_back({begin, now_});
        // Values that leave the op live to its end and beyond.
        ++now_;
        for (const Value *r : s.op->results)
          touch(plan_.bufferFor(r), false, true);
      }
    }
  }
  void touch(int buffer, bool write, bool same = false) {
    if (buffer >= 0)
      all.push_back({now_ - 1, buffer, write, same, root_});
  }
  void reads(const Value *v, bool same, unsigned depth) {
    if (!v->type.isTensor() && !v->def)
      return;
    if (int b = plan_.bufferFor(v); b >= 0 && !fresh_.contains(v)) {
      touch(b, false, same);
      return;
    }
    if (!v->def || v->type.isScalar() || !seen_.insert({v, same}).second)
      return;
    bool elementwise = v->def->has(ir::traits::Elementwise) || v->def->kind == ir::OpKind::Load;
    for (const Value *o : v->def->operands)
      reads(o, same && elementwise, depth + 1);
  }
  void nest(Step &s) {
    seen_.clear();
    fresh_.clear();
    if (s.bufferA >= 0)
      touch(s.bufferA, false, true);
    root_ = 0;
    for (const Root &r : s.nest->roots) {
      ++root_;
      if (r.kind == RootKind::Materialize) {
        if (s.bufferA < 0) {
          bool own = r.makes;
          if (own)
            fresh_.insert(r.value);
          if (own)
            for (const Value *o : r.value->def->operands)
              reads(o, r.value->def->has(ir::traits::Elementwise) || r.value->def->kind == ir::OpKind::Load, 0);
          else
            reads(r.value, true, 0);
        }
        touch(r.buffer, true);
        continue;
      }
      for (const Value *o : r.op->operands)
        reads(o, r.kind != RootKind::Scan && r.kind != RootKind::Histogram, 0);
      for (const Value *v : r.op->results)
        touch(plan_.bufferFor(v), true);
      if (r.kind == RootKind::Reduce) {
        touch(r.buffer, false);
        touch(r.buffer, true);
      }
    }
    fresh_.clear();
  }
  void dot(Step &s) {
    auto packs = [&](const Nest *nest, int buffer) { // in this step: B between writes of C
      if (!nest)
        return;
      seen_.clear();
      for (const Root &r : nest->roots)
        reads(r.value, false, 0);
      touch(buffer, true);
    };
    packs(s.left.get(), s.bufferA);
    packs(s.nest.get(), s.bufferB);
    touch(s.bufferA, false);
    touch(s.bufferB, false);
    if (s.accumulate)
      touch(s.bufferC, false, true);
    touch(s.bufferC, true);
  }
  void plain(Step &s) {
    seen_.clear();
    if (s.bufferA >= 0) {
      touch(s.bufferA, true);
      touch(s.bufferA, false);
    }
    // A definition computes nothing of tensors; but a scalar taken out of a tensor does.
    if (s.op->results.empty() || s.op->results[0]->type.isScalar() || s.kind == StepKind::Call)
      for (const Value *o : s.op->operands)
        reads(o, false, 0);
    for (const Value *v : s.op->results)
      if (s.kind == StepKind::Call)
        touch(plan_.bufferFor(v), true);
  }

  Plan &plan_;
  std::vector<std::vector<Access>> byBuffer_;
  std::vector<size_t> outer_; // of each loop the one around it; how many there are: none
  uint32_t now_ = 0;
  unsigned root_ = 0;
  llvm::SmallPtrSet<const Value *, 8> fresh_;
  std::set<std::pair<const Value *, bool>> seen_;
};

bool sameLayout(const Buffer &a, const Buffer &b) {
  return a.element == b.element && a.stride == b.stride && a.elems == b.elems && a.external < 0 && b.external < 0 &&
         a.tf32 == b.tf32 && a.biased == b.biased;
}

/// `now`: of each buffer the one that it is from here on.
void rename(Plan &p, const std::vector<int> &now) {
  auto renamed = [&](int &b) {
    if (b >= 0)
      b = now[static_cast<size_t>(b)];
  };
  std::function<void(Steps &)> visit = [&](Steps &steps) {
    for (Step &s : steps) {
      for (int *b : {&s.bufferA, &s.bufferB, &s.bufferC})
        renamed(*b);
      for (Nest *nest : {s.nest.get(), s.left.get()})
        if (nest)
          for (Root &r : nest->roots)
            renamed(r.buffer);
      for (Steps &b : s.bodies)
        visit(b);
    }
  };
  visit(p.steps);
  for (auto &[v, b] : p.bufferOf)
    renamed(b);
}

/// A root that copies one buffer to another (or, once they are one, to itself).
bool isCopy(const Plan &p, const Step &s, size_t root, int &from, int &to) {
  const Root &r = s.nest->roots[root];
  if (r.kind != RootKind::Materialize || r.makes)
    return false;
  from = s.bufferA >= 0 ? s.bufferA : p.bufferFor(r.value);
  to = r.buffer;
  return from >= 0;
}

/// True if `from` and `to` may be one buffer: at the copy in step `at` their contents become equal, and around it no
/// one needs both. Forward: `from` is dead after the copy (an accumulator handed to a dot). Backward: `to` is not read
/// between the first write of `from` and the copy (a loop's new value).
bool canMerge(const Accesses &a, uint32_t at, int from, int to) {
  // The innermost loop around the copy bounds what is looked at; both buffers must live within one iteration pattern.
  const std::vector<Accesses::Range> around = a.loopsAround(at);
  const Accesses::Range scope = around.empty() ? Accesses::Range{0, ~0u} : around.front();
  auto inside = [&](uint32_t s) { return s > scope.begin && s < scope.end; };
  unsigned firstRoot = 0;
  uint32_t firstFrom = ~0u, firstTo = ~0u, lastReadFrom = 0;
  bool fromOutside = false, toOutside = false;
  for (const Access &x : a.of(from)) {
    if (!inside(x.step))
      fromOutside = true;
    else if (!x.write)
      lastReadFrom = std::max(lastReadFrom, x.step);
    else if (x.step < firstFrom) {
      firstFrom = x.step;
      firstRoot = x.root;
    }
  }
  for (const Access &x : a.of(to)) {
    if (!inside(x.step))
      toOutside = true;
    else if (x.write)
      firstTo = std::min(firstTo, x.step);
  }
  // Written in a loop further in: its other steps come again after the first write.
  for (const Accesses::Range &l : a.loopsAround(firstFrom))
    if (l.begin > scope.begin && (at < l.begin || at >= l.end))
      firstFrom = l.begin;
  // Backward: `from` is local, all of it happens before the copy.
  if (!fromOutside && firstFrom <= at && lastReadFrom <= at) {
    bool ok = true;
    for (const Access &x : a.of(to)) {
      if (!inside(x.step))
        continue;
      if (x.write)
        ok &= x.step >= at;
      else if (x.step == firstFrom)
        ok &= x.samePlace && x.root <= firstRoot;
      else
        ok &= x.step < firstFrom || x.step > at; // else still needed by others (of the copy's own nest, too)
    }
    if (ok)
      return true;
  }
  // Forward: `to` is local and starts here; `from` is not used again before it is rewritten from outside this range.
  if (!toOutside && firstTo == at) {
    uint32_t lastTo = 0;
    for (const Access &x : a.of(to))
      lastTo = std::max(lastTo, x.step);
    for (const Access &x : a.of(from))
      if (inside(x.step) && (x.step > at || (x.write && x.step == at)) && x.step <= lastTo)
        return false;
    // After the last use of `to`, `from` must be written before it is read: by the loop's own copy back.
    for (const Access &x : a.of(from))
      if (inside(x.step) && x.step > lastTo) {
        return x.write;
      }
    return !fromOutside;
  }
  return false;
}

/// Removes the first copy, or (`onlyOne` false) all whose two buffers had no part in one that was removed since the
/// accesses were looked at: what is known of these holds still.
/// Whether there were any.
bool removeCopies(Plan &p, bool onlyOne) {
  Accesses a(p);
  std::vector<bool> changed(p.buffers.size());
  std::vector<int> now(p.buffers.size());
  std::iota(now.begin(), now.end(), 0);
  bool any = false;
  std::function<void(Steps &)> visit = [&](Steps &steps) {
    for (size_t i = 0; i < steps.size() && !(any && onlyOne);) {
      Step &s = steps[i];
      for (size_t r = 0; s.kind == StepKind::Nest && r < s.nest->roots.size() && !(any && onlyOne);) {
        int from, to;
        const bool isNew =
            isCopy(p, s, r, from, to) && !changed[static_cast<size_t>(from)] && !changed[static_cast<size_t>(to)];
        if (!isNew ||
            (from != to && (!sameLayout(p.buffers[static_cast<size_t>(from)], p.buffers[static_cast<size_t>(to)]) ||
                            !canMerge(a, s.number, from, to)))) {
          ++r;
          continue;
        }
        s.nest->roots.erase(s.nest->roots.begin() + static_cast<long>(r));
        now[static_cast<size_t>(from)] = to;
        changed[static_cast<size_t>(from)] = changed[static_cast<size_t>(to)] = any = true;
      }
      if (s.kind == StepKind::Nest && s.nest->roots.empty()) {
        steps.erase(steps.begin() + static_cast<long>(i));
        continue;
      }
      for (Steps &b : s.bodies)
        visit(b);
      ++i;
    }
  };
  visit(p.steps);
  if (any)
    rename(p, now);
  return any;
}

/// Loads that only had to be read ahead of a nest's stores, by that nest alone: it remembers what it has read at a
/// place, and needs no memory for it.
void dropUnread(Plan &p, const Accesses &a) {
  std::vector<unsigned> count(p.buffers.size());
  for (const Access &x : a.all)
    ++count[static_cast<size_t>(x.buffer)];
  std::function<void(Steps &)> visit = [&](Steps &steps) {
    for (Step &s : steps) {
      if (s.nest && s.nest->roots.size() > 1 && s.bufferA < 0)
        for (Root &r : s.nest->roots)
          if (r.kind == RootKind::Materialize && r.makes && r.value->def->kind == ir::OpKind::Load &&
              count[static_cast<size_t>(r.buffer)] == 1) {
            Buffer &b = p.buffers[static_cast<size_t>(r.buffer)];
            b.firstStep = ~0u, b.lastStep = 0; // never used
            p.bufferOf.erase(r.value);
            r.buffer = -1;
          }
      for (Steps &b : s.bodies)
        visit(b);
    }
  };
  visit(p.steps);
}

} // namespace

void coalesceBuffers(Plan &p) {
  // Each round looks at the whole plan again. A kernel with more copies than rounds gets rid of the rest many at a
  // time.
  constexpr unsigned rounds = 64;
  for (unsigned i = 0; i < 2 * rounds && removeCopies(p, /*onlyOne=*/i < rounds); ++i) {
  }
}

void placeBuffers(Plan &p) {
  Accesses a(p);
  for (const Access &x : a.all) {
    Buffer &b = p.buffers[static_cast<size_t>(x.buffer)];
    b.firstStep = std::min(b.firstStep, x.step);
    b.lastStep = std::max(b.lastStep, x.step);
  }
  dropUnread(p, a);
  // What is alive at a loop's border lives through the whole loop; inner loops come first in the list.
  for (Buffer &b : p.buffers)
    for (const auto &l : a.loops) {
      bool inside = b.firstStep > l.begin && b.lastStep < l.end;
      bool apart = b.lastStep < l.begin || b.firstStep >= l.end;
      if (!inside && !apart) {
        b.firstStep = std::min(b.firstStep, l.begin);
        b.lastStep = std::max(b.lastStep, l.end);
      }
    }
  // A buffer read in a loop before it is written there would carry over; only loop-carried ones do, and they are
  // written outside.
  std::vector<size_t> order;
  for (size_t i = 0; i < p.buffers.size(); ++i)
    if (p.buffers[i].external < 0 && p.buffers[i].firstStep != ~0u)
      order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t x, size_t y) {
    uint64_t bx = p.buffers[x].bytes(), by = p.buffers[y].bytes();
    return bx != by ? bx > by : x < y;
  });
  uint64_t total = 64; // masked-off scalar loads read the first bytes
  std::vector<size_t> placed;
  for (size_t i : order) {
    Buffer &b = p.buffers[i];
    uint64_t size = (b.bytes() + 63) / 64 * 64, at = 0;
    std::vector<std::pair<uint64_t, uint64_t>> taken;
    for (size_t j : placed) {
      const Buffer &o = p.buffers[j];
      if (o.firstStep <= b.lastStep && b.firstStep <= o.lastStep)
        taken.push_back({o.offset, o.offset + (o.bytes() + 63) / 64 * 64});
    }
    std::sort(taken.begin(), taken.end());
    for (auto &[from, to] : taken)
      if (from < at + size)
        at = std::max(at, to);
    b.offset = at;
    total = std::max(total, at + size);
    placed.push_back(i);
  }
  p.scratchBytes = total;
}

} // namespace tegula::cpu
