// Descriptor accesses before and after their expansion: the interpreter, which knows what they mean, must see the same
// memory, and nothing may be touched outside the tensor. What vectorizes is asked of the axis facts.
#include "ParsedIr.h"
#include "Rounds.h"
#include "ir/Builder.h"
#include "ir/Interp.h"
#include "ir/Verifier.h"
#include "passes/AxisFacts.h"
#include "passes/Pipeline.h"
#include <array>
#include <bit>
#include <gtest/gtest.h>
#include <vector>

using namespace tegula;
using namespace tegula::ir;

namespace {

struct Random {
  uint64_t state;
  uint64_t operator()(uint64_t n) {
    return state = state * 6364136223846793005u + 1442695040888963407u, (state >> 33) % n;
  }
};

/// y[offsets2] op= x[offsets1] over a random tensor; offsets reach beyond it on all sides.
struct Case {
  unsigned rank;
  std::vector<int64_t> extents, strides, block;
  std::vector<int32_t> from, to;
  OpKind write;
  bool nan, tf32;
  uint64_t elements = 0;
  int64_t step = 0; // 0: blocks; else rows by index, so far apart

  explicit Case(uint64_t seed) {
    Random r{seed * 7919 + 3};
    rank = 1 + static_cast<unsigned>(r(5));
    int64_t stride = 1;
    extents.resize(rank), strides.resize(rank), block.resize(rank);
    for (unsigned d = rank; d-- > 0;) {
      extents[d] = 1 + static_cast<int64_t>(r(6));
      block[d] = int64_t(1) << r(rank > 3 ? 2 : 3);
      strides[d] = stride;
      stride = (stride * extents[d] + 3) / 4 * 4;
      int64_t span = extents[d] + 2 * block[d] + 2;
      from.insert(from.begin(),
                  static_cast<int32_t>(static_cast<int64_t>(r(static_cast<uint64_t>(span))) - block[d] - 1));
      to.insert(to.begin(), static_cast<int32_t>(static_cast<int64_t>(r(static_cast<uint64_t>(span))) - block[d] - 1));
    }
    elements = static_cast<uint64_t>(stride);
    write = r(2) ? OpKind::DescStore : OpKind::DescReduce;
    nan = r(2);
    tf32 = r(2);
    if (rank == 2 && r(2))
      step = r(2) ? 3 : -1;
  }

  std::unique_ptr<Module> module() const {
    auto m = std::make_unique<Module>();
    std::vector<Type> types{Type::ptr(Elem::F32), Type::ptr(Elem::F32)};
    for (unsigned i = 0; i < 3 * rank; ++i)
      types.push_back(Type::scalar(Elem::I32));
    Function *f = m->createFunction("k", types, {}, {});
    f->isKernel = true;
    const auto &args = f->block()->args;
    Builder b(*m);
    b.setBlock(f->block());
    std::vector<Value *> head{args[0]};
    head.insert(head.end(), args.begin() + 2, args.begin() + 2 + rank);
    for (unsigned d = 0; d < rank; ++d)
      head.push_back(b.constI64(strides[d]));
    std::vector<Value *> load = head, store = head;
    store[0] = args[1];
    load.insert(load.end(), args.begin() + 2 + rank, args.begin() + 2 + 2 * rank);
    store.insert(store.end(), args.begin() + 2 + 2 * rank, args.end());
    if (step)
      for (std::vector<Value *> *access : {&load, &store})
        if (access == &load || write == OpKind::DescStore) {
          Value *&first = (*access)[1 + 2 * rank], *line = b.range(0, block[0]);
          first = b.binary(OpKind::Add, b.splat(first, line->type.shape),
                           b.binary(OpKind::Mul, line, b.constInt(line->type, step)));
        }
    Shape shape(block.begin(), block.end());
    Type tile = Type::tensor(shape, Elem::F32);
    std::vector<Attr> attrs;
    if (nan)
      attrs.push_back({attr::nan, true});
    if (tf32)
      attrs.push_back({attr::tf32, true});
    store.push_back(b.create(OpKind::DescLoad, load, {&tile, 1}, attrs)->result());
    attrs.clear();
    if (write == OpKind::DescReduce)
      attrs.push_back({attr::rmw, std::string("fadd")});
    b.create(write, store, {}, attrs);
    b.create(OpKind::Return, {}, {});
    return m;
  }

  std::vector<uint32_t> run(const Module &m) const {
    static std::vector<float> x, y; // one place, so that addresses are equal in both runs
    x.assign(elements, 0), y.assign(elements, 0);
    for (size_t i = 0; i < elements; ++i)
      x[i] = static_cast<float>(i % 97), y[i] = -static_cast<float>(i % 89);
    Interp in(m);
    in.addBuffer(x.data(), elements * 4, false);
    in.addBuffer(y.data(), elements * 4);
    std::vector<uint64_t> args{reinterpret_cast<uintptr_t>(x.data()), reinterpret_cast<uintptr_t>(y.data())};
    for (int64_t e : extents)
      args.push_back(static_cast<uint64_t>(e));
    for (int32_t o : from)
      args.push_back(static_cast<uint32_t>(o));
    for (int32_t o : to)
      args.push_back(static_cast<uint32_t>(o));
    InterpResult r = in.run(args, {1, 1, 1});
    EXPECT_TRUE(r.ok) << r.fault << (r.op ? print(*r.op) : "");
    std::vector<uint32_t> bits(elements);
    for (size_t i = 0; i < elements; ++i)
      bits[i] = y[i] != y[i] ? 0x7fc00000u : std::bit_cast<uint32_t>(y[i]);
    return bits;
  }
};

TEST(ExpandDescriptors, KeepsTheMeaning) {
  for (uint64_t seed = 1; seed <= test::rounds(400); ++seed) {
    Case c(seed);
    std::unique_ptr<Module> m = c.module();
    std::string why, before = print(*m);
    ASSERT_TRUE(verify(*m, &why)) << why << before;
    auto expected = c.run(*m);
    expandDescriptors(*m);
    ASSERT_TRUE(verify(*m, &why)) << why << before << print(*m);
    ASSERT_EQ(print(*m).find("desc_"), std::string::npos);
    ASSERT_EQ(c.run(*m), expected) << "seed " << seed << "\n" << before << print(*m);
    runPipeline(*m);
    ASSERT_EQ(c.run(*m), expected) << "seed " << seed << " after all passes\n" << before << print(*m);
  }
}

constexpr const char *copyText = R"(kernel @k(%p: ptr<f16> {divisibility = 16}, %q: ptr<f16> {divisibility = 16}, %m: i32, %n: i32 {divisibility = 16}, %s: i64, %i: i32, %j: i32 {divisibility = 16}) {
  %one = const {value = 1} : i64
  %x = desc_load %p, %m, %n, %s, %one, %i, %j : tensor<16x64xf16>
  desc_store %q, %m, %n, %s, %one, %i, %j, %x
})";

TEST(ExpandDescriptors, VectorizesByContract) {
  auto m = test::parsed(copyText);
  runPipeline(*m);
  AxisFacts facts(*m->kernel());
  unsigned accesses = 0;
  for (const Op *op : m->kernel()->block()->ops) {
    if (op->kind != OpKind::Load && op->kind != OpKind::Store)
      continue;
    ++accesses;
    // The stride itself is not known to be divisible by anything: that rows are aligned is the descriptor's promise.
    const Value *mask = op->operands[op->kind == OpKind::Load ? 1 : 2];
    EXPECT_GE(facts.vectorWidth(op->operands[0], mask, 1), 8);
    EXPECT_EQ(facts.of(op->operands[0], 1).divisibility % 16, 0);
  }
  EXPECT_EQ(accesses, 2u);
}

TEST(ExpandDescriptors, TargetsMayKeepSome) {
  auto m = test::parsed(copyText);
  bool wanted = true;
  KeepDescriptor keep = [](const Op &op, const AxisFacts &facts, const void *target) {
    EXPECT_EQ(facts.of(descAccess(op).offsets[1], 0).divisibility, 16);
    return *static_cast<const bool *>(target) && op.kind == OpKind::DescLoad;
  };
  runPipeline(*m, keep, &wanted);
  std::string text = print(*m);
  EXPECT_NE(text.find("desc_load"), std::string::npos);
  EXPECT_EQ(text.find("desc_store"), std::string::npos);
  wanted = false;
  EXPECT_TRUE(expandDescriptors(*m, keep, &wanted));
  EXPECT_FALSE(expandDescriptors(*m, keep, &wanted));
  EXPECT_EQ(print(*m).find("desc_"), std::string::npos);
}

TEST(ExpandDescriptors, StoresOfWholeTilesAreMarked) {
  // Steps of 8 tile the rows of blocks of 8; steps of 4 overlap.
  for (auto [step, isTiled] :
       {std::pair("8", true), std::pair("16", true), std::pair("4", false), std::pair("12", false)}) {
    auto m = test::parsed(
        std::string(
            "kernel @k(%q: ptr<i32>, %n: i32, %s: i64) {\n"
            "  %zero = const {value = 0} : i32\n  %one = const {value = 1} : i32\n  %unit = const {value = 1} : i64\n"
            "  %step = const {value = ") +
        step +
        "} : i32\n  %x = const {value = 5} : tensor<8x8xi32>\n"
        "  for %zero, %n, %one (%i: i32) {\n    %o = mul %i, %step : i32\n"
        "    desc_store %q, %n, %n, %s, %unit, %o, %zero, %x\n    yield\n  }\n}\n");
    ASSERT_TRUE(m);
    expandDescriptors(*m);
    EXPECT_EQ(print(*m).find("tiled = 1") != std::string::npos, isTiled) << print(*m);
  }
}

TEST(ExpandDescriptors, TheVerifierKnowsTheRules) {
  const char *wrong[] = {
      "%x = desc_load %p, %n, %s : tensor<8xf32>",                                // no offset
      "%x = desc_load %p, %n, %s, %n : tensor<8x8xf32>",                          // rank
      "%x = desc_load %p, %n, %s, %n : tensor<8xf16>",                            // element
      "%x = desc_load %p, %n, %n, %n : tensor<8xf32>",                            // stride of 32 bits
      "%x = desc_load %p, %s, %s, %n : tensor<8xf32>",                            // extent of 64 bits
      "%r = range {start = 0} : tensor<8xi32>  desc_reduce %q, %n, %s, %n, %r",   // no rmw
      "%r = range {start = 0} : tensor<8xi32>  desc_reduce %q, %n, %s, %n, %r {rmw = \"fadd\"}",
      "%r = range {start = 0} : tensor<8xi32>  desc_reduce %q, %n, %s, %n, %r {rmw = \"xchg\"}",
      "%x = desc_load %q, %n, %s, %n {nan = 1} : tensor<8xi32>",
      // rows of rank 1
      "%r = range {start = 0} : tensor<8xi32>  %x = desc_load %p, %n, %s, %r : tensor<8xf32>",
      // indices of columns
      "%r = range {start = 0} : tensor<8xi32>  %x = desc_load %p, %n, %n, %s, %s, %n, %r : tensor<8x8xf32>",
      "%r = range {start = 0} : tensor<8xi32>  %x = desc_load %p, %n, %n, %s, %s, %r, %n : tensor<16x8xf32>", // too few
      "%r = range {start = 0} : tensor<8xi32>  %x = const {value = 1} : tensor<8x8xi32>  desc_reduce %q, %n, %n, %s, %s, %r, %n, %x {rmw = \"add\"}",
  };
  for (const char *line : wrong) {
    DiagEngine diag;
    std::string text = std::string("kernel @k(%p: ptr<f32>, %q: ptr<i32>, %n: i32, %s: i64) {\n") + line + "\n}";
    EXPECT_FALSE(parse(std::make_shared<SourceFile>("test.ir", text), diag)) << line;
  }
}

} // namespace
