// What golden tests cannot show: inlining chains, time on large modules, that passes keep modules valid.
#include "ParsedIr.h"
#include "ir/Builder.h"
#include "ir/StageVerifier.h"
#include "passes/HoistInvariants.h"
#include "passes/Inline.h"
#include "passes/Pipeline.h"
#include "passes/Simplify.h"
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

using namespace tegula;
using namespace tegula::ir;

namespace {

TEST(Inline, ChainsGoFromTheInnermostCallOut) {
  auto m = test::parsed(
      "func @a(%x: i32) -> i32 { %y = add %x, %x  return %y }\n"
      "func @b(%x: i32) -> i32 { %y = call %x {callee = \"a\"} : i32  return %y }\n"
      "kernel @k(%p: ptr<i32>, %x: i32) { %y = call %x {callee = \"b\"} : i32  %z = call %y {callee = \"b\"} : i32  store %p, %z }");
  inlineCalls(*m);
  ASSERT_EQ(m->functions.size(), 1u);
  const auto &ops = m->kernel()->block()->ops;
  ASSERT_EQ(ops.size(), 4u); // add, add, store, return
  int32_t lastCall = -1;
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_GE(ops[i]->inlinedAt, 0);
    const InlineSite &inner = m->inlineSites[static_cast<size_t>(ops[i]->inlinedAt)];
    EXPECT_EQ(inner.callee, "a");
    ASSERT_GE(inner.parent, 0);
    const InlineSite &outer = m->inlineSites[static_cast<size_t>(inner.parent)];
    EXPECT_EQ(outer.callee, "b");
    EXPECT_EQ(outer.parent, -1);
    EXPECT_NE(inner.parent, lastCall);
    lastCall = inner.parent;
  }
  EXPECT_EQ(ops[2]->inlinedAt, -1);
}

/// Operations of a kind that stand in the function's own block after a loop around `loops` others has been done: in
/// each of those, a multiple and a quotient of %x and a root of the tile %t are computed.
size_t hoistedOutOf(int loops, OpKind kind) {
  std::string body;
  for (int i = 0; i < loops; ++i)
    body +=
        "for %zero, %n, %one (%j: i32) { %c = const {value = " + std::to_string(i + 2) +
        "} : i32  %a = mul %x, %c  %q = addptr %p, %a  store %q, %a  "
        "%d = sdiv %x, %n  store %q, %d  %r = sqrt %t : tensor<64xf32>  %o = addptr %tp, %ti : tensor<64xptr<f32>>  store %o, %r }\n";
  auto m = test::parsed(
      "kernel @k(%p: ptr<i32>, %f: ptr<f32>, %n: i32, %x: i32) { %zero = const {value = 0} : i32  %one = const {value = 1} : i32\n"
      "%ti = range {start = 0} : tensor<64xi32>  %tp = splat %f : tensor<64xptr<f32>>  %t0 = addptr %tp, %ti : tensor<64xptr<f32>>\n"
      "%t = load %t0 : tensor<64xf32>\nfor %zero, %n, %one (%i: i32) {\n" +
      body + "} }");
  hoistInvariants(*m);
  std::string why;
  EXPECT_TRUE(verify(*m, &why)) << why;
  const auto &ops = m->kernel()->block()->ops;
  return static_cast<size_t>(std::count_if(ops.begin(), ops.end(), [&](const Op *op) { return op->kind == kind; }));
}

// 500 loops in one took 6 s on cpu: each had addresses of its own alive in all others.
TEST(HoistInvariants, ManyLoopsKeepWhatIsCheap) {
  EXPECT_EQ(hoistedOutOf(10, OpKind::Mul), 10u);
  EXPECT_EQ(hoistedOutOf(100, OpKind::Mul), 0u);
  for (int loops : {10, 100})
    for (OpKind dear : {OpKind::Sqrt, OpKind::SDiv})
      EXPECT_EQ(hoistedOutOf(loops, dear), static_cast<size_t>(loops));
}

/// Many operations of the kinds that kernels have, half of them duplicates, in nested regions.
std::unique_ptr<Module> largeModule(unsigned ops) {
  auto m = std::make_unique<Module>();
  Builder b(*m);
  b.setFolding(false);
  Type args[] = {Type::ptr(Elem::I32), Type::scalar(Elem::I32)};
  Function *f = m->createFunction("k", args, {}, {});
  f->isKernel = true;
  b.setBlock(f->block());
  Value *p = f->block()->args[0], *n = f->block()->args[1];
  Value *r = b.range(0, 128), *v = b.splat(n, {128});
  for (unsigned i = 0; i < ops / 5; ++i) {
    Value *c = b.constInt(v->type, i / 2 % 100);
    Value *x = b.binary(OpKind::Mul, i % 3 ? v : r, c);
    Value *y = b.binary(OpKind::Add, x, r);
    v = i % 7 ? b.binary(OpKind::Xor, y, v) : v;
    if (i % 50 == 0)
      b.create(OpKind::Store, std::array<Value *, 2>{b.addPtr(b.splat(p, {128}), y), v}, {});
  }
  b.create(OpKind::Store, std::array<Value *, 2>{b.addPtr(b.splat(p, {128}), r), v}, {});
  b.create(OpKind::Return, {}, {});
  return m;
}

SimplifyWork workOn(unsigned ops) {
  auto m = largeModule(ops);
  SimplifyWork work;
  simplify(*m, &work);
  std::string why;
  EXPECT_TRUE(verify(*m, &why)) << why;
  return work;
}

// Four times the operations are about four times the work, of each kind; what grows with the square would be sixteen
// times.
TEST(Simplify, IsLinear) {
  SimplifyWork small = workOn(10000), large = workOn(40000);
  EXPECT_GE(small.visited, 7500u);
  EXPECT_GE(small.judged, 7500u);
  EXPECT_GE(small.compared, 2500u);
  EXPECT_LE(large.visited, 5 * small.visited);
  EXPECT_LE(large.judged, 5 * small.judged);
  EXPECT_LE(large.compared, 5 * small.compared);
}

TEST(Pipeline, LargeModulesStayWhole) {
  auto m = largeModule(20000);
  runPipeline(*m);
  std::string why;
  EXPECT_TRUE(verify(*m, &why)) << why;
}

TEST(Pipeline, TheVerifierEndsIt) {
  DiagEngine diag;
  auto m = largeModule(10);
  EXPECT_TRUE(runPipeline(*m, nullptr, nullptr, {true, diag})) << renderAll(diag);
  m->kernel()->block()->args[0]->index = 7;
  std::string before = print(*m);
  EXPECT_FALSE(runPipeline(*m, nullptr, nullptr, {true, diag}));
  EXPECT_EQ(renderAll(diag), "error: internal error: the IR is malformed after merge-arguments: @" + m->kernel()->name +
                                 ": a block argument has the wrong owner or number [malformedIr]\n");
  EXPECT_EQ(print(*m), before);
}

/// The one file of a folder; the folder is removed.
std::string onlyFile(const std::filesystem::path &folder, std::string &path) {
  std::vector<std::filesystem::path> files;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  EXPECT_EQ(files.size(), 1u);
  std::ostringstream text;
  if (!files.empty())
    text << std::ifstream(files[0]).rdbuf(), path = files[0].string();
  std::filesystem::remove_all(folder);
  return text.str();
}

// The second of two passes forgets an operand: the file has what the first one left.
TEST(Pipeline, WhatBreaksARuleCanBeRepeated) {
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("tegula-passes-" + std::to_string(::getpid()));
  DiagEngine diag;
  StageVerifier verifier(true, diag, folder.string());
  auto m = largeModule(10);
  PassRunner runner(*m, verifier);
  EXPECT_TRUE(runner.run("simplify", findPass("simplify")->run));
  EXPECT_FALSE(std::filesystem::exists(folder)) << "nothing was wrong";
  std::string before = print(*m), path;
  EXPECT_FALSE(runner.run("remove-dead", [](Module &x) {
    x.kernel()->block()->ops.back()->operands.push_back(x.kernel()->block()->args[0]);
  }));
  std::string text = onlyFile(folder, path);
  EXPECT_EQ(text, "// tegula-opt --passes=remove-dead " + path + "\n" + before);
  EXPECT_NE(
      renderAll(diag).find("note: this repeats it, with the module before the pass: tegula-opt --passes=remove-dead " +
                           path + "\n"),
      std::string::npos)
      << renderAll(diag);
  DiagEngine reading;
  EXPECT_TRUE(parse(std::make_shared<SourceFile>("reproducer", text), reading)) << renderAll(reading);
}

TEST(Pipeline, AFolderThatCannotBeMadeIsTold) {
  DiagEngine diag;
  StageVerifier verifier(true, diag, "/dev/null/folder");
  auto m = largeModule(10);
  PassRunner runner(*m, verifier);
  EXPECT_FALSE(runner.run("simplify", [](Module &x) { x.kernel()->argInfo.clear(); }));
  EXPECT_NE(renderAll(diag).find("note: a file in /dev/null/folder that repeats it cannot be made: Not a directory\n"),
            std::string::npos)
      << renderAll(diag);
}

} // namespace
