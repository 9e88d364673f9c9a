// Conversions through shared memory, and accesses to shared memory of a given layout, as plans.
#include "layout/ConversionMemory.h"
#include <algorithm>
#include <array>

namespace tegula::layout::detail {

namespace {

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
Problem pose(const LinearLayout &src, const LinearLayout &dst, unsigned elemBits, ExchangeScope scope,
             uint32_t &ownBlocks, ThreadBit &guard) {
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
  // Directions between CTAs. One label for each block bit, so that the labels are CTA numbers; a bit that is a copy
  // gets a direction outside the tensor, which no element has.
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
  // Where warps hold copies, one of them stores for the others: they have to wait for it.
  plan.scope = std::max(scope, guard.warp != 0 ? ExchangeScope::Cta : ExchangeScope::Warp);
  SharedPlan &sh = plan.shared;
  sh.repetitions = 1u << m.repeated;
  sh.memory =
      LinearLayout({{Dim::Offset, static_cast<uint8_t>(m.stored)}}, src.outs(), std::span(m.basis).first(m.stored));
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
  c.conflicts =
      s.store.count * (s.store.wavefronts - s.store.ideal) + s.load.count * (s.load.wavefronts - s.load.ideal);
  c.barriers = 2 * sh.repetitions - 1;
  double barrier = plan.scope <= ExchangeScope::Warp ? 3 : plan.scope == ExchangeScope::Cta ? 20 : 200;
  c.clocks = sideClocks(s.store) + sideClocks(s.load) + c.barriers * barrier + 30;
  return plan;
}

} // namespace tegula::layout::detail
