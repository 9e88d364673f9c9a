// The memory layout of a conversion through shared memory.
//
// The memory layout is a basis M of the space of elements, cut into
//   chunk   what lies inside 16 bytes: directions that a thread (or a matrix row) holds, so that accesses are wide;
//   banks   the further bits of a 128-byte row;
//   rows    the rest.
// Two lanes of one phase collide iff they differ by a row direction (plus chunk). So accesses are free of conflicts iff
// the span of the phase's lanes meets the span of rows only in 0 (modulo chunk): rows must be a complement of the lanes
// of the stores and of those of the loads at once. Two subspaces A and B of equal dimension always have a common
// complement:
// pair a basis of A over A^B with one of B over it, and take the sums a_i + b_i and whatever lies outside A + B. That
// is the swizzle. Several chunks are tried; each is judged by the accesses that it really allows.
#include "layout/ConversionMemory.h"
#include <algorithm>

namespace tegula::layout::detail {

namespace {

/// Directions of the lanes of one phase, for an access of 2^byteBits bytes per lane or a matrix move.
Columns phaseLanes(const Side &side, SharedMove move, unsigned byteBits) {
  const Columns &t = side.threads;
  if (move == SharedMove::Matrix)
    return {t[2], t[3], t[4]};
  if (move == SharedMove::MatrixTrans)
    return {t[0], t[1]};
  return Columns(t.begin(), t.begin() + (7 - std::max(2u, byteBits)));
}

/// A candidate chunk and its expected use by both sides. Only a heuristic: assess() computes its real cost.
struct Candidate {
  Columns chunk;
  SharedMove store = SharedMove::Plain, load = SharedMove::Plain;
};

/// Directions common to the registers of both sides that no thread direction touches, modulo `used`: what can be
/// repeated.
Columns repetitions(const Problem &p, const Columns &chunk, unsigned wanted) {
  Subspace used;
  for (uint64_t v : chunk)
    used.insert(v, 0);
  for (const Side *side : {&p.src, &p.near})
    for (uint64_t v : side->threads)
      used.insert(v, 0);
  Columns common = intersection(p.src.reg(), p.near.reg()), chosen;
  for (size_t i = common.size(); i-- > 0 && chosen.size() < wanted;)
    if (used.insert(common[i], 0))
      chosen.push_back(common[i]);
  return chosen;
}

/// Splits a space into banks and rows such that the span of rows intersects neither span(a) nor span(b): see the head
/// of the file.
struct Swizzle {
  Columns banks, rows;
};
Swizzle swizzle(size_t dimensions, unsigned bankBits, Columns a, Columns b) {
  if (a.size() > bankBits)
    a.resize(bankBits);
  if (b.size() > bankBits)
    b.resize(bankBits);
  Columns meet = intersection(a, b), onlyA = modulo(a, meet), onlyB = modulo(b, meet), units;
  for (size_t i = 0; i < dimensions; ++i)
    units.push_back(uint64_t{1} << i);
  Columns lanes = a;
  lanes.insert(lanes.end(), b.begin(), b.end());
  Swizzle s;
  s.rows = modulo(units, lanes);
  for (size_t i = 0; i < std::min(onlyA.size(), onlyB.size()); ++i)
    s.rows.push_back(onlyA[i] ^ onlyB[i]);
  // Surplus rows become banks; keep the swizzled ones as rows, so that the banks stay simple.
  size_t rowCount = dimensions > bankBits ? dimensions - bankBits : 0;
  if (s.rows.size() > rowCount)
    s.rows.erase(s.rows.begin(), s.rows.end() - static_cast<std::ptrdiff_t>(rowCount));
  lanes.insert(lanes.end(), units.begin(), units.end());
  s.banks = modulo(lanes, s.rows);
  return s;
}

/// The memory layout for a chunk. `dstFirst`: the side whose lanes preferably stay out of the chunk. `storePhase`,
/// `loadPhase`: the lanes that must not conflict.
Memory buildMemory(const Problem &p, const Columns &chunk, const Columns &repeat, bool dstFirst,
                   const Columns &storePhase, const Columns &loadPhase) {
  // A complement of chunk and of the repeated directions that contains the threads of both sides, as far as possible.
  Columns fixed = chunk, rest;
  fixed.insert(fixed.end(), repeat.begin(), repeat.end());
  Subspace seen;
  for (uint64_t v : fixed)
    seen.insert(v, 0);
  const Side &one = dstFirst ? p.near : p.src, &two = dstFirst ? p.src : p.near;
  for (const Columns *vectors : {&one.threads, &two.threads, &one.reg(), &two.reg(), &p.space})
    for (uint64_t v : *vectors)
      if (seen.insert(v, uint64_t{1} << rest.size()))
        rest.push_back(v);
  // Independent projections to the complement, as coordinates in `rest`.
  auto project = [&](const Columns &vectors) {
    Columns r;
    Subspace independent;
    for (uint64_t v : vectors)
      if (uint64_t x = seen.reduce(v).combo; independent.insert(x, 0))
        r.push_back(x);
    return r;
  };
  unsigned bankBits = 7 - std::min(7u, static_cast<unsigned>(chunk.size()) + p.byteShift);
  Swizzle s = swizzle(rest.size(), bankBits, project(storePhase), project(loadPhase));
  Memory m;
  m.basis = chunk;
  for (const Columns *part : {&s.banks, &s.rows})
    for (uint64_t v : *part)
      m.basis.push_back(multiply(rest, v));
  m.stored = static_cast<unsigned>(m.basis.size());
  m.repeated = static_cast<unsigned>(repeat.size());
  m.basis.insert(m.basis.end(), repeat.begin(), repeat.end());
  m.basis.insert(m.basis.end(), p.blocks.begin(), p.blocks.end());
  m.finish();
  return m;
}

/// Chunks worth trying.
std::vector<Candidate> candidates(const Problem &p) {
  std::vector<Candidate> list;
  unsigned bits = p.chunkBits();
  Subspace threads;
  for (const Side *side : {&p.src, &p.near})
    for (uint64_t v : side->threads)
      threads.insert(v, 0);
  // Directions in both sides' registers, those that no combination of threads reaches.
  Columns common = intersection(p.src.reg(), p.near.reg());
  std::erase_if(common, [&](uint64_t v) { return !threads.insert(v, 0); });
  auto extended = [&](Columns chunk, const Columns &prefer, const Columns &by) {
    for (const Columns *from : {&prefer, &by})
      for (uint64_t v : modulo(*from, chunk))
        if (chunk.size() < bits && modulo({v}, chunk).size() == 1)
          chunk.push_back(v);
    return chunk;
  };
  Columns base = common;
  if (base.size() > bits)
    base.resize(bits);
  list.push_back({base});
  // Wider for one side only, preferably along directions that are lanes of the other.
  for (const auto &[wide, other] : {std::pair(&p.near, &p.src), std::pair(&p.src, &p.near)}) {
    Columns lanes(other->threads.begin(), other->threads.begin() + 5);
    list.push_back({extended(base, intersection(wide->reg(), lanes), wide->reg())});
  }
  // Narrower vectors, which sometimes fit where wide ones conflict.
  for (size_t i = 0; i < 3; ++i)
    for (size_t n = list[i].chunk.size(); n-- > (i == 0 ? 0 : base.size() + 1);)
      list.push_back({Columns(list[i].chunk.begin(), list[i].chunk.begin() + static_cast<std::ptrdiff_t>(n))});
  if (p.byteShift > 2)
    return list;
  unsigned sub = 2 - p.byteShift;
  for (bool isStore : {true, false}) {
    const Side &one = isStore ? p.src : p.near, &two = isStore ? p.near : p.src;
    if (!(isStore ? p.options->stmatrix : p.options->ldmatrix))
      continue;
    const Columns &t = one.threads;
    auto with = [&](Columns chunk, SharedMove mine, SharedMove other) {
      Candidate c{std::move(chunk), isStore ? mine : other, isStore ? other : mine};
      list.push_back(c);
    };
    // Plain: [register directions, lane 0, lane 1]. The register directions from the other side's registers if
    // possible, or what the other side needs for a transposing move.
    Columns shared = modulo(intersection(one.reg(), two.reg()), {t[0], t[1]});
    Columns any = modulo(one.reg(), {t[0], t[1]});
    for (Columns subs :
         {shared, any, intersection(one.reg(), Columns(two.threads.begin() + 2, two.threads.begin() + 3))}) {
      if (subs.size() < sub)
        continue;
      subs.resize(sub);
      subs.push_back(t[0]);
      subs.push_back(t[1]);
      with(subs, SharedMove::Matrix, SharedMove::Plain);
      with(subs, SharedMove::Matrix, SharedMove::Matrix);
      if (p.byteShift == 1)
        with(subs, SharedMove::Matrix, SharedMove::MatrixTrans);
    }
    if (p.byteShift == 1) {
      with({t[2], t[3], t[4]}, SharedMove::MatrixTrans, SharedMove::Plain);
      with({t[2], t[3], t[4]}, SharedMove::MatrixTrans, SharedMove::MatrixTrans);
    }
  }
  return list;
}

} // namespace

Solution solve(const Problem &p) {
  std::optional<Solution> best;
  Subspace inside;
  for (uint64_t v : p.space)
    inside.insert(v, 0);
  unsigned bits = static_cast<unsigned>(p.space.size()), wanted = 0;
  while (p.options->maxBytes != 0 && wanted < bits &&
         (uint64_t{1} << (bits - wanted + p.byteShift)) > p.options->maxBytes)
    ++wanted;
  // Nothing can beat 16 bytes per lane and access on both sides without conflicts.
  auto bound = [&](const Side &side) {
    unsigned bytes = 1u << (side.reg().size() + p.byteShift);
    return std::max(bytes, 4u) / 4 + 0.5 * std::max(bytes, 16u) / 16;
  };
  double floor = bound(p.src) + bound(p.dst) + 35;
  for (const Candidate &c : candidates(p)) {
    if (best && best->clocks <= floor)
      break;
    if (rankOf(c.chunk) != c.chunk.size() ||
        !std::all_of(c.chunk.begin(), c.chunk.end(), [&](uint64_t v) { return inside.contains(v); }))
      continue;
    Columns repeat = repetitions(p, c.chunk, wanted);
    for (bool dstFirst : {false, true}) {
      auto chunkBytes = static_cast<unsigned>(c.chunk.size()) + p.byteShift;
      Columns stores = phaseLanes(p.src, c.store, chunkBytes), loads = phaseLanes(p.near, c.load, chunkBytes);
      // Repeats with the phases of the accesses that were found.
      for (int pass = 0; pass < 2; ++pass) {
        Solution s;
        s.memory = buildMemory(p, c.chunk, repeat, dstFirst, stores, loads);
        // A matrix row must not come from two CTAs: such loads only inside a CTA.
        s.store = bestAccess(p, p.src, s.memory, p.options->stmatrix);
        s.load = bestAccess(p, p.dst, s.memory, p.options->ldmatrix && p.blocks.empty());
        s.clocks = sideClocks(s.store) + sideClocks(s.load) + 35.0 * (1u << repeat.size());
        // More scratch than allowed is the last resort.
        s.clocks += 1e6 * static_cast<double>((1u << (wanted - repeat.size())) - 1);
        bool conflicts = s.store.wavefronts > s.store.ideal || s.load.wavefronts > s.load.ideal;
        auto phase = [&](const Side &side, const Access &x) {
          return x.move == SharedMove::Plain ? phaseLanes(side, x.move, x.vecBits + p.byteShift)
                                             : Columns(x.rowBits.begin(), x.rowBits.begin() + 3);
        };
        stores = phase(p.src, s.store);
        loads = phase(p.near, s.load);
        if (!best || s.clocks < best->clocks)
          best = std::move(s);
        if (!conflicts)
          break;
      }
    }
  }
  return *best;
}

} // namespace tegula::layout::detail
