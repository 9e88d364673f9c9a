// How one side of a conversion reaches its elements in shared memory: vector accesses, ldmatrix and stmatrix.
#include "layout/Banks.h"
#include "layout/ConversionMemory.h"
#include <algorithm>

namespace tegula::layout::detail {

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

namespace {

/// Register directions reduced so that each has zero in the offset bits of the directions before it: returns `wanted`
/// (must be in the span of the registers) and the others, free of wanted.
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

/// True if the lanes across a matrix row are the chunk, in order, and all other threads begin rows.
bool threadsFit(const Side &side, const Memory &m, bool trans, unsigned sub, uint64_t low) {
  unsigned first = trans ? 2 : 0, across = trans ? 3 : 2;
  for (size_t i = 0; i < side.threads.size(); ++i) {
    uint64_t offset = m.offset(side.threads[i]);
    bool isAcross = i >= first && i < first + across;
    if (isAcross ? offset != uint64_t{1} << (sub + i - first) : (offset & low) != 0)
      return false;
  }
  return true;
}

/// Removes the direction with the fewest conflicts: the two halves of a 32-bit register, which .trans finds in
/// neighbouring rows. `lanes`: the other two row directions.
uint64_t takeHalf(Columns &directions, const Columns &lanes, const Memory &m, unsigned byteShift) {
  size_t best = 0;
  unsigned bestWaves = ~0u;
  for (size_t i = 0; i < directions.size(); ++i) {
    unsigned waves = linearMatrixWavefronts(byteImages({directions[i], lanes[0], lanes[1]}, m, byteShift), 1);
    if (waves < bestWaves)
      bestWaves = waves, best = i;
  }
  uint64_t half = directions[best];
  directions.erase(directions.begin() + static_cast<std::ptrdiff_t>(best));
  return half;
}

/// ldmatrix or stmatrix, if the layouts fit it exactly. With .trans, which transposes units of 16 bits (PTX ISA,
/// ldmatrix), bytes come in pairs: two neighbours of each of two rows in a register.
std::optional<Access> matrixAccess(const Problem &p, const Side &side, const Memory &m, bool trans) {
  unsigned chunk = p.chunkBits(), unit = trans ? 1 : 2, sub = unit - std::min(unit, p.byteShift);
  uint64_t low = (uint64_t{1} << chunk) - 1;
  if (p.byteShift > unit || m.stored < chunk || !side.lanesDistinct ||
      !threadsFit(side, m, trans, sub, low))
    return std::nullopt;
  Access x;
  x.move = trans ? SharedMove::MatrixTrans : SharedMove::Matrix;
  // The lowest bits of a row lie in one lane's 32-bit register, or its half; all other registers begin rows.
  x.sub.assign(m.basis.begin(), m.basis.begin() + sub);
  if (!modulo(x.sub, side.reg()).empty())
    return std::nullopt;
  Columns rest = others(side.reg(), x.sub, m, (uint64_t{1} << sub) - 1);
  if (std::any_of(rest.begin(), rest.end(), [&](uint64_t v) { return (m.offset(v) & low) != 0; }))
    return std::nullopt;
  // Directions between repetitions or CTAs stay outside an instruction.
  auto repeated = [&](uint64_t v) { return m.repetition(v) != 0 || m.owner(v) != 0; };
  Columns outside;
  std::copy_if(rest.begin(), rest.end(), std::back_inserter(outside), repeated);
  std::erase_if(rest, repeated);
  const Columns &t = side.threads;
  x.rowBits = {t[2], t[3], t[4]};
  if (trans) {
    if (rest.empty())
      return std::nullopt;
    uint64_t half = takeHalf(rest, {t[0], t[1]}, m, p.byteShift);
    x.sub.push_back(half);
    x.rowBits = {half, t[0], t[1]};
  }
  size_t matrixBits = std::min<size_t>(2, rest.size());
  x.wavefronts = linearMatrixWavefronts(byteImages(x.rowBits, m, p.byteShift), 1u << matrixBits);
  x.ideal = 1u << matrixBits;
  x.matrices.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(matrixBits));
  x.outer.assign(rest.begin() + static_cast<std::ptrdiff_t>(matrixBits), rest.end());
  x.outer.insert(x.outer.end(), outside.begin(), outside.end());
  x.count = 1u << x.outer.size();
  for (size_t i = 0; i < 2; ++i)
    x.rowBits.push_back(i < matrixBits ? x.matrices[i] : 0);
  return x;
}

/// The cost of registers that are not in the order of an access. Narrow elements are packed in 32-bit words, in the
/// order of the registers: a word that an access builds from other neighbours takes a permutation (PRMT, half rate) for
/// each pair. Whole words in another order are renamed for free, except where an instruction requires consecutive
/// registers: fragments of mma.sync were moved one by one (64 of 529 instructions of an attention loop). Such words
/// only break ties.
double moves(const Problem &p, const Side &side, const Access &x) {
  constexpr double permutation = 0.5, move = 0.125;
  const unsigned inWord = 2 - std::min(2u, p.byteShift);
  Columns order = x.sub;
  order.insert(order.end(), x.matrices.begin(), x.matrices.end());
  auto differs = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      if (i >= side.reg().size() || order[i] != side.reg()[i])
        return true;
    return false;
  };
  const size_t elements = order.size(), whole = std::min<size_t>(inWord, elements);
  const double words = x.count * static_cast<double>(uint64_t{1} << (elements - whole));
  // A narrower access extracts its element from a word.
  if (differs(0, whole) || (whole < inWord && side.reg().size() > whole))
    return words * permutation * inWord;
  return differs(whole, elements) ? words * move : 0;
}

} // namespace

Access bestAccess(const Problem &p, const Side &side, const Memory &m, bool matrixAllowed) {
  Access best = plainAccess(p, side, m);
  best.moves = moves(p, side, best);
  if (matrixAllowed)
    for (bool trans : {false, true})
      if (auto x = matrixAccess(p, side, m, trans)) {
        x->moves = moves(p, side, *x);
        if (sideClocks(*x) < sideClocks(best))
          best = *x;
      }
  return best;
}

} // namespace tegula::layout::detail
