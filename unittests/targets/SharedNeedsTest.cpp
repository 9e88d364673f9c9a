// Shared memory that single operations take: what SharedNeeds.h says is what a kernel with that operation has.
#include "gpu/Passes.h"
#include "gpu/shared/SharedNeeds.h"
#include "ir/Text.h"
#include "targets/nvidia/Codegen.h"
#include "targets/nvidia/lower/Lower.h"
#include "targets/nvidia/TargetInfo.h"
#include "llvm/IR/Module.h"
#include <gtest/gtest.h>

using namespace tegula;
using namespace tegula::ir;

namespace {

struct Case {
  const char *body; // %p: ptr<i32>, %q: ptr<f32>, %i: tensor<1024xi32>, %x: what %q points to
  OpKind kind;
  uint64_t bytes; // with 4 warps
};

std::unique_ptr<Module> kernelOf(const std::string &body, unsigned warps, DiagEngine &diag) {
  std::string text = "kernel @k(%p: ptr<i32> {divisibility = 16}, %q: ptr<f32> {divisibility = 16}) {\n"
                     "  %i = range {start = 0} : tensor<1024xi32>\n"
                     "  %b = splat %q : tensor<1024xptr<f32>>\n"
                     "  %a = addptr %b, %i : tensor<1024xptr<f32>>\n"
                     "  %x = load %a : tensor<1024xf32>\n" + body + "}\n";
  std::unique_ptr<Module> m = parse(std::make_shared<SourceFile>("case", text), diag);
  EXPECT_TRUE(m) << renderAll(diag);
  nvidia::Options options;
  options.numWarps = warps;
  return m ? gpu::runGpuPasses(*m, {nvidia::NvTargetInfo({}), options, nullptr}, StageVerifier(true, diag)) : nullptr;
}

const Op *find(const Module &m, OpKind kind) {
  for (const Op *op : m.kernel()->block()->ops)
    if (op->kind == kind)
      return op;
  return nullptr;
}

} // namespace

TEST(SharedNeeds, OneFunctionForAll) {
  const Case cases[] = {
      {"%s = reduce %x {axis = 0} : f32 (%u: f32, %v: f32) { %c = fadd %u, %v : f32  yield %c }\n store %q, %s\n",
       OpKind::Reduce, 16},
      {"%s, %t = reduce %x, %i {axis = 0} : f32, i32 (%u: f32, %j: i32, %v: f32, %k: i32) { %c = fadd %u, %v : f32  %l = add %j, %k : i32  yield %c, %l }\n"
       " store %q, %s\n store %p, %t\n",
       OpKind::Reduce, 32},
      {"%s = scan %x {axis = 0} : tensor<1024xf32> (%u: f32, %v: f32) { %c = fadd %u, %v : f32  yield %c }\n store %a, %s\n",
       OpKind::Scan, 16},
      {"%j = mul %i, %i : tensor<1024xi32>\n %s = gather %x, %j {axis = 0} : tensor<1024xf32>\n store %a, %s\n",
       OpKind::Gather, 4096},
      {"%h = const {value = 128} : tensor<1024xi32>\n %j = xor %i, %h : tensor<1024xi32>\n %s = gather %x, %j {axis = 0} : tensor<1024xf32>\n store %a, %s\n",
       OpKind::Exchange, 4096}, // between warps
      {"%o = atomic_rmw %p, %one {rmw = \"add\"} : i32\n store %p, %o\n", OpKind::AtomicRmw, 4},
      {"%o = atomic_rmw %p, %one {rmw = \"add\"} : i32\n", OpKind::AtomicRmw, 0},
  };
  for (const Case &c : cases) {
    DiagEngine diag;
    std::unique_ptr<Module> m = kernelOf(std::string("  %one = const {value = 1} : i32\n  ") + c.body, 4, diag);
    ASSERT_TRUE(m);
    const Op *op = find(*m, c.kind);
    ASSERT_TRUE(op) << c.body;
    bool isUsed = c.bytes || c.kind != OpKind::AtomicRmw;
    nvidia::Options options;
    options.depth = targets::Depth::Sketch;
    auto need = [&](const Op &o) { return gpu::scratchNeed(*m, o, {32, options.numWarps}, 1, {}, isUsed).bytes; };
    EXPECT_EQ(need(*op), c.bytes) << c.body;
    uint64_t most = 0; // a scan's result is converted for the store
    for (const Op *o : m->kernel()->block()->ops)
      most = std::max(most, need(*o));
    llvm::LLVMContext context;
    llvm::Module out("k", context);
    nvidia::GpuKernelMeta meta;
    EXPECT_TRUE(nvidia::lower(*m, nvidia::NvTarget(), options, out, meta, diag)) << renderAll(diag);
    EXPECT_EQ(meta.sharedBytes, most) << c.body;
  }
}

// What no pass turned into something else is an error at its place.
TEST(Lower, WhatHasNoCodeIsAnError) {
  DiagEngine diag;
  const char *text =
      "kernel @k(%p: ptr<f32> {divisibility = 16}, %n: i32) {\n"
      "  %s = const {value = 64} : i64\n  %one = const {value = 1} : i64\n  %zero = const {value = 0} : i32\n"
      "  %x = desc_load %p, %n, %n, %s, %one, %zero, %zero : tensor<16x64xf32>\n"
      "  %t = reduce %x {axis = 1} : tensor<16xf32> (%u: f32, %v: f32) { %c = fadd %u, %v : f32  yield %c }\n"
      "  %r = reduce %t {axis = 0} : f32 (%u: f32, %v: f32) { %c = fadd %u, %v : f32  yield %c }\n  store %p, %r\n}\n";
  std::unique_ptr<Module> m = parse(std::make_shared<SourceFile>("case", text), diag);
  ASSERT_TRUE(m) << renderAll(diag);
  nvidia::Options options;
  m = gpu::runPasses({gpu::findGpuPass("assign-layouts"), 1}, *m, {nvidia::NvTargetInfo({}), options, nullptr}, {});
  llvm::LLVMContext context;
  llvm::Module out("k", context);
  nvidia::GpuKernelMeta meta;
  EXPECT_FALSE(nvidia::lower(*m, nvidia::NvTarget(), options, out, meta, diag));
  EXPECT_NE(renderAll(diag).find("case:5:3: error: `desc_load` cannot be compiled for a GPU: there is no code for it"),
            std::string::npos)
      << renderAll(diag);
}
