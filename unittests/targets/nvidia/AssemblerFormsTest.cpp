#include "targets/nvidia/passes/AssemblerForms.h"
#include "GpuModule.h"
#include <map>
#include <sstream>

namespace tegula::nvidia {
namespace {

const char *const wrongInAssembler[] = {"neg.s16", "neg.s32", "abs.s", "mul.hi.u32", "mul.hi.s32"};

TEST(AssemblerForms, ReplacesByInstructionsOfTheSameResult) {
  EXPECT_EQ(replaceForAssembler("\tneg.s32 \t%r2, %r1;\n"), "\tnot.b32 %r2, %r1;\n\tadd.s32 %r2, %r2, 1;\n");
  EXPECT_EQ(replaceForAssembler("\tneg.s16 \t%rs2, %rs1;\n"), "\tnot.b16 %rs2, %rs1;\n\tadd.s16 %rs2, %rs2, 1;\n");
  EXPECT_EQ(replaceForAssembler("\tabs.s16 \t%rs2, %rs2;\n"),
            "\t{\n\t.reg .b16 %negated;\n\tnot.b16 %negated, %rs2;\n\tadd.s16 %negated, %negated, 1;\n"
            "\tmax.s16 %rs2, %rs2, %negated;\n\t}\n");
  EXPECT_EQ(replaceForAssembler("\tmul.hi.s32 \t%r3, %r1, -7;\n"),
            "\t{\n\t.reg .b64 %product;\n\tmul.wide.s32 %product, %r1, -7;\n\tmov.b64 {_, %r3}, %product;\n\t}\n");
  EXPECT_EQ(replaceForAssembler("\t{ .reg .b32 tmp; mov.b64 {tmp, %r6}, %rd8; }\n"),
            "\t{\n\t.reg .b64 %high;\n\tshr.u64 %high, %rd8, 32;\n\tcvt.u32.u64 %r6, %high;\n\t}\n");
  const char *others =
      "\tneg.f32 \t%f2, %f1;\n\n\tmul.hi.u64 \t%rd1, %rd2, %rd3;\n\tneg.s64 \t%rd1, %rd2;\n\tabs.f32 \t%f1, %f2;";
  EXPECT_EQ(replaceForAssembler(others), others);
}

/// Several statements of a user's assembly may stand in one line: each is replaced by itself, and none is lost.
TEST(AssemblerForms, StatementsInOneLine) {
  EXPECT_EQ(replaceForAssembler("\tneg.s32 %r2, %r1; add.s32 %r2, %r2, 5;\n"),
            "\tnot.b32 %r2, %r1;\n\tadd.s32 %r2, %r2, 1; add.s32 %r2, %r2, 5;\n");
  EXPECT_EQ(replaceForAssembler("\t{ .reg .b32 t; add.s32 t, %r1, 5; neg.s32 %r2, t; } // neg.s32 %r3, %r3;\n"),
            "\t{ .reg .b32 t; add.s32 t, %r1, 5; not.b32 %r2, t;\n\tadd.s32 %r2, %r2, 1; } // neg.s32 %r3, %r3;\n");
  const char *others = "\tadd.s32 %r2, %r1, 5; @%p1 neg.s32 %r2, %r2;\n";
  EXPECT_EQ(replaceForAssembler(others), others);
}

/// One register for two operands of lop3: a function of two.
TEST(AssemblerForms, Lop3OfTwoRegisters) {
  auto of = [](const char *text) { return replaceForAssembler("\tlop3.b32 " + std::string(text) + ";\n"); };
  auto scoped = [](const char *text) { return "\t{\n\t.reg .b32 %t;\n\t" + std::string(text) + "\n\t}\n"; };
  EXPECT_EQ(of("%r1, %r2, %r2, %r4, 0x96"), scoped("mov.b32 %r1, %r4;"));
  EXPECT_EQ(of("%r1, %r2, %r4, %r2, 0xE8"), scoped("mov.b32 %r1, %r2;"));
  EXPECT_EQ(of("%r1, %r2, %r4, %r4, 0x08"), scoped("not.b32 %t, %r2; and.b32 %r1, %t, %r4;"));
  EXPECT_EQ(of("%r1, %r2, %r2, %r2, 0x96"), scoped("mov.b32 %r1, %r2;"));
  EXPECT_EQ(of("%r1, %r2, %r2, %r2, 0x01"), scoped("not.b32 %r1, %r2;"));
  EXPECT_EQ(of("%r1, %r2, %r3, %r4, 0x96"), "\tlop3.b32 %r1, %r2, %r3, %r4, 0x96;\n");
  // Every table, each pair of operands that may be one, computed bit by bit.
  for (unsigned table = 0; table < 256; ++table)
    for (int pair = 0; pair < 3; ++pair) {
      const char *names[][3] = {{"p", "p", "q"}, {"p", "q", "p"}, {"p", "q", "q"}};
      const std::string text = of((std::string("d, ") + names[pair][0] + ", " + names[pair][1] + ", " + names[pair][2] +
                                   ", " + std::to_string(table))
                                      .c_str());
      for (unsigned p : {0u, 1u})
        for (unsigned q : {0u, 1u}) {
          auto bit = [&](const char *n) { return *n == 'p' ? p : q; };
          const unsigned want = table >> (4 * bit(names[pair][0]) + 2 * bit(names[pair][1]) + bit(names[pair][2])) & 1;
          std::map<std::string, unsigned> r{{"p", p}, {"q", q}, {"0", 0}, {"-1", 1}};
          std::istringstream words(text.substr(text.find("%t;\n") + 4));
          for (std::string op, to, x, y; words >> op && op != "}";) {
            auto operand = [&](std::string &w) { words >> w, w.pop_back(); };
            operand(to), operand(x);
            if (op != "mov.b32" && op != "not.b32")
              operand(y);
            r[to] = op == "mov.b32"   ? r[x]
                    : op == "not.b32" ? r[x] ^ 1
                    : op == "and.b32" ? r[x] & r[y]
                    : op == "or.b32"  ? r[x] | r[y]
                                      : r[x] ^ r[y];
          }
          EXPECT_EQ(r["d"], want) << text;
        }
    }
}

/// Beside a lop3 nothing is compared with 0 for equality.
TEST(AssemblerForms, EqualToZeroBesideLop3) {
  const std::string equal =
      "\tsetp.eq.s32 \t%p1, %r1, 0;\n\t@%p2 setp.eq.s32 %p1, %r1, 0; setp.eq.b32 p, %r2, 0;\n\tsetp.eq.s32 \t%p1, %r1, 1;\n\tsetp.eq.s64 \t%p1, %rd1, 0;\n\tsetp.eq.s32 \t%p1, %r1, %r2;\n";
  EXPECT_EQ(replaceForAssembler(equal), equal);
  const std::string lop3 = "\tlop3.b32 %r1, %r2, %r3, %r4, 0x96;\n";
  EXPECT_EQ(
      replaceForAssembler(lop3 + equal),
      lop3 +
          "\tsetp.lt.u32 %p1, %r1, 1;\n\t@%p2 setp.eq.s32 %p1, %r1, 0; setp.lt.u32 p, %r2, 1;\n\tsetp.eq.s32 \t%p1, %r1, 1;\n\tsetp.eq.s64 \t%p1, %rd1, 0;\n\tsetp.eq.s32 \t%p1, %r1, %r2;\n");
}

/// Additions say no rounding, unless a product says none either: the two could become one fma.
TEST(AssemblerForms, AdditionsWithoutRounding) {
  const std::string sums =
      "\tadd.rn.f32 \t%f3, %f1, %f2;\n\tsub.rn.f32 \t%f4, %f3, %f2;\n\tmul.rn.f32 \t%f5, %f4, %f2;\n\tadd.rn.f64 \t%fd3, %fd1, %fd2;\n";
  EXPECT_EQ(
      replaceForAssembler(sums),
      "\tadd.f32 \t%f3, %f1, %f2;\n\tsub.f32 \t%f4, %f3, %f2;\n\tmul.rn.f32 \t%f5, %f4, %f2;\n\tadd.rn.f64 \t%fd3, %fd1, %fd2;\n");
  for (const char *product : {"\tmul.f32 \t%f6, %f1, %f2;\n", "\tmul.ftz.f32 \t%f6, %f1, %f2;\n"})
    EXPECT_EQ(replaceForAssembler(sums + product), sums + product);
}

/// The address of shared memory in the register that a loop steps: what is computed before the loop reads a register of
/// its own.
TEST(AssemblerForms, SteppedBaseOfSharedMemory) {
  const std::string before = "\tmov.u64 \t%rd3, tegula_shared;\n"
                             "\tcvt.u32.u64 \t%r19, %rd3;\n"
                             "\tadd.s32 \t%r1, %r19, %r194;\n"
                             "\t@%p1 st.shared.b16 [%r19], %rs1;\n";
  const std::string loop = "$L__BB0_1:\n"
                           "\tld.shared.b32 %r5, [%r19];\n"
                           "\tadd.s32 \t%r19, %r19, 16;\n"
                           "\t@%p2 bra \t$L__BB0_1;\n";
  EXPECT_EQ(replaceForAssembler(before + loop), "\tmov.u64 \t%rd3, tegula_shared;\n"
                                                "\t.reg .b32 %shared_base0;\n"
                                                "\tcvt.u32.u64 %shared_base0, %rd3;\n"
                                                "\tmov.b32 %r19, %shared_base0;\n"
                                                "\tadd.s32 \t%r1, %shared_base0, %r194;\n"
                                                "\t@%p1 st.shared.b16 [%shared_base0], %rs1;\n" +
                                                    loop);
  // An outer loop that holds the stepping: its uses of the register see what was stepped.
  const std::string outer = "$L__BB0_0:\n\tadd.s32 \t%r7, %r19, 4;\n" + loop + "\t@%p3 bra \t$L__BB0_0;\n";
  EXPECT_NE(replaceForAssembler(before + outer).find("add.s32 \t%r7, %r19, 4;"), std::string::npos);
  // Never stepped: nothing to do.
  EXPECT_EQ(replaceForAssembler(before), before);
}

/// Conversions of the bits of a selected 1, which is no 1.0: the converted bits are selected.
TEST(AssemblerForms, ConversionsOfABit) {
  const std::string start = ".visible .entry k(\n";
  auto after = [&](const std::string &before, const std::string &conversion) {
    std::string out = replaceForAssembler(start + before + conversion);
    EXPECT_EQ(out.substr(0, start.size() + before.size()), start + before);
    return out.substr(start.size() + before.size());
  };
  const std::string half = "\tsetp.ne.s16 \t%p1, %rs1, 0;\n\tselp.u16 \t%rs2, 1, 0, %p1;\n";
  EXPECT_EQ(after(half, "\tcvt.f32.f16 \t%f1, %rs2;\n"), "\tselp.f32 %f1, 0f33800000, 0f00000000, %p1;\n");
  EXPECT_EQ(after(half, "\tcvt.f64.f16 \t%fd1, %rs2;\n"),
            "\tselp.f64 %fd1, 0d3E70000000000000, 0d0000000000000000, %p1;\n");
  EXPECT_EQ(after(half, "\tcvt.f32.bf16 \t%f1, %rs2;\n"), "\tselp.f32 %f1, 0f00010000, 0f00000000, %p1;\n");
  EXPECT_EQ(after(half, "\tcvt.rzi.s32.f16 \t%r1, %rs2;\n"), "\tmov.b32 %r1, 0;\n");
  const std::string word = "\tsetp.ne.s32 \t%p1, %r1, 0;\n\tselp.u32 \t%r2, 0, 1, %p1;\n\tmov.b32 \t%f1, %r2;\n";
  EXPECT_EQ(after(word, "\tcvt.rzi.s32.f32 \t%r3, %f1;\n"), "\tmov.b32 %r3, 0;\n");
  EXPECT_EQ(after(word, "\tcvt.rn.f16.f32 \t%rs3, %f1;\n"), "\tmov.b16 %rs3, 0;\n");
  EXPECT_EQ(after(word, "\tcvt.f64.f32 \t%fd1, %f1;\n"),
            "\tselp.f64 %fd1, 0d0000000000000000, 0d36A0000000000000, %p1;\n");
  // Of integers, of other constants, upwards, of two: as they are.
  for (std::string other : {"\tcvt.rn.f32.u16 \t%f1, %rs2;\n", "\tcvt.u32.u16 \t%r1, %rs2;\n",
                            "\tcvt.rpi.s32.f16 \t%r1, %rs2;\n", "\tcvt.f32.f16 \t%f1, %rs1;\n"})
    EXPECT_EQ(after(half, other), other);
  const std::string three = "\tsetp.ne.s16 \t%p1, %rs1, 0;\n\tselp.u16 \t%rs2, 3, 0, %p1;\n",
                    convert = "\tcvt.f32.f16 \t%f1, %rs2;\n";
  EXPECT_EQ(after(three, convert), convert);
  // Registers that have another value, too: from another block, by inline assembly, of another function.
  EXPECT_EQ(after(half + "\tmov.u16 \t%rs2, %rs7;\n", convert), convert);
  EXPECT_EQ(after(half + "\tsetp.eq.s16 \t%p1, %rs1, 7;\n", convert), convert);
  EXPECT_EQ(after(half + "\t{ .reg .b16 t; mov.b16 t, 1; xor.b16 %rs2, %rs2, t; }\n", convert), convert);
  EXPECT_EQ(after(half + ".func f(\n", convert), convert);
}

/// What LLVM chooses of its own too: for divisions by constants, selections, negative factors.
TEST(AssemblerForms, NoneIsLeftInKernels) {
  for (unsigned sm : {80u, 90u}) {
    NvTarget target{.sm = sm, .archFeatures = sm == 90};
    GpuModule m(target);
    m.add("k", [](GpuModule::Kernel &k) {
      for (unsigned bits : {8u, 16u, 32u, 64u}) {
        llvm::Type *t = k.b.getIntNTy(bits), *wide = k.b.getIntNTy(2 * bits);
        V x = k.i.loadGlobal(k.data, t, nullptr, nullptr);
        V y = k.i.loadGlobal(k.b.CreateConstGEP1_64(k.b.getInt8Ty(), k.data, 64), t, nullptr, nullptr);
        k.use(k.b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, k.b.getFalse()));
        k.use(k.b.CreateSelect(k.b.CreateIsNeg(y), k.b.CreateNeg(y), y));
        k.use(k.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, k.b.CreateNeg(x), k.b.CreateNeg(y)));
        k.use(k.b.CreateMul(x, llvm::ConstantInt::getSigned(t, -1)));
        k.use(k.b.CreateSDiv(x, llvm::ConstantInt::get(t, 7)));
        k.use(k.b.CreateUDiv(x, llvm::ConstantInt::get(t, 7)));
        V product = k.b.CreateMul(k.b.CreateZExt(x, wide), k.b.CreateZExt(y, wide));
        k.use(k.b.CreateTrunc(k.b.CreateLShr(product, bits), t));
      }
    });
    for (const char *name : wrongInAssembler)
      EXPECT_EQ(m.text().find(name), std::string::npos) << name << " in\n" << m.text();
    EXPECT_NE(m.text().find("mul.wide.u32 %product"), std::string::npos);
    runtime::cuda::Assembly out;
    assembles(m.text(), target, out);
  }
}

} // namespace
} // namespace tegula::nvidia
