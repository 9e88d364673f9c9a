// Layouts: the input's bytes choose shapes, layouts and operations. What the constructors promise must hold, and a
// planned conversion, executed by the tests' machine, must deliver exactly the destination at no more than the promised
// cost.
#include "../layout/KernelLayouts.h"
#include "../layout/Machine.h"
#include <cstdio>
#include <cstdlib>

using namespace tegula::layout;
using tegula::layout::test::Machine;
using tegula::layout::test::Observed;
using tegula::layout::test::Random;
using tegula::layout::test::someLayout;

static void check(bool ok, const char *what, const LinearLayout &a, const LinearLayout &b = {}) {
  if (ok)
    return;
  std::fprintf(stderr, "%s\n%s\n%s\n", what, a.print().c_str(), b.print().c_str());
  std::abort();
}

/// Powers of two whose product is at most 2^maxBits.
static Extents someShape(Random &rnd, unsigned rank, unsigned maxBits) {
  Extents shape;
  for (unsigned i = 0; i < rank; ++i) {
    unsigned bits = static_cast<unsigned>(rnd.below(std::min(maxBits, 8u) + 1));
    shape.push(int64_t{1} << bits);
    maxBits -= bits;
  }
  return shape;
}

/// Any order of the axes.
static Extents someOrder(Random &rnd, unsigned rank) {
  Extents order;
  for (unsigned i = 0; i < rank; ++i)
    order.push(i);
  for (unsigned i = rank; i > 1; --i)
    std::swap(order[i - 1], order[static_cast<unsigned>(rnd.below(i))]);
  return order;
}

static void convert(Random &rnd, const LinearLayout &src, const LinearLayout &dst, unsigned elemBits) {
  ConversionOptions options;
  options.ldmatrix = !rnd.chance(20);
  options.stmatrix = !rnd.chance(30);
  options.shuffles = !rnd.chance(25);
  options.shared = options.shuffles ? !rnd.chance(15) : true;
  if (rnd.chance(25))
    options.maxBytes = 256u << rnd.below(8);
  ConversionPlan plan = planConversion(src, dst, elemBits, options);
  Observed seen = Machine(src, dst, elemBits).run(plan);
  bool cheap = seen.shuffles <= plan.cost.shuffles && seen.bytes <= plan.cost.bytes &&
               seen.storeWavefronts <= plan.cost.storeWavefronts && seen.loadWavefronts <= plan.cost.loadWavefronts;
  check(cheap, "costs more than promised", src, dst);
}

static void conversion(Random &rnd) {
  unsigned elemBits = 8u << rnd.below(4);
  if (rnd.chance(50)) {
    Extents shape{int64_t{8} << rnd.below(4), int64_t{8} << rnd.below(4)};
    unsigned warps = 1u << rnd.below(4);
    LinearLayout src = someLayout(rnd, shape, warps, elemBits), dst = someLayout(rnd, shape, warps, elemBits);
    return convert(rnd, src, dst, elemBits);
  }
  DimList outs{{Dim::Dim1, static_cast<uint8_t>(rnd.below(7))}, {Dim::Dim0, static_cast<uint8_t>(rnd.below(5))}};
  unsigned warpBits = static_cast<unsigned>(rnd.below(3));
  LinearLayout src = rnd.distributed(outs, 5, warpBits, rnd.chance(40)),
               dst = rnd.distributed(outs, 5, warpBits, rnd.chance(40));
  convert(rnd, src, dst, elemBits);
}

/// Constructors of every rank, then shape operations on what they gave.
static void constructors(Random &rnd) {
  unsigned rank = 1 + static_cast<unsigned>(rnd.below(4)), warps = 1u << rnd.below(6);
  Extents shape = someShape(rnd, rank, 14), order = someOrder(rnd, rank);
  LinearLayout l = dealt(shape, order, 1u << rnd.below(6), {32, warps});
  check(l.isSurjective() && shapeOf(l) == shape && l.freeMask(Dim::Register) == 0, "dealt", l);
  check(static_cast<unsigned>(l.inSize(Dim::Warp)) == warps && l.inSize(Dim::Lane) == 32, "dealt: threads", l);
  if (rnd.chance(40))
    l = rnd.distributed(tensorDims(shape), 5, log2Exact(warps), rnd.chance(50));
  unsigned axis = static_cast<unsigned>(rnd.below(rank));
  l = l.removeZeroBases(Dim::Register);
  uint64_t x = rnd.bits(l.totalInBits());
  LinearLayout s = slice(l, axis);
  check(s.isSurjective() && slice(expandDims(s, axis), axis) == s, "slice", l, s);
  check(shapeOf(s).rank() == rank - 1, "slice: shape", l, s);
  Extents perm = someOrder(rnd, rank);
  LinearLayout p = permute(l, perm);
  for (unsigned i = 0; i < rank; ++i)
    check(p.outs().part(p.apply(x), tensorDim(i)) ==
              l.outs().part(l.apply(x), tensorDim(static_cast<unsigned>(perm[i]))),
          "permute", l, p);
  LinearLayout flat = reshape(l, {shape.product()});
  check(flat.apply(x) == l.apply(x) && reshape(flat, shape) == l, "reshape", l, flat);
  check(splittable(join(l)) == join(l) && slice(join(l), rank) == l, "join and split", l, join(l));
  check(cut(concatenate(l, axis), shape) == l && slice(gather(l, 4), 0) == l, "concatenate and gather", l);
  LinearLayout cluster = overBlocks(l, someShape(rnd, rank, 3), order, 1u << rnd.below(2));
  check(cluster.isSurjective(), "overBlocks", l, cluster);
}

/// The algebra: inverses, compositions, products and quotients of any maps.
static void algebra(Random &rnd) {
  LinearLayout a = rnd.any(), b = rnd.any();
  uint64_t x = rnd.bits(a.totalInBits());
  check(a.apply(a.pseudoInvert().apply(a.apply(x))) == a.apply(x), "pseudoInvert", a);
  for (uint64_t k : a.kernel())
    check(a.apply(x ^ k) == a.apply(x), "kernel", a);
  LinearLayout product = a * b;
  auto left = product.divideLeft(a), right = product.divideRight(b);
  check(left && (a * *left).sameMap(product), "divideLeft", a, b);
  check(right && (*right * b).sameMap(product), "divideRight", a, b);
  DimList outs = rnd.dims({Dim::Dim1, Dim::Dim0}, 5);
  LinearLayout s = rnd.distributed(outs, 5, 1, rnd.chance(50)), d = rnd.distributed(outs, 5, 1, rnd.chance(50));
  LinearLayout where = s.invertAndCompose(d);
  uint64_t y = rnd.bits(s.totalInBits());
  check(d.apply(where.apply(y)) == s.apply(y), "invertAndCompose", s, d);
  a.print(), a.draw(16), a.hash();
}

/// Tiles in shared memory: every element has one place.
static void shared(Random &rnd) {
  unsigned rank = 1 + static_cast<unsigned>(rnd.below(4)), elemBits = 8u << rnd.below(4);
  Extents shape = someShape(rnd, rank, 13), order = someOrder(rnd, rank);
  LinearLayout memory = sharedLinear(shape, order);
  check(memory.isInvertible(), "sharedLinear", memory);
  auto mode = widestSwizzle(shape[static_cast<unsigned>(order[0])] * elemBits / 8);
  if (mode && rank > 1) {
    memory = sharedSwizzled(shape, order, elemBits, *mode);
    check(memory.isInvertible() && shapeOf(memory) == shape, "sharedSwizzled", memory);
  }
  if (rank != 2)
    return;
  unsigned warps = 1u << rnd.below(4);
  auto fits = [&] { return shape[0] >= 8 && shape[1] >= 8; };
  LinearLayout src =
      fits() ? someLayout(rnd, shape, warps, elemBits) : dealt(shape, order, 1u << rnd.below(5), {32, warps});
  LinearLayout dst =
      fits() ? someLayout(rnd, shape, warps, elemBits) : dealt(shape, order, 1u << rnd.below(5), {32, warps});
  ConversionPlan plan;
  plan.kind = ConversionKind::Shared;
  plan.scope = ExchangeScope::Cta;
  plan.shared.memory = memory;
  plan.shared.store = planSharedAccess(src, memory, elemBits, true);
  plan.shared.load = planSharedAccess(dst, memory, elemBits, false);
  plan.copyOf = copiesOf(dst);
  Machine(src, dst, elemBits).run(plan);
}

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv) {
  testing::InitGoogleTest();
  // The machine's checks are gtest's: each failure ends the run where it happens.
  GTEST_FLAG_SET(break_on_failure, true);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Random rnd(std::span(data, size));
  switch (rnd.below(5)) {
  case 0:
    constructors(rnd);
    break;
  case 1:
    algebra(rnd);
    break;
  case 2:
    shared(rnd);
    break;
  default:
    conversion(rnd);
  }
  return 0;
}
