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

} // namespace

Access bestAccess(const Problem &p, const Side &side, const Memory &m, bool matrixAllowed) {
  Access best = plainAccess(p, side, m);
  if (matrixAllowed)
    for (bool trans : {false, true})
      if (auto x = matrixAccess(p, side, m, trans); x && sideClocks(*x) < sideClocks(best))
        best = *x;
  return best;
}

} // namespace tegula::layout::detail
