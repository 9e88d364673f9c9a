// Conversions through shared memory: choice of the memory layout.
//
// The memory layout is a basis M of the space of elements, cut into
//   chunk   what lies inside 16 bytes: directions that a thread (or a matrix row) holds, so that accesses are wide;
//   banks   the further bits of a 128-byte row;
//   rows    the rest.
// Two lanes of one phase collide iff they differ by a row direction (plus chunk). So accesses are free of conflicts iff the
// span of the phase's lanes meets the span of rows only in 0 (modulo chunk): rows must be a complement of the lanes
// of the stores and of those of the loads at once. Two subspaces A and B of equal dimension always have a common complement:
// pair a basis of A over A^B with one of B over it, and take the sums a_i + b_i and whatever lies outside A + B. That
// is the swizzle. Several chunks are tried; each is judged by the accesses that it really allows.
#include "layout/Banks.h"
#include "layout/ConversionDetail.h"
#include <algorithm>

namespace tegula::layout::detail {

namespace {

using Columns = std::vector<uint64_t>;

/// One side's view: element directions of its registers and threads.
struct Side {
  Places places;
  Columns threads; // lanes, warps, blocks: image of each thread bit inside the memory's space; 0 for guarded copies
  bool lanesDistinct = true; // no lane bit is guarded
  const Columns &reg() const { return places.reg; }
};

/// Where each element lies: coordinates in a basis of the elements. The first `stored` basis vectors are the bits of the offset,
/// then come the bits of the repetition, then (cluster scope) those of the CTA that holds the element.
class Memory {
public:
  Columns basis;
  unsigned stored = 0, repeated = 0;
  void finish() {
    for (size_t i = 0; i < basis.size(); ++i)
      space_.insert(basis[i], uint64_t{1} << i);
  }
  uint64_t offset(uint64_t element) const { return label(element) & ((uint64_t{1} << stored) - 1); }
  uint64_t repetition(uint64_t element) const { return label(element) >> stored & ((uint64_t{1} << repeated) - 1); }
  uint64_t owner(uint64_t element) const { return label(element) >> (stored + repeated); }

private:
  uint64_t label(uint64_t element) const {
    auto [rest, combo] = space_.reduce(element);
    assert(rest == 0 && "the source does not hold this element");
    return combo;
  }
  Subspace space_;
};

struct Problem {
  Side src, dst;
  Side near;      // dst as seen inside one CTA: without the directions that select the CTA (differs in cluster scope only)
  Columns space;  // basis of the elements that one CTA stores
  Columns blocks; // directions between CTAs: the owner bits
  unsigned byteShift; // log2 of the bytes of an element
  const ConversionOptions *options;
  unsigned chunkBits() const { return 4 - byteShift; }
};

/// Lane directions that one phase of a full-width access contains.
Columns phaseLanes(const Side &side, SharedMove move) {
  const Columns &t = side.threads;
  if (move == SharedMove::Matrix)
    return {t[2], t[3], t[4]};
  if (move == SharedMove::MatrixTrans)
    return {t[0], t[1]};
  return {t[0], t[1], t[2]};
}

/// A guess at a good chunk, and who will use it how. Only a heuristic: assess() finds out what it is really good for.
struct Candidate {
  Columns chunk;
  SharedMove store = SharedMove::Plain, load = SharedMove::Plain;
};

/// How one side accesses a given memory layout.
struct Access {
  SharedMove move = SharedMove::Plain;
  unsigned vecBits = 0;      // Plain
  Columns rowBits;           // matrix moves: element directions of lane bits 0 ... 4 as suppliers of row addresses
  Columns sub;               // directions inside a lane's vector or 32-bit register
  Columns outer;             // register directions of separate accesses (after sub and matrices)
  Columns matrices;          // register directions between the matrices of one instruction
  unsigned wavefronts = 0, count = 0, ideal = 0;
};

struct Solution {
  Memory memory;
  Access store, load;
  double clocks = 0;
};

/// Directions common to the registers of both sides that no thread direction touches, modulo `used`: what can be repeated.
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

/// Basis of (a + floor) modulo floor, as vectors of a.
Columns modulo(const Columns &a, const Columns &floor) {
  Subspace s;
  for (uint64_t v : floor)
    s.insert(v, 0);
  Columns r;
  for (uint64_t v : a)
    if (s.insert(v, 0))
      r.push_back(v);
  return r;
}

/// The memory layout for a chunk (see the head of the file). `first` is the side whose lanes must not enter the chunk.
Memory buildMemory(const Problem &p, const Candidate &c, const Columns &repeat, bool dstFirst) {
  // Complement of chunk (and of the repeated directions) that contains the threads of both sides, as far as possible.
  Subspace seen;
  for (const Columns *part : {&c.chunk, &repeat})
    for (uint64_t v : *part)
      seen.insert(v, 0);
  Columns rest;
  auto grow = [&](const Columns &vectors) {
    for (uint64_t v : vectors)
      if (seen.insert(v, 0))
        rest.push_back(v);
  };
  const Side &one = dstFirst ? p.near : p.src, &two = dstFirst ? p.src : p.near;
  grow(one.threads);
  grow(two.threads);
  grow(one.reg());
  grow(two.reg());
  grow(p.space);
  // Coordinates: project a vector to the complement.
  Subspace all;
  for (uint64_t v : c.chunk)
    all.insert(v, 0);
  for (uint64_t v : repeat)
    all.insert(v, 0);
  for (size_t i = 0; i < rest.size(); ++i)
    all.insert(rest[i], uint64_t{1} << i);
  auto project = [&](const Columns &vectors) {
    Columns r;
    Subspace independent;
    for (uint64_t v : vectors)
      if (uint64_t x = all.reduce(v).combo; independent.insert(x, 0))
        r.push_back(x);
    return r;
  };
  // From here on vectors are coordinates in `rest`.
  unsigned bankBits = 7 - std::min(7u, static_cast<unsigned>(c.chunk.size()) + p.byteShift);
  Columns a = project(phaseLanes(p.src, c.store)), b = project(phaseLanes(p.near, c.load));
  // Narrow chunks have more lanes in a phase.
  if (c.store == SharedMove::Plain)
    a = project(Columns(p.src.threads.begin(), p.src.threads.begin() + std::min(5u, bankBits)));
  if (c.load == SharedMove::Plain)
    b = project(Columns(p.near.threads.begin(), p.near.threads.begin() + std::min(5u, bankBits)));
  if (a.size() > bankBits)
    a.resize(bankBits);
  if (b.size() > bankBits)
    b.resize(bankBits);
  Columns meet = intersection(a, b), onlyA = modulo(a, meet), onlyB = modulo(b, meet);
  Columns rows, units;
  for (size_t i = 0; i < rest.size(); ++i)
    units.push_back(uint64_t{1} << i);
  Columns both = a;
  both.insert(both.end(), b.begin(), b.end());
  rows = modulo(units, both);
  for (size_t i = 0; i < std::min(onlyA.size(), onlyB.size()); ++i)
    rows.push_back(onlyA[i] ^ onlyB[i]);
  size_t rowCount = rest.size() > bankBits ? rest.size() - bankBits : 0;
  // Surplus rows become banks; keep the swizzled ones as rows, so that the banks stay simple.
  while (rows.size() > rowCount)
    rows.erase(rows.begin());
  Columns banks = a;
  for (uint64_t v : b)
    banks.push_back(v);
  banks.insert(banks.end(), units.begin(), units.end());
  banks = modulo(banks, rows);
  Memory m;
  m.basis = c.chunk;
  for (const Columns *part : {&banks, &rows})
    for (uint64_t v : *part)
      m.basis.push_back(multiply(rest, v));
  m.stored = static_cast<unsigned>(m.basis.size());
  m.repeated = static_cast<unsigned>(repeat.size());
  m.basis.insert(m.basis.end(), repeat.begin(), repeat.end());
  m.basis.insert(m.basis.end(), p.blocks.begin(), p.blocks.end());
  m.finish();
  return m;
}

/// Register directions reduced so that each has zero in the offset bits of the directions before it: returns `wanted` (must
/// be in the span of the registers) and the others, free of wanted.
Columns others(const Columns &registers, const Columns &wanted, const Memory &m, uint64_t lowMask) {
  Columns r;
  for (uint64_t v : modulo(registers, wanted)) {
    // Clear the low offset bits by adding wanted directions, which are the low basis vectors.
    uint64_t low = m.offset(v) & lowMask;
    for (uint64_t w : wanted)
      if (m.offset(w) & low)
        v ^= w;
    r.push_back(v);
  }
  return r;
}

Columns byteImages(const Columns &elements, const Memory &m, unsigned byteShift) {
  Columns r;
  for (uint64_t v : elements)
    r.push_back(m.offset(v) << byteShift);
  return r;
}

/// The widest vector access of a side.
Access plainAccess(const Problem &p, const Side &side, const Memory &m) {
  Subspace own;
  for (uint64_t v : side.reg())
    own.insert(v, 0);
  uint64_t threadLow = 0;
  for (uint64_t v : side.threads)
    threadLow |= m.offset(v);
  Access x;
  while (x.vecBits < p.chunkBits() && x.vecBits < m.stored && own.contains(m.basis[x.vecBits]) &&
         !(threadLow >> x.vecBits & 1))
    x.sub.push_back(m.basis[x.vecBits++]);
  x.outer = others(side.reg(), x.sub, m, (uint64_t{1} << x.vecBits) - 1);
  x.count = 1u << x.outer.size();
  unsigned bytes = 1u << (x.vecBits + p.byteShift);
  Columns lanes(side.threads.begin(), side.threads.begin() + 5);
  x.wavefronts = linearWavefronts(byteImages(lanes, m, p.byteShift), bytes);
  x.ideal = bytes > 4 ? bytes / 4 : 1;
  return x;
}

/// ldmatrix or stmatrix, if the layouts fit it exactly.
std::optional<Access> matrixAccess(const Problem &p, const Side &side, const Memory &m, bool trans) {
  unsigned chunk = p.chunkBits(), sub = 2 - std::min(2u, p.byteShift);
  if (p.byteShift > 2 || (trans && p.byteShift != 1) || m.stored < chunk || !side.lanesDistinct)
    return std::nullopt;
  uint64_t low = (uint64_t{1} << chunk) - 1;
  const Columns &t = side.threads;
  Access x;
  x.move = trans ? SharedMove::MatrixTrans : SharedMove::Matrix;
  // Lanes across a row: they must be the chunk, in order. All other threads must begin rows.
  unsigned firstAcross = trans ? 2 : 0, across = trans ? 3 : 2, skip = trans ? 0 : sub;
  for (size_t i = 0; i < t.size(); ++i) {
    bool isAcross = i >= firstAcross && i < firstAcross + across;
    uint64_t offset = m.offset(t[i]);
    if (isAcross ? offset != uint64_t{1} << (skip + i - firstAcross) : (offset & low) != 0)
      return std::nullopt;
  }
  Columns rest;
  if (trans) {
    for (uint64_t v : side.reg())
      if (m.offset(v) & low)
        return std::nullopt;
    rest = side.reg();
    if (rest.empty())
      return std::nullopt;
  } else {
    Subspace own;
    for (uint64_t v : side.reg())
      own.insert(v, 0);
    for (unsigned i = 0; i < sub; ++i)
      if (!own.contains(m.basis[i]))
        return std::nullopt;
      else
        x.sub.push_back(m.basis[i]);
    rest = others(side.reg(), x.sub, m, (uint64_t{1} << sub) - 1);
    for (uint64_t v : rest)
      if (m.offset(v) & low)
        return std::nullopt;
  }
  // Directions between repetitions or CTAs stay outside an instruction.
  auto repeated = [&](uint64_t v) { return m.repetition(v) != 0 || m.owner(v) != 0; };
  Columns outside;
  std::copy_if(rest.begin(), rest.end(), std::back_inserter(outside), repeated);
  std::erase_if(rest, repeated);
  size_t within = rest.size();
  rest.insert(rest.end(), outside.begin(), outside.end());
  Columns rows = trans ? Columns{0, t[0], t[1]} : Columns{t[2], t[3], t[4]};
  if (trans) {
    if (within == 0)
      return std::nullopt;
    // The two halves of a 32-bit register: the direction with the fewest conflicts.
    size_t best = 0;
    unsigned bestWaves = ~0u;
    for (size_t i = 0; i < within; ++i) {
      rows[0] = rest[i];
      unsigned waves = linearMatrixWavefronts(byteImages(rows, m, p.byteShift), 1);
      if (waves < bestWaves)
        bestWaves = waves, best = i;
    }
    rows[0] = rest[best];
    x.sub = {rest[best]};
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(best));
    --within;
  }
  size_t matrixBits = std::min<size_t>(2, within);
  x.matrices.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(matrixBits));
  x.outer.assign(rest.begin() + static_cast<std::ptrdiff_t>(matrixBits), rest.end());
  x.rowBits = rows;
  for (size_t i = 0; i < 2; ++i)
    x.rowBits.push_back(i < matrixBits ? x.matrices[i] : 0);
  x.count = 1u << x.outer.size();
  x.ideal = 1u << matrixBits;
  x.wavefronts = linearMatrixWavefronts(byteImages(rows, m, p.byteShift), x.ideal);
  return x;
}

double sideClocks(const Access &x) { return x.count * (x.wavefronts + 0.5); }

Access bestAccess(const Problem &p, const Side &side, const Memory &m, bool matrixAllowed) {
  Access best = plainAccess(p, side, m);
  if (matrixAllowed)
    for (bool trans : {false, true})
      if (auto x = matrixAccess(p, side, m, trans); x && sideClocks(*x) < sideClocks(best))
        best = *x;
  return best;
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
    // Plain: [register directions, lane 0, lane 1]. The register directions from the other side's registers if possible, or
    // what the other side needs for a transposing move.
    Columns shared = modulo(intersection(one.reg(), two.reg()), {t[0], t[1]});
    Columns any = modulo(one.reg(), {t[0], t[1]});
    for (Columns subs : {shared, any, intersection(one.reg(), Columns(two.threads.begin() + 2, two.threads.begin() + 3))}) {
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

/// The best memory layout over all chunks.
Solution solve(const Problem &p) {
  std::optional<Solution> best;
  Subspace inside;
  for (uint64_t v : p.space)
    inside.insert(v, 0);
  unsigned bits = static_cast<unsigned>(p.space.size()), wanted = 0;
  while (p.options->maxBytes != 0 && wanted < bits && (uint64_t{1} << (bits - wanted + p.byteShift)) > p.options->maxBytes)
    ++wanted;
  for (const Candidate &c : candidates(p)) {
    if (rankOf(c.chunk) != c.chunk.size() ||
        !std::all_of(c.chunk.begin(), c.chunk.end(), [&](uint64_t v) { return inside.contains(v); }))
      continue;
    Columns repeat = repetitions(p, c.chunk, wanted);
    for (bool dstFirst : {false, true}) {
      Solution s;
      s.memory = buildMemory(p, c, repeat, dstFirst);
      // A lane that reads from two CTAs within one matrix row would be wrong: matrix loads only inside a CTA.
      s.store = bestAccess(p, p.src, s.memory, p.options->stmatrix);
      s.load = bestAccess(p, p.dst, s.memory, p.options->ldmatrix && p.blocks.empty());
      s.clocks = sideClocks(s.store) + sideClocks(s.load) + 35.0 * (1u << repeat.size());
      if (!best || s.clocks < best->clocks)
        best = std::move(s);
    }
  }
  return *best;
}

/// Offsets (or owners) of thread bits.
template <typename F> ThreadMap threadMap(const Columns &images, size_t warps, F value) {
  ThreadMap t;
  for (size_t i = 0; i < images.size(); ++i)
    (i < 5 ? t.lane : i < 5 + warps ? t.warp : t.block).push_back(static_cast<uint32_t>(value(images[i])));
  return t;
}

SharedSide emitSide(const Access &x, const Side &side, const Memory &m) {
  SharedSide s;
  s.move = x.move;
  s.elements = 1u << x.vecBits;
  s.wavefronts = x.wavefronts;
  Columns threads = side.threads;
  if (x.move != SharedMove::Plain) {
    s.matrices = 1u << x.matrices.size();
    std::copy(x.rowBits.begin(), x.rowBits.end(), threads.begin());
  }
  s.base = threadMap(threads, side.places.warp.size(), [&](uint64_t v) { return m.offset(v); });
  s.addMask = ~s.base.reach();
  Subspace registers;
  for (size_t i = 0; i < side.reg().size(); ++i)
    registers.insert(side.reg()[i], uint64_t{1} << i);
  for (uint64_t turn = 0; turn < uint64_t{1} << m.repeated; ++turn)
    for (uint64_t o = 0; o < uint64_t{1} << x.outer.size(); ++o) {
      uint64_t element = multiply(x.outer, o);
      if (m.repetition(element) != turn)
        continue;
      SharedAccess a;
      a.offset = static_cast<uint32_t>(m.offset(element));
      a.repetition = static_cast<uint16_t>(turn);
      a.blockXor = static_cast<uint32_t>(m.owner(element));
      for (uint64_t k = 0; k < uint64_t{1} << x.matrices.size(); ++k)
        for (uint64_t j = 0; j < uint64_t{1} << x.sub.size(); ++j) {
          uint64_t at = element ^ multiply(x.matrices, k) ^ multiply(x.sub, j);
          a.registers.push_back(side.places.realRegister(registers.reduce(at).combo));
        }
      s.accesses.push_back(a);
    }
  return s;
}

Columns joined(std::initializer_list<const Columns *> parts) {
  Columns all;
  for (const Columns *c : parts)
    all.insert(all.end(), c->begin(), c->end());
  return all;
}

/// Both sides in terms of what one CTA stores. Fills `ownBlocks` with the block bits whose data is in the own CTA.
Problem pose(const LinearLayout &src, const LinearLayout &dst, unsigned elemBits, ExchangeScope scope, uint32_t &ownBlocks,
             ThreadBit &guard) {
  Problem p;
  p.byteShift = log2Exact(elemBits / 8);
  p.src.places = placesOf(src);
  p.dst.places = placesOf(dst);
  LinearLayout cta = src.sublayout(std::array{Dim::Register, Dim::Lane, Dim::Warp}, [&] {
    std::vector<Dim> names;
    for (DimBits d : src.outs())
      names.push_back(d.dim);
    return names;
  }());
  guard.lane = cta.freeMask(Dim::Lane);
  guard.warp = cta.freeMask(Dim::Warp);
  p.src.lanesDistinct = guard.lane == 0;
  Places &s = p.src.places, &d = p.dst.places;
  p.space = modulo(joined({&s.reg, &s.lane, &s.warp}), {});
  // Stores go to the own CTA: block bits change nothing, guarded bits do not matter.
  p.src.threads = joined({&s.lane, &s.warp});
  for (size_t i = 0; i < p.src.threads.size(); ++i)
    if (i < 5 ? guard.lane >> i & 1 : guard.warp >> (i - 5) & 1)
      p.src.threads[i] = 0;
  p.src.threads.resize(p.src.threads.size() + s.block.size(), 0);
  // Loads: relative to the own CTA where that has the data.
  p.dst.threads = joined({&d.lane, &d.warp});
  Subspace inside;
  for (uint64_t v : p.space)
    inside.insert(v, 0);
  for (size_t i = 0; i < d.block.size(); ++i) {
    bool own = inside.contains(d.block[i] ^ s.block[i]);
    p.dst.threads.push_back(own ? d.block[i] ^ s.block[i] : d.block[i]);
    ownBlocks |= uint32_t{own} << i;
  }
  p.near = p.dst;
  if (scope != ExchangeScope::Cluster)
    return p;
  // Directions between CTAs. One label for each block bit, so that the labels are CTA numbers; a bit that is a copy gets a
  // direction outside the tensor, which no element has.
  unsigned unused = src.totalOutBits();
  Subspace all = inside;
  for (size_t i = 0; i < s.block.size(); ++i) {
    bool distinct = all.insert(s.block[i], 0);
    p.blocks.push_back(distinct ? s.block[i] : uint64_t{1} << unused++);
  }
  Subspace split;
  for (uint64_t v : p.space)
    split.insert(v, 0);
  for (size_t i = 0; i < p.blocks.size(); ++i)
    split.insert(p.blocks[i], uint64_t{1} << i);
  for (Columns *part : {&p.near.places.reg, &p.near.threads})
    for (uint64_t &v : *part)
      v ^= multiply(p.blocks, split.reduce(v).combo);
  return p;
}

} // namespace

SharedSide planAccess(const LinearLayout &registers, const LinearLayout &memory, unsigned elemBits, bool store,
                      const ConversionOptions &options) {
  Problem p;
  p.byteShift = log2Exact(elemBits / 8);
  p.options = &options;
  Side side;
  side.places = placesOf(registers);
  side.threads = joined({&side.places.lane, &side.places.warp});
  ThreadBit guard;
  if (store) {
    guard = {registers.freeMask(Dim::Lane), registers.freeMask(Dim::Warp), 0};
    side.lanesDistinct = guard.lane == 0;
    for (size_t i = 0; i < side.threads.size(); ++i)
      if (i < 5 ? guard.lane >> i & 1 : guard.warp >> (i - 5) & 1)
        side.threads[i] = 0;
  }
  Memory m;
  m.basis.assign(memory.bases().begin(), memory.bases().end());
  m.stored = static_cast<unsigned>(m.basis.size());
  m.finish();
  SharedSide s = emitSide(bestAccess(p, side, m, store ? options.stmatrix : options.ldmatrix), side, m);
  s.guard = guard;
  return s;
}

ConversionPlan planShared(const LinearLayout &src, const LinearLayout &dst, unsigned elemBits, ExchangeScope scope,
                          const ConversionOptions &options) {
  ThreadBit guard;
  uint32_t ownBlocks = 0;
  Problem p = pose(src, dst, elemBits, scope, ownBlocks, guard);
  p.options = &options;
  Solution s = solve(p);
  const Memory &m = s.memory;
  ConversionPlan plan;
  plan.kind = ConversionKind::Shared;
  SharedPlan &sh = plan.shared;
  sh.repetitions = 1u << m.repeated;
  sh.memory = LinearLayout({{Dim::Offset, static_cast<uint8_t>(m.stored)}}, src.outs(), std::span(m.basis).first(m.stored));
  sh.store = emitSide(s.store, p.src, m);
  sh.store.guard = guard;
  sh.load = emitSide(s.load, p.dst, m);
  if (scope == ExchangeScope::Cluster) {
    sh.load.block = threadMap(p.dst.threads, p.dst.places.warp.size(), [&](uint64_t v) { return m.owner(v); });
    for (size_t i = 0; i < sh.load.block.block.size(); ++i)
      if (ownBlocks >> i & 1)
        sh.load.block.block[i] = 1u << i;
  }

  ConversionCost &c = plan.cost;
  c.bytes = (1u << m.stored) * (elemBits / 8);
  c.storeWavefronts = s.store.count * s.store.wavefronts;
  c.loadWavefronts = s.load.count * s.load.wavefronts;
  c.conflicts = s.store.count * (s.store.wavefronts - s.store.ideal) + s.load.count * (s.load.wavefronts - s.load.ideal);
  c.barriers = 2 * sh.repetitions - 1;
  double barrier = scope <= ExchangeScope::Warp ? 3 : scope == ExchangeScope::Cta ? 20 : 200;
  c.clocks = sideClocks(s.store) + sideClocks(s.load) + c.barriers * barrier + 30;
  return plan;
}

} // namespace tegula::layout::detail
