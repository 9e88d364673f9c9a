// Magnitudes of named values in a small kernel.
#include "ParsedIr.h"
#include "passes/Magnitude.h"
#include <gtest/gtest.h>
#include <cmath>

using namespace tegula;
using namespace tegula::ir;

namespace {

const Value *named(const Module &m, std::string_view name) {
  for (const Op *op : m.kernel()->block()->ops)
    for (const Value *r : op->results)
      if (r->name == name)
        return r;
  return nullptr;
}

TEST(Magnitude, EachRule) {
  std::unique_ptr<Module> m = test::parsed(R"(kernel @k(%p: ptr<f32>, %i: i32, %n: i8, %x: f32, %b: i1) {
    %signed = sitofp %i : f32
    %unsigned = uitofp %n : f32
    %scale = const {value = -0.5} : f32
    %nan = const {value = nan} : f32
    %inf = const {value = inf} : f32
    %none = const {value = 0} : f32
    %product = fmul %unsigned, %scale : f32
    %sum = fadd %product, %unsigned : f32
    %difference = fsub %product, %product : f32
    %fused = fma %unsigned, %scale, %unsigned : f32
    %chosen = select %b, %product, %signed : f32
    %cut = minimum %x, %scale : f32
    %most = maxnum %unsigned, %scale : f32
    %negated = fneg %unsigned : f32
    %whole = floor %product : f32
    %wave = sin %x : f32
    %tile = splat %product : tensor<8xf32>
    %any = load %p : f32
    %lost = fmul %any, %none : f32
    %endless = fmul %scale, %inf : f32
    return
  })");
  auto of = [&](const char *name) { return magnitude(named(*m, name)); };
  auto isAbout = [&](const char *name, double want) {
    EXPECT_GE(of(name), want) << name;
    EXPECT_LE(of(name), want * 1.05) << name;
  };
  isAbout("signed", std::ldexp(1, 31));
  isAbout("unsigned", 256);
  isAbout("scale", 0.5);
  isAbout("nan", 0);
  isAbout("product", 128);
  isAbout("sum", 384);
  isAbout("difference", 256);
  isAbout("fused", 384);
  isAbout("chosen", std::ldexp(1, 31));
  isAbout("most", 256);
  isAbout("negated", 256);
  isAbout("whole", 129);
  isAbout("wave", 1);
  isAbout("tile", 128);
  for (const char *unknown : {"inf", "cut", "any", "lost", "endless"})
    EXPECT_TRUE(std::isinf(of(unknown))) << unknown;
}

// Half precision rounds up by less than the slack, chains of any length end.
TEST(Magnitude, LongChainsAreUnknown) {
  std::string text = "kernel @k(%n: i8) {\n%v0 = sitofp %n : f16\n";
  for (int i = 0; i < 12; ++i)
    text += "%v" + std::to_string(i + 1) + " = fadd %v" + std::to_string(i) + ", %v" + std::to_string(i) + " : f16\n";
  std::unique_ptr<Module> m = test::parsed((text + "return\n}").c_str());
  EXPECT_GE(magnitude(named(*m, "v2")), 512);
  EXPECT_LE(magnitude(named(*m, "v2")), 560);
  EXPECT_TRUE(std::isinf(magnitude(named(*m, "v12"))));
}

} // namespace
