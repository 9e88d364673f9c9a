// The reader of PTX, and what its instructions mean: expandAsm() on one statement, evaluated by the interpreter,
// against plain C++.
#include "ir/Asm.h"
#include "ir/Builder.h"
#include "ir/ExpandAsm.h"
#include "ir/Interp.h"
#include "ir/PtxText.h"
#include "ir/Text.h"
#include "ir/Verifier.h"
#include <bit>
#include <cmath>
#include <gtest/gtest.h>

using namespace tegula;
using namespace tegula::ir;

namespace {

TEST(PtxText, Instructions) {
  ptx::Problem problem;
  auto p = ptx::parse(
      "{ .reg .pred %p<2>; .reg.b32 a, b; // two\n @!%p1 add.sat.s32 a, b, -0x10; /* . */ mov.b64 {a, _}, ${3}; mov.u32 $0, %tid.x\n}",
      problem);
  ASSERT_TRUE(p) << problem.why;
  ASSERT_EQ(p->registers.size(), 4u);
  EXPECT_EQ(p->registers[1].bits, 1u);
  EXPECT_EQ(p->registers[2].bits, 32u);
  ASSERT_EQ(p->instructions.size(), 3u);
  const ptx::Instruction &add = p->instructions[0], &mov = p->instructions[1], &special = p->instructions[2];
  ASSERT_TRUE(add.guard);
  EXPECT_TRUE(add.guard->negated);
  EXPECT_EQ(add.guard->index, 1u);
  EXPECT_EQ(add.opcode, (std::vector<std::string_view>{"add", "sat", "s32"}));
  EXPECT_EQ(add.text, "add.sat.s32 a, b, -0x10");
  EXPECT_EQ(add.operands[2].bits, 0 - uint64_t{16});
  ASSERT_EQ(mov.operands[0].items.size(), 2u);
  EXPECT_EQ(mov.operands[0].items[1].kind, ptx::Operand::Kind::Sink);
  EXPECT_EQ(mov.operands[1].index, 3u);
  EXPECT_EQ(special.operands[1].text, "%tid.x");
}

TEST(PtxText, Numbers) {
  ptx::Problem problem;
  auto p = ptx::parse("x 42, 0x2A, 052, 0b101010, 42U, 0f3F800000, 0d3FF0000000000000, 1.5, -2.5e-1, 0;", problem);
  ASSERT_TRUE(p) << problem.why;
  const auto &o = p->instructions[0].operands;
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(o[static_cast<size_t>(i)].bits, 42u) << i;
  EXPECT_EQ(o[5].bits, 0x3F800000u);
  EXPECT_FALSE(o[5].wide);
  EXPECT_EQ(std::bit_cast<double>(o[6].bits), 1.0);
  EXPECT_EQ(std::bit_cast<double>(o[7].bits), 1.5);
  EXPECT_EQ(std::bit_cast<double>(o[8].bits), -0.25);
  EXPECT_EQ(o[9].bits, 0u);
}

TEST(PtxText, Refused) {
  for (auto [text, why] : {std::pair{"{ add.s32 $0, $1, 1;", "a `{` is not closed"},
                           {"add.s32 $0, t, 1;", "no register of this name is declared"},
                           {"}", "no scope is open here"},
                           {".shared .b32 x;", "only registers can be declared"},
                           {".reg .b128 x;", "there is no such register type"},
                           {"loop: add.s32 $0, $1, 1;", "labels and jumps are not known"},
                           {"add.s32 $0, $1, 09;", "this is no number"},
                           {"add.s32 $0 $1;", "no `;` behind it"},
                           {"mov.b32 $0, {$1;", "a `}` is missing"},
                           {".reg .b32 x<99999>;", "the number of registers is not between 1 and 4096"},
                           {"{ .reg .b32 t; } mov.b32 t, 1;", "no register of this name is declared"},
                           {"*;", "this is no instruction"}}) {
    ptx::Problem problem;
    EXPECT_FALSE(ptx::parse(text, problem)) << text;
    EXPECT_EQ(problem.why, why) << text;
  }
}

TEST(Asm, WhatIsPtx) {
  for (const char *text :
       {"add.s32 $0, $1, 1;", "{ .reg .b32 t; }", "@p mov.b32 $0, 1;", "// mov\n\tmov.b32 $0, $1;", "", " /* */ "})
    EXPECT_TRUE(looksLikePtx(text)) << text;
  for (const char *text :
       {"addl $1, $0", "leal ($1,$2), $0", "add ${0:w}, ${1:w}, #1", "b.eq 1f", "lock; xaddl $0, $1", ".byte 0x90"})
    EXPECT_FALSE(looksLikePtx(text)) << text;
}

TEST(Asm, Constraints) {
  AsmConstraints c = asmConstraints("=r, =&f,\n r,0 ,~{memory},{ax}");
  EXPECT_EQ(c.outputs, (std::vector<std::string>{"=r", "=&f"}));
  EXPECT_EQ(c.inputs, (std::vector<std::string>{"r", "0", "{ax}"}));
  EXPECT_EQ(c.clobbers, (std::vector<std::string>{"~{memory}"}));
  EXPECT_EQ(ptxRegisterBits("=&l"), 64u);
  EXPECT_EQ(ptxRegisterBits("x"), 0u);
}

TEST(Asm, Dollars) {
  for (const char *text : {"", "$0 $1", "${0} ${1:w}", "$$5 $$", "a $0$1"})
    EXPECT_EQ(badAsmOperand(text, 2), "") << text;
  for (auto [text, bad] : {std::pair{"a $2", "$2"},
                           {"$", "$"},
                           {"$x1", "$x"},
                           {"${0", "${0"},
                           {"${0:ww}", "${0:ww}"},
                           {"$0 ${:uid} $9", "${:uid}"},
                           {"$99999999999999999999", "$99999999999999999999"}})
    EXPECT_EQ(badAsmOperand(text, 2), bad) << text;
}

/// The first output of a statement of bits: `constraints` has one output and as many inputs as there are `in`.
class Statement {
public:
  Statement(std::string text, std::string constraints, Elem result, std::vector<Elem> operands) {
    std::vector<Type> types;
    for (Elem e : operands)
      types.push_back(Type::scalar(e));
    const Type out = Type::scalar(result);
    f_ = m_.createFunction("f", types, {&out, 1}, {});
    Builder b(m_);
    b.setBlock(f_->block());
    Op *op = b.create(OpKind::Asm, f_->block()->args, {&out, 1},
                      {{attr::text, std::move(text)},
                       {attr::constraints, std::move(constraints)},
                       {attr::outputs, std::string(name(result))},
                       {attr::output, 0}});
    b.create(OpKind::Return, op->results, {});
    std::string why;
    EXPECT_TRUE(verify(m_, &why)) << why;
    ok_ = expandAsm(m_, {"a test", false}, diag_);
    EXPECT_TRUE(verify(m_, &why)) << why;
  }
  /// What is wrong with it; empty: nothing.
  std::string message() const { return diag_.all().empty() ? "" : diag_.all()[0].message(); }
  uint64_t operator()(std::initializer_list<uint64_t> args) {
    EXPECT_TRUE(ok_) << renderAll(diag_);
    if (!ok_)
      return 0;
    std::vector<Tile> in, out;
    for (uint64_t a : args)
      in.push_back({a});
    Interp run(m_);
    InterpResult r = run.call(*f_, in, out);
    EXPECT_TRUE(r.ok) << r.fault;
    return r.ok ? out[0][0] : 0;
  }

private:
  Module m_;
  Function *f_;
  DiagEngine diag_;
  bool ok_ = false;
};

uint32_t word(std::string text, std::initializer_list<uint64_t> args) {
  std::string constraints = "=r";
  for (size_t i = 0; i < args.size(); ++i)
    constraints += ",r";
  return static_cast<uint32_t>(
      Statement(std::move(text), constraints, Elem::I32, std::vector<Elem>(args.size(), Elem::I32))(args));
}
uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }

TEST(Ptx, Lop3OfEveryTable) {
  const uint32_t a = 0xF0F0F0F0, b = 0xCCCCCCCC, c = 0xAAAAAAAA; // the bits of 0..7, again and again
  for (uint32_t table = 0; table < 256; ++table)
    EXPECT_EQ(word("lop3.b32 $0, $1, $2, $3, " + std::to_string(table) + ";", {a, b, c}), table * 0x01010101u) << table;
}

TEST(Ptx, Integers) {
  EXPECT_EQ(word("add.s32 $0, $1, $2;", {0xffffffff, 3}), 2u);
  EXPECT_EQ(word("sub.sat.s32 $0, $1, $2;", {0x80000000, 1}), 0x80000000u);
  EXPECT_EQ(word("mul.hi.s32 $0, $1, $2;", {0xffffffff, 5}), 0xffffffffu);
  EXPECT_EQ(word("mad.hi.u32 $0, $1, $2, 1;", {0xffffffff, 5}), 5u);
  EXPECT_EQ(word("div.s32 $0, $1, $2;", {0xfffffff9, 2}), 0xfffffffdu);
  EXPECT_EQ(word("rem.u32 $0, $1, $2;", {17, 5}), 2u);
  EXPECT_EQ(word("abs.s32 $0, $1;", {0xfffffff9}), 7u);
  EXPECT_EQ(word("neg.s32 $0, $1;", {7}), 0xfffffff9u);
  EXPECT_EQ(word("min.s32 $0, $1, $2;", {0xffffffff, 3}), 0xffffffffu);
  EXPECT_EQ(word("max.u32 $0, $1, $2;", {0xffffffff, 3}), 0xffffffffu);
  EXPECT_EQ(word("max.s16x2 $0, $1, $2;", {0xffff0001, 0x00020003}), 0x00020003u);
  EXPECT_EQ(word("cnot.b32 $0, $1;", {0}), 1u);
  EXPECT_EQ(word("shl.b32 $0, $1, $2;", {1, 32}), 0u);
  EXPECT_EQ(word("shr.s32 $0, $1, $2;", {0x80000000, 0xffffffff}), 0xffffffffu);
  EXPECT_EQ(word("popc.b32 $0, $1;", {0xff00ff}), 16u);
  EXPECT_EQ(word("clz.b32 $0, $1;", {1}), 31u);
  EXPECT_EQ(word("bfind.s32 $0, $1;", {0xfffffff0}), 3u);
  EXPECT_EQ(word("bfind.shiftamt.u32 $0, $1;", {1}), 31u);
  EXPECT_EQ(word("bfind.u32 $0, $1;", {0}), 0xffffffffu);
  EXPECT_EQ(word("bfe.s32 $0, $1, 4, 4;", {0xf0}), 0xffffffffu);
  EXPECT_EQ(word("bfe.s32 $0, $1, 28, 8;", {0x80000000}), 0xfffffff8u);
  EXPECT_EQ(word("bfe.u32 $0, $1, 0, 0;", {0xf0}), 0u);
  EXPECT_EQ(word("bfi.b32 $0, $1, $2, 28, 8;", {0xff, 0}), 0xf0000000u);
  EXPECT_EQ(word("prmt.b32 $0, $1, $2, 0x9140;", {0x11228344, 0x55667788}), 0xff838844u);
  EXPECT_EQ(word("shf.r.wrap.b32 $0, $1, $2, 40;", {0x11223344, 0x55667788}), 0x88112233u);
  EXPECT_EQ(word("shf.l.clamp.b32 $0, $1, $2, 40;", {0x11223344, 0x55667788}), 0x11223344u);
  EXPECT_EQ(word("sad.s32 $0, $1, $2, 1;", {0xffffffff, 3}), 5u);
  EXPECT_EQ(word("dp4a.u32.s32 $0, $1, $2, 10;", {0xff000001, 0xff000002}), 10u - 255 + 2);
  EXPECT_EQ(word("slct.b32.s32 $0, $1, $2, $3;", {1, 2, 0x80000000}), 2u);
  EXPECT_EQ(word("set.lt.u32.s32 $0, $1, $2;", {0xffffffff, 3}), 0xffffffffu);
  EXPECT_EQ(word("set.lo.f32.u32 $0, $1, $2;", {2, 3}), 0x3f800000u);
  EXPECT_EQ(Statement("mul.hi.s64 $0, $1, $2;", "=l,l,l", Elem::I64, {Elem::I64, Elem::I64})({~uint64_t{0}, 3}),
            ~uint64_t{0});
  EXPECT_EQ(Statement("brev.b64 $0, $1;", "=l,l", Elem::I64, {Elem::I64})({1}), uint64_t{1} << 63);
  EXPECT_EQ(Statement("{ .reg .b16 h<4>; mov.b64 {h0, h1, h2, h3}, $1; mov.b64 $0, {h3, h2, h1, h0}; }", "=l,l",
                      Elem::I64, {Elem::I64})({0x0011223344556677}),
            0x6677445522330011u);
}

TEST(Ptx, GuardsAndPredicates) {
  const char *text =
      "{ .reg .pred p<3>; setp.lt.s32 p0|p1, $1, 5; and.pred p2, p0, !p1; mov.u32 $0, 10; @p2 mov.u32 $0, 20; @!p0 add.u32 $0, $0, 1; }";
  EXPECT_EQ(word(text, {3}), 20u);
  EXPECT_EQ(word(text, {7}), 11u);
  EXPECT_EQ(word("{ .reg .pred p; setp.nan.f32 p, $1, $1; selp.b32 $0, 1, 2, !p; }", {0x7fc00000}), 2u);
  EXPECT_EQ(word("{ .reg .pred p; setp.geu.ftz.f32 p, $1, 0f00000000; selp.b32 $0, 1, 2, p; }", {0x80000001}), 1u);
  EXPECT_EQ(word("{ .reg .pred p; testp.subnormal.f32 p, $1; selp.b32 $0, 1, 2, p; }", {1}), 1u);
}

TEST(Ptx, Floats) {
  EXPECT_EQ(word("add.f32 $0, $1, 0.1;", {bits(1)}), bits(1.0f + 0.1f));
  EXPECT_EQ(word("mul.ftz.f32 $0, $1, 0f3F800000;", {0x80000001}), 0x80000000u);
  EXPECT_EQ(word("mul.f32 $0, $1, 0f3F800000;", {0x80000001}), 0x80000001u);
  EXPECT_EQ(word("add.sat.f32 $0, $1, $2;", {bits(1), bits(2)}), bits(1));
  EXPECT_EQ(word("add.sat.f32 $0, $1, $2;", {0x7fc00000, bits(2)}), 0u);
  EXPECT_EQ(word("fma.rn.f32 $0, $1, $2, $3;", {bits(3), bits(4), bits(5)}), bits(17));
  EXPECT_EQ(word("min.NaN.f32 $0, $1, $2;", {0x7fc00000, bits(2)}) & 0x7fc00000u, 0x7fc00000u);
  EXPECT_EQ(word("min.f32 $0, $1, $2;", {0x7fc00000, bits(2)}), bits(2));
  EXPECT_EQ(word("copysign.f32 $0, $1, $2;", {bits(-1), bits(2)}), bits(-2));
  EXPECT_EQ(word("max.f16x2 $0, $1, $2;", {0x3c00c000, 0x00004000}), 0x3c004000u);
  EXPECT_EQ(word("fma.rn.relu.bf16x2 $0, $1, $2, $3;", {0x3f80bf80, 0x40004000, 0}), 0x40000000u);
  EXPECT_EQ(word("rcp.approx.f32 $0, $1;", {bits(4)}), bits(0.25f));
  EXPECT_EQ(word("neg.bf16x2 $0, $1;", {0x3f803f80}), 0xbf80bf80u);
}

TEST(Ptx, Conversions) {
  EXPECT_EQ(word("cvt.u32.u8 $0, $1;", {0x1ff}), 0xffu);
  EXPECT_EQ(word("cvt.s8.s32 $0, $1;", {0x80}), 0xffffff80u);
  EXPECT_EQ(word("cvt.sat.s8.s32 $0, $1;", {1000}), 127u);
  EXPECT_EQ(word("cvt.sat.u32.s32 $0, $1;", {0xffffffff}), 0u);
  EXPECT_EQ(word("cvt.rzi.s32.f32 $0, $1;", {bits(-2.7f)}), 0xfffffffeu);
  EXPECT_EQ(word("cvt.rni.s32.f32 $0, $1;", {bits(2.5f)}), 2u);
  EXPECT_EQ(word("cvt.rni.s32.f32 $0, $1;", {bits(-3.5f)}), 0xfffffffcu);
  EXPECT_EQ(word("cvt.rmi.s32.f32 $0, $1;", {bits(-2.1f)}), 0xfffffffdu);
  EXPECT_EQ(word("cvt.rpi.u32.f32 $0, $1;", {bits(2.1f)}), 3u);
  EXPECT_EQ(word("cvt.rni.f32.f32 $0, $1;", {bits(-0.25f)}), 0x80000000u);
  EXPECT_EQ(word("cvt.rzi.f32.f32 $0, $1;", {bits(-1.75f)}), bits(-1));
  EXPECT_EQ(word("cvt.rn.f32.s32 $0, $1;", {0xffffffff}), bits(-1));
  EXPECT_EQ(word("cvt.rn.f16x2.f32 $0, $1, $2;", {bits(1), bits(-2)}), 0x3c00c000u);
  EXPECT_EQ(word("cvt.rn.relu.bf16x2.f32 $0, $1, $2;", {bits(1), bits(-2)}), 0x3f800000u);
  EXPECT_EQ(word("cvt.rz.bf16x2.f32 $0, $1, $2;", {0x3f80ffff, 0x3f80ffff}), 0x3f803f80u);
  EXPECT_EQ(word("cvt.rna.tf32.f32 $0, $1;", {0x3f801000}), 0x3f802000u);
  EXPECT_EQ(word("{ .reg .b16 h; cvt.rn.satfinite.e4m3x2.f32 h, $1, $2; cvt.u32.u16 $0, h; }", {bits(1), bits(1e9f)}),
            0x387eu);
  EXPECT_EQ(word("{ .reg .b16 h; cvt.u16.u32 h, $1; cvt.rn.f16x2.e5m2x2 $0, h; }", {0x3cc0}), 0x3c00c000u);
  EXPECT_EQ(word("{ .reg .b16 h; cvt.u16.u32 h, $1; cvt.f32.f16 $0, h; }", {0x3c00}), bits(1));
  EXPECT_EQ(word("cvt.pack.sat.u8.s32.b32 $0, $1, $2, $3;", {300, 0xffffffff, 0x12345678}), 0x5678ff00u);
  EXPECT_EQ(word("cvt.pack.sat.s16.s32 $0, $1, $2;", {100000, 5}), 0x7fff0005u);
  EXPECT_EQ(Statement("cvt.rn.f32.f64 $0, $1;", "=f,d", Elem::F32, {Elem::F64})({std::bit_cast<uint64_t>(0.1)}),
            bits(0.1f));
  EXPECT_EQ(Statement("cvt.u64.u32 $0, $1;", "=l,r", Elem::I64, {Elem::I32})({0xffffffff}), 0xffffffffu);
}

TEST(Ptx, Refused) {
  for (auto [text, why] : {std::pair{"bar.sync 1;", "only `bar.sync 0` has a meaning here"},
                           {"membar.gl;", "`membar.gl`: this instruction is not known"},
                           {"add.cc.u32 $0, $1, $2;", "`.cc` is not known here"},
                           {"ld.global.b32 $0, [$1];", "this instruction is not known"},
                           {"mov.u32 $0, %laneid;", "`%laneid` has no meaning here"},
                           {"add.s32 $0, $1;", "it has 2 operands"},
                           {"add $0, $1, $2;", "is no PTX"},
                           {"add.rz.f32 $0, $1, $2;", "`.rz` is not known here"},
                           {"add.s64 $0, $1, $2;", "`$1` has 32 bits, 64 are wanted"},
                           {"mov.u32 $0, $1; mov.u32 t, $1;", "no register of this name is declared"},
                           {"mul.s32 $0, $1, $2;", "a product of integers is .lo, .hi or .wide"},
                           {"lop3.b32 $0, $1, $2, $1, $2;", "`$2` is no constant"},
                           {"prmt.b32.f4e $0, $1, $2, $1;", "`.f4e` is not known here"},
                           {"cvt.s32.f32 $0, $1;", "how it is rounded is missing"},
                           {"mov.b32 $0, {$1, $2};", "`$1` has 32 bits, 16 are wanted"},
                           {"setp.odd.s32 $0, $1, $2;", "there is no such comparison"}}) {
    Statement s(text, "=r,r,r", Elem::I32, {Elem::I32, Elem::I32});
    EXPECT_NE(s.message().find(why), std::string::npos) << text << ": " << s.message();
  }
  EXPECT_EQ(Statement("mov.b32 $0, $1;", "=r,x", Elem::I32, {Elem::I32}).message(),
            "inline assembly: a test cannot execute `x`: this constraint names no register of PTX");
  EXPECT_EQ(Statement("mov.b32 $0, $1;", "=r,r", Elem::I32, {Elem::I64}).message(),
            "inline assembly: a test cannot execute `r`: this register has 32 bits, the operand 64");
}

TEST(Ptx, TilesAndSeveralOutputs) {
  DiagEngine diag;
  auto file = std::make_shared<SourceFile>("test.ir", R"(kernel @k(%p: ptr<i32>) {
    %r = range {start = 0} : tensor<4xi32>
    %sum = asm %r {constraints = "=r,=r,r", outputs = "i32,i32", result = 0, text = "add.s32 $0, $2, 1; mul.lo.s32 $1, $0, 10;"} : tensor<4xi32>
    %ten = asm %r {constraints = "=r,=r,r", outputs = "i32,i32", result = 1, text = "add.s32 $0, $2, 1; mul.lo.s32 $1, $0, 10;"} : tensor<4xi32>
    %a, %b = asm_effect %ten {constraints = "=r,=r,r", outputs = "i32,i32", text = "mov.b32 $0, $2; mov.b32 $1, 7;"} : tensor<4xi32>, tensor<4xi32>
    %x = add %a, %b
    %y = add %x, %sum
    %pp = splat %p : tensor<4xptr<i32>>
    %q = addptr %pp, %r
    store %q, %y
  })");
  auto m = parse(file, diag);
  ASSERT_TRUE(m) << renderAll(diag);
  ASSERT_TRUE(expandAsm(*m, {"a test", false}, diag)) << renderAll(diag);
  std::string why;
  ASSERT_TRUE(verify(*m, &why)) << why;
  int32_t out[4] = {};
  Interp in(*m);
  in.addBuffer(out, sizeof out);
  uint64_t args[] = {reinterpret_cast<uintptr_t>(out)};
  InterpResult r = in.run(args, {1, 1, 1});
  ASSERT_TRUE(r.ok) << r.fault;
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(out[i], (i + 1) * 11 + 7);
}

} // namespace
