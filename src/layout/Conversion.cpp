// Choice between the ways of a conversion; the trivial ways; the text of a plan.
#include "layout/ConversionDetail.h"
#include <algorithm>

namespace tegula::layout {

namespace detail {

uint16_t Places::realRegister(uint64_t compact) const {
  uint64_t r = 0;
  for (size_t i = 0; i < registerBits.size(); ++i)
    r |= (compact >> i & 1) << registerBits[i];
  return static_cast<uint16_t>(r);
}

Places placesOf(const LinearLayout &l) {
  Places p;
  Subspace seen;
  for (unsigned i = 0; i < l.inBits(Dim::Register); ++i)
    if (seen.insert(l.basis(Dim::Register, i), 0)) {
      p.reg.push_back(l.basis(Dim::Register, i));
      p.registerBits.push_back(i);
    }
  auto copy = [&](Dim d, std::vector<uint64_t> &to) { to.assign(l.bases(d).begin(), l.bases(d).end()); };
  copy(Dim::Lane, p.lane);
  copy(Dim::Warp, p.warp);
  copy(Dim::Block, p.block);
  assert(p.lane.size() <= 5);
  p.lane.resize(5, 0);
  return p;
}

std::vector<uint64_t> intersection(std::span<const uint64_t> a, std::span<const uint64_t> b) {
  // Sums of a's vectors that the vectors of b can express: the dependencies found while adding b to a.
  Subspace both;
  std::vector<uint64_t> result;
  for (size_t i = 0; i < a.size(); ++i)
    both.insert(a[i], uint64_t{1} << i);
  for (uint64_t v : b)
    if (!both.insert(v, 0))
      result.push_back(multiply(a, both.dependency()));
  Subspace independent;
  std::erase_if(result, [&](uint64_t v) { return !independent.insert(v, 0); });
  return result;
}

} // namespace detail

std::vector<uint16_t> copiesOf(const LinearLayout &layout) {
  detail::Places p = detail::placesOf(layout);
  Subspace registers;
  for (size_t i = 0; i < p.reg.size(); ++i)
    registers.insert(p.reg[i], uint64_t{1} << p.registerBits[i]);
  std::vector<uint16_t> copies;
  for (uint64_t r = 0; r < static_cast<uint64_t>(layout.inSize(Dim::Register)); ++r)
    copies.push_back(static_cast<uint16_t>(registers.reduce(multiply(layout.bases(Dim::Register), r)).combo));
  return copies;
}

uint32_t ThreadMap::at(uint32_t l, uint32_t w, uint32_t b) const {
  uint32_t v = 0;
  auto add = [&](const std::vector<uint32_t> &images, uint32_t bits) {
    for (size_t i = 0; i < images.size(); ++i)
      if (bits >> i & 1)
        v ^= images[i];
  };
  add(lane, l);
  add(warp, w);
  add(block, b);
  return v;
}

uint32_t ThreadMap::reach() const {
  uint32_t v = 0;
  for (const auto *images : {&lane, &warp, &block})
    for (uint32_t i : *images)
      v |= i;
  return v;
}

/// dst with its outputs in the order of src and both with the same hardware inputs.
static void harmonize(LinearLayout &src, LinearLayout &dst) {
  std::vector<Dim> order;
  for (DimBits d : src.outs()) {
    assert(dst.outBits(d.dim) == d.bits && "layouts of different tensors");
    order.push_back(d.dim);
  }
  dst = dst.transposeOuts(order);
  for (Dim d : {Dim::Register, Dim::Lane, Dim::Warp, Dim::Block}) {
    unsigned bits = d == Dim::Lane ? 5 : d == Dim::Register ? 0 : std::max(src.inBits(d), dst.inBits(d));
    src = src.growIn(d, bits);
    dst = dst.growIn(d, bits);
  }
  for (LinearLayout *l : {&src, &dst}) {
    assert(l->ins().size() == 4 && "only register, lane, warp and block can be converted");
    *l = l->transposeIns({Dim::Register, Dim::Lane, Dim::Warp, Dim::Block});
  }
}

static ExchangeScope scopeOf(const LinearLayout &src, const LinearLayout &dst) {
  // At scope X, all inputs up to X of src may supply the data; the others must agree up to what X can supply.
  Subspace reach;
  constexpr Dim dims[] = {Dim::Register, Dim::Lane, Dim::Warp, Dim::Block};
  for (int scope = 0; scope < 4; ++scope) {
    for (uint64_t b : src.bases(dims[scope]))
      reach.insert(b, 0);
    bool fits = true;
    for (int d = 0; d < 4; ++d)
      for (unsigned i = 0; fits && i < dst.inBits(dims[d]); ++i)
        fits = reach.contains(d <= scope ? dst.basis(dims[d], i) : dst.basis(dims[d], i) ^ src.basis(dims[d], i));
    if (fits)
      return static_cast<ExchangeScope>(scope);
  }
  return ExchangeScope::Cluster;
}

ExchangeScope exchangeScope(const LinearLayout &src, const LinearLayout &dst) {
  LinearLayout s = src, d = dst;
  harmonize(s, d);
  return scopeOf(s, d);
}

/// The plan that only renames registers, if that suffices.
static std::optional<ConversionPlan> planRegisters(const LinearLayout &src, const LinearLayout &dst) {
  for (Dim d : {Dim::Lane, Dim::Warp, Dim::Block})
    if (!std::equal(src.bases(d).begin(), src.bases(d).end(), dst.bases(d).begin(), dst.bases(d).end()))
      return std::nullopt;
  Subspace registers;
  for (unsigned i = 0; i < src.inBits(Dim::Register); ++i)
    registers.insert(src.basis(Dim::Register, i), uint64_t{1} << i);
  ConversionPlan plan;
  plan.kind = src == dst ? ConversionKind::Nothing : ConversionKind::Registers;
  for (uint64_t r = 0; r < static_cast<uint64_t>(dst.inSize(Dim::Register)); ++r)
    // A layout with copies among its registers converts to itself without renaming.
    plan.registers.push_back(static_cast<uint16_t>(
        src == dst ? r : registers.reduce(multiply(dst.bases(Dim::Register), r)).combo));
  return plan;
}

ConversionPlan planConversion(const LinearLayout &srcLayout, const LinearLayout &dstLayout, unsigned elemBits,
                              const ConversionOptions &options) {
  LinearLayout src = srcLayout, dst = dstLayout;
  harmonize(src, dst);
  elemBits = std::max(elemBits, 8u);
  ExchangeScope scope = scopeOf(src, dst);
  if (scope == ExchangeScope::Thread)
    if (auto plan = planRegisters(src, dst))
      return *plan;
  std::optional<ConversionPlan> best;
  if (scope <= ExchangeScope::Warp && (options.shuffles || scope == ExchangeScope::Thread))
    best = detail::planShuffles(src, dst, elemBits);
  if (!best || (options.shared && scope != ExchangeScope::Thread)) {
    ConversionPlan shared = detail::planShared(src, dst, elemBits, scope, options);
    if (!best || shared.cost.clocks < best->cost.clocks)
      best = shared;
  }
  best->copyOf = copiesOf(dst);
  return *best;
}

SharedSide planSharedAccess(const LinearLayout &registers, const LinearLayout &memory, unsigned elemBits, bool store,
                            const ConversionOptions &options) {
  LinearLayout r = registers.growIn(Dim::Register, 0).growIn(Dim::Lane, 5).growIn(Dim::Warp, 0);
  assert(memory.isInvertible() && r.inBits(Dim::Block) == 0);
  std::vector<Dim> order;
  for (DimBits d : memory.outs()) {
    assert(r.outBits(d.dim) == d.bits && "layouts of different tensors");
    order.push_back(d.dim);
  }
  r = r.sublayout(std::array{Dim::Register, Dim::Lane, Dim::Warp}, order);
  return detail::planAccess(r, memory, std::max(elemBits, 8u), store, options);
}

static std::string sideText(const SharedSide &side, bool store) {
  if (side.move == SharedMove::Plain)
    return std::string(store ? "st " : "ld ") + std::to_string(side.elements) + " wide x " +
           std::to_string(side.accesses.size());
  return std::string(store ? "stmatrix" : "ldmatrix") + (side.move == SharedMove::MatrixTrans ? ".trans.x" : ".x") +
         std::to_string(side.matrices) + " x " + std::to_string(side.accesses.size());
}

std::string ConversionPlan::print() const {
  switch (kind) {
  case ConversionKind::Nothing:
    return "nothing";
  case ConversionKind::Registers:
    return "registers " + std::to_string(registers.size());
  case ConversionKind::Shuffles:
    return "shuffles " + std::to_string(cost.shuffles) + ", selects " + std::to_string(cost.selects);
  case ConversionKind::Shared:
    return "shared " + std::to_string(cost.bytes) + " B, " + sideText(shared.store, true) + ", " +
           sideText(shared.load, false) + ", " + std::to_string(cost.conflicts) + " conflicts" +
           (shared.repetitions > 1 ? ", " + std::to_string(shared.repetitions) + " repetitions" : "");
  }
  return "";
}

} // namespace tegula::layout
