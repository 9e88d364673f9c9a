// What kernels read and write through their arguments, by every way that a pointer can take.
#include "passes/ArgumentAccess.h"
#include "ir/Builder.h"
#include "ParsedIr.h"
#include <gtest/gtest.h>

using namespace tegula;
using namespace tegula::ir;

namespace {

/// "r", "w", "rw" or "-" for each argument of the kernel.
std::string accessOf(const std::string &text) {
  std::unique_ptr<Module> m = test::parsed(text);
  std::string all;
  if (m)
    for (ArgumentAccess a : kernelAccess(*m))
      all += (all.empty() ? "" : " ") + std::string(a.reads ? "r" : "") + (a.writes ? "w" : a.reads ? "" : "-");
  return all;
}

TEST(ArgumentAccess, LoadsStoresAndAtomics) {
  EXPECT_EQ(accessOf("kernel @k(%x: ptr<f32>, %o: ptr<f32>, %c: ptr<i32>, %n: i32, %u: ptr<f32>) {\n"
                     "  %a = load %x : f32\n  store %o, %a\n  %b = atomic_rmw %c, %n {rmw = \"add\"} : i32\n}"),
            "r w rw - -");
}

TEST(ArgumentAccess, AtomicLoadsAndStoresAreOneEach) {
  EXPECT_EQ(
      accessOf("kernel @k(%x: ptr<i32>, %o: ptr<i32>, %n: i32) {\n"
               "  %a = atomic_rmw %x, %n {rmw = \"load\"} : i32\n  %b = atomic_rmw %o, %a {rmw = \"store\"} : i32\n}"),
      "r w -");
}

TEST(ArgumentAccess, OneOfTwoPointersIsBoth) {
  EXPECT_EQ(accessOf("kernel @k(%x: ptr<f32>, %y: ptr<f32>, %o: ptr<f32>, %c: i1) {\n"
                     "  %p = select %c, %x, %y\n  %a = load %p : f32\n  store %o, %a\n}"),
            "r r w -");
}

TEST(ArgumentAccess, LoopsSwapPointers) {
  EXPECT_EQ(
      accessOf(
          "kernel @k(%x: ptr<f32>, %y: ptr<f32>, %z: ptr<f32>, %n: i32) {\n  %l = const {value = 0} : i32\n  %s = const {value = 1} : i32\n"
          "  %p, %q = for %l, %n, %s, %x, %y : ptr<f32>, ptr<f32> (%i: i32, %a: ptr<f32>, %b: ptr<f32>) {\n"
          "    %v = load %a : f32\n    store %b, %v\n    yield %b, %a\n  }\n  %w = load %p : f32\n}"),
      "rw rw - -");
}

TEST(ArgumentAccess, FunctionsThatAreCalledCount) {
  EXPECT_EQ(accessOf("func @put(%p: ptr<f32>, %q: ptr<f32>) { %v = load %q : f32  store %p, %v }\n"
                     "kernel @k(%x: ptr<f32>, %o: ptr<f32>, %u: ptr<f32>) { call %o, %x {callee = \"put\"} }"),
            "r w -");
}

TEST(ArgumentAccess, AddressesFromElsewhereAreAnywhere) {
  EXPECT_EQ(
      accessOf(
          "kernel @k(%x: ptr<i64>, %o: ptr<f32>, %v: f32) {\n  %a = load %x : i64\n  %p = inttoptr %a : ptr<f32>\n  store %p, %v\n}"),
      "rw w -");
}

TEST(ArgumentAccess, AssemblyWithEffectsMayDoAnything) {
  EXPECT_EQ(
      accessOf(
          "kernel @k(%x: ptr<f32>, %a: i32) {\n  %b = asm_effect %a {text = \"nop\", constraints = \"=r,r\", outputs = \"i32\"} : i32\n}"),
      "rw -");
  EXPECT_EQ(
      accessOf(
          "kernel @k(%x: ptr<f32>, %a: i32) {\n  %b = asm %a {text = \"nop\", constraints = \"=r,r\", outputs = \"i32\", result = 0} : i32\n}"),
      "- -");
}

TEST(ArgumentAccess, LongChainsTakeNoTime) {
  auto m = std::make_unique<Module>();
  Builder b(*m);
  b.setFolding(false);
  Type args[] = {Type::ptr(Elem::F32), Type::ptr(Elem::F32)};
  Function *f = m->createFunction("k", args, {}, {});
  f->isKernel = true;
  b.setBlock(f->block());
  const Type loaded[] = {Type::scalar(Elem::F32)};
  Value *p = f->block()->args[0], *one = b.constInt(Type::scalar(Elem::I32), 1);
  for (int i = 0; i < 200000; ++i) {
    p = b.addPtr(p, one);
    b.create(OpKind::Load, std::span<Value *const>(&p, 1), loaded);
  }
  std::vector<ArgumentAccess> a = kernelAccess(*m);
  EXPECT_TRUE(a[0].reads && !a[0].writes && !a[1].reads);
  EXPECT_EQ(baseArgument(p), -1); // too far to say
}

} // namespace
