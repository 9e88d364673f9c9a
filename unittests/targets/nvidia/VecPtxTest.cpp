// Every element-wise operation and cast in PTX for every GPU: it assembles, without calls out and without fused
// operations nobody allowed. That the results are right is tested on a GPU (VecTest, CastTest, MathTest with the target
// "gpu").
#include "GpuModule.h"

namespace tegula::nvidia {
namespace {

using ir::Elem;
using ir::OpKind;

class VecPtx : public testing::TestWithParam<NvTarget> {
protected:
  void add(GpuModule &m, OpKind kind, Elem from, Elem to, unsigned lanes, bool flag = false) {
    std::string name = std::string(ir::info(kind).name) + "_" + ir::name(from) + "_" + ir::name(to) + "_" +
                       std::to_string(lanes) + (flag ? "_x" : "");
    m.add(name, [&](GpuModule::Kernel &k) {
      VecEmitter v{k.b, vecTarget(GetParam(), {})};
      ir::Op op{};
      op.kind = kind;
      if (flag)
        op.set(kind == OpKind::FpTrunc ? ir::attr::rtz : ir::attr::approx, true);
      llvm::SmallVector<V, 3> args;
      for (int a = 0; a < ir::info(kind).operands; ++a) {
        llvm::Type *t = v.vecType(from == Elem::I1 ? Elem::I8 : from, lanes);
        V x = k.i.loadGlobal(k.b.CreateConstGEP1_64(k.b.getInt8Ty(), k.data, 64 * a), t, nullptr, nullptr);
        args.push_back(from == Elem::I1 ? k.b.CreateTrunc(x, v.vecType(from, lanes)) : x);
      }
      V r = v.elementwise(op, args, from, to);
      EXPECT_EQ(r->getType(), v.vecType(to, lanes)) << name;
      k.use(to == Elem::I1 ? k.b.CreateZExt(r, v.vecType(Elem::I8, lanes)) : r);
    });
  }
};

TEST_P(VecPtx, EveryOperationAssembles) {
  GpuModule m(GetParam());
  const Elem floats[] = {Elem::F8E5M2, Elem::F8E4M3FN, Elem::F8E4B15, Elem::F8E4B8, Elem::F8E5B16,
                         Elem::F16, Elem::BF16, Elem::F32, Elem::F64};
  const Elem ints[] = {Elem::I1, Elem::I8, Elem::I16, Elem::I32, Elem::I64};
  for (int k = int(OpKind::Add); k < int(OpKind::CmpI); ++k)
    for (Elem e : ints)
      add(m, OpKind(k), e, e, 1);
  for (int k = int(OpKind::FAdd); k < int(OpKind::CmpF); ++k)
    for (Elem e : floats)
      add(m, OpKind(k), e, e, e == Elem::BF16 ? 2 : 1);
  for (int k = int(OpKind::Exp); k <= int(OpKind::Ceil); ++k)
    for (Elem e : {Elem::F32, Elem::F64, Elem::F16})
      add(m, OpKind(k), e, e, 1);
  for (OpKind k : {OpKind::FDiv, OpKind::Sqrt})
    add(m, k, Elem::F32, Elem::F32, 1, true);
  for (Elem f : floats) {
    for (Elem i : ints)
      for (auto [k, from, to] :
           {std::tuple{OpKind::SIToFp, i, f}, {OpKind::UIToFp, i, f}, {OpKind::FpToSI, f, i}, {OpKind::FpToUI, f, i}})
        add(m, k, from, to, 1);
    if (f != Elem::F32 && f != Elem::F64)
      for (Elem wide : {Elem::F32, Elem::F64})
        for (unsigned lanes : {1u, 2u}) {
          add(m, OpKind::FpTrunc, wide, f, lanes);
          add(m, OpKind::FpTrunc, wide, f, lanes, true);
          add(m, OpKind::FpExt, f, wide, lanes);
        }
  }
  std::string text = m.text();
  EXPECT_EQ(text.find(".extern .func"), std::string::npos);
  EXPECT_EQ(text.find("mad."), text.find("mad.lo")) << "an unrounded multiply-add";
  for (const char *bad : {"\tmul.f32", "\tmul.f64", "\tadd.f64",
                          // fused or flushed by the assembler (add.f32 is not, without mul.f32), or slow
                          "sqrt.approx.ftz", "lg2.approx.ftz", "ex2.approx.f32",
                          "div.s64", "div.u64", "rem.s64", "rem.u64"})           // functions, called by address
    EXPECT_EQ(text.find(bad), std::string::npos) << bad;
  // Where what is divided by is 1 or more: of tanh (GPU part of Math.cpp), and of integers.
  for (size_t at = 0; (at = text.find("rcp.approx.ftz", at)) != std::string::npos; ++at) {
    std::string_view entry = std::string_view(text).substr(text.rfind(".entry ", at) + 7, 30);
    bool isExpected = false;
    for (const char *name : {"tanh_", "frem_", "sdiv_i64", "udiv_i64", "srem_i64", "urem_i64"})
      isExpected |= entry.starts_with(name);
    EXPECT_TRUE(isExpected) << entry;
  }
  for (const char *good : {"div.full.f32", "sqrt.approx.f32", "cvt.rn.bf16x2.f32", "min.NaN.f32", "cvt.rzi.s32.f32",
                           "sqrt.rn.f32", "div.rn.f32"})
    EXPECT_NE(text.find(good), std::string::npos) << good;
  if (GetParam().sm >= 89)
    EXPECT_NE(text.find("cvt.rn.satfinite.e4m3x2.f32"), std::string::npos);
  runtime::cuda::Assembly out;
  if (!assembles(text, GetParam(), out))
    GTEST_SKIP() << "text checked, not assembled";
}

// `fast` is one instruction, and a product where the instruction has another base; of doubles it changes nothing.
TEST_P(VecPtx, Fast) {
  const std::pair<OpKind, std::string_view> fast[] = {
      {OpKind::FDiv, "rcp.approx.ftz.f32"}, {OpKind::Exp, "ex2.approx.ftz.f32"}, {OpKind::Log, "lg2.approx.ftz.f32"},
      {OpKind::Log2, "lg2.approx.ftz.f32"}, {OpKind::Sin, "sin.approx.ftz.f32"}, {OpKind::Cos, "cos.approx.ftz.f32"},
      {OpKind::Tanh, "tanh.approx.f32"}};
  for (auto [kind, instruction] : fast)
    for (Elem e : {Elem::F32, Elem::F64}) {
      GpuModule m(GetParam());
      m.add("k", [&, kind = kind](GpuModule::Kernel &k) {
        VecEmitter v{k.b, vecTarget(GetParam(), {})};
        ir::Op op{};
        op.kind = kind;
        op.set(ir::attr::fast, true);
        llvm::SmallVector<V, 2> args;
        for (int a = 0; a < ir::info(kind).operands; ++a)
          args.push_back(k.i.loadGlobal(k.b.CreateConstGEP1_64(k.b.getInt8Ty(), k.data, 64 * a), v.vecType(e, 1),
                                        nullptr, nullptr));
        k.use(v.elementwise(op, args, e, e));
      });
      const std::string text = m.text();
      EXPECT_EQ(text.find(instruction) != std::string::npos, e == Elem::F32) << text;
      if (e == Elem::F32) {
        EXPECT_EQ(text.find("fma"), std::string::npos) << text;
      }
      runtime::cuda::Assembly out;
      assembles(text, GetParam(), out);
    }
}

// A product and a sum become one instruction where the language allows it, and only there.
TEST_P(VecPtx, Fusion) {
  for (bool fusion : {false, true}) {
    GpuModule m(GetParam());
    m.add("k", [&](GpuModule::Kernel &k) {
      VecEmitter v{k.b, vecTarget(GetParam(), {.fpFusion = fusion})};
      auto op = [&](OpKind kind, V x, V y) {
        ir::Op op{};
        op.kind = kind;
        return v.elementwise(op, {x, y}, Elem::F32, Elem::F32);
      };
      k.use(op(OpKind::FAdd, op(OpKind::FMul, k.x, k.x), k.x));
    });
    EXPECT_EQ(m.text().find("fma.rn.f32") != std::string::npos, fusion) << m.text();
  }
}

INSTANTIATE_TEST_SUITE_P(Arch, VecPtx,
                         testing::Values(NvTarget{80, false}, NvTarget{86, false}, NvTarget{89, false},
                                         NvTarget{90, true}),
                         [](const auto &p) { return archName(p.param); });

} // namespace
} // namespace tegula::nvidia
