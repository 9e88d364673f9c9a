// Facts of named values in small kernels.
#include "ParsedIr.h"
#include "passes/AxisFacts.h"
#include <gtest/gtest.h>
#include <sstream>

using namespace tegula;
using namespace tegula::ir;

namespace {

const Value *findNamed(const Block &b, std::string_view name) {
  for (const Value *v : b.args)
    if (v->name == name)
      return v;
  for (const Op *op : b.ops) {
    for (const Value *v : op->results)
      if (v->name == name)
        return v;
    for (const Region *r : op->regions)
      if (const Value *v = findNamed(*r->block, name))
        return v;
  }
  return nullptr;
}

/// "c=8,1 v=16,4 s=1,8", axes separated by commas.
std::string text(const ValueFacts &f) {
  std::ostringstream c, v, s;
  for (size_t i = 0; i < f.axes.size(); ++i) {
    const char *sep = i ? "," : "";
    c << sep << f.axes[i].contiguity;
    v << sep << f.axes[i].divisibility;
    s << sep << f.axes[i].constancy;
  }
  return "c=" + c.str() + " v=" + v.str() + " s=" + s.str();
}

struct Row {
  const char *name, *facts;
};

void expectFacts(const char *source, std::initializer_list<Row> rows) {
  std::unique_ptr<Module> m = test::parsed(source);
  ASSERT_TRUE(m);
  AxisFacts facts(*m->kernel());
  for (const Row &r : rows) {
    const Value *v = findNamed(*m->kernel()->block(), r.name);
    ASSERT_TRUE(v) << r.name;
    EXPECT_EQ(text(facts.of(v)), r.facts) << r.name;
  }
}

TEST(AxisFacts, AddressesOfVectors) {
  expectFacts(R"(kernel @k(%p: ptr<f32> {divisibility = 16}, %n: i32 {divisibility = 16}) {
    %pid = program_id {axis = 0} : i32
    %size = const {value = 128} : i32
    %start = mul %pid, %size
    %s = splat %start : tensor<128xi32>
    %r = range {start = 0} : tensor<128xi32>
    %offs = add %s, %r
    %base = splat %p : tensor<128xptr<f32>>
    %ptrs = addptr %base, %offs
    %nn = splat %n : tensor<128xi32>
    %mask = cmpi %offs, %nn {pred = slt}
    %odd = range {start = 3} : tensor<128xi32>
    %podd = addptr %base, %odd
  })",
              {{"start", "c=1 v=128 s=1"},
               {"offs", "c=128 v=128 s=1"},
               {"ptrs", "c=128 v=16 s=1"},
               {"mask", "c=1 v=1 s=16"},
               {"podd", "c=128 v=4 s=1"}});
}

TEST(AxisFacts, TwoAxesAndDivision) {
  expectFacts(R"(kernel @k(%p: ptr<f16> {divisibility = 16}, %s: i32 {divisibility = 8}) {
    %r = range {start = 0} : tensor<64xi32>
    %row = expand_dims %r {axis = 0} : tensor<1x64xi32>
    %rows = broadcast %row : tensor<32x64xi32>
    %q = range {start = 0} : tensor<32xi32>
    %col = expand_dims %q {axis = 1} : tensor<32x1xi32>
    %ss = splat %s : tensor<32x1xi32>
    %cs = mul %col, %ss
    %cols = broadcast %cs : tensor<32x64xi32>
    %off = add %cols, %rows
    %b = splat %p : tensor<32x64xptr<f16>>
    %ptrs = addptr %b, %off
    %t = permute %ptrs {perm = [1, 0]} : tensor<64x32xptr<f16>>
    %sixteen = const {value = 16} : tensor<64xi32>
    %div = sdiv %r, %sixteen
    %rem = srem %r, %sixteen
    %flat = reshape %row : tensor<64x1xi32>
    %three = const {value = 3} : tensor<64xi32>
    %neg = sub %r, %sixteen
    %negdiv = sdiv %neg, %sixteen
    %four = const {value = 4} : tensor<64xi32>
    %shift = ashr %neg, %four
    %c2 = const {value = 2} : i32
    %half = sdiv %s, %c2
    %c3 = const {value = 3} : i32
    %third = sdiv %s, %c3
    %triple = mul %s, %c3
    %again = sdiv %triple, %c3
    %unsigned = udiv %triple, %c2
    %quarter = ashr %s, %c2
    %low = lshr %triple, %c2
  })",
              {{"rows", "c=1,64 v=1,1099511627776 s=32,1"},
               {"cs", "c=1,1 v=8,8 s=1,1"},
               {"off", "c=1,64 v=1,8 s=1,1"},
               {"ptrs", "c=1,64 v=2,16 s=1,1"},
               {"t", "c=64,1 v=16,2 s=1,1"},
               {"div", "c=1 v=1 s=16"},
               {"rem", "c=16 v=16 s=1"},
               {"flat", "c=64,1 v=1099511627776,1 s=1,1"},
               {"negdiv", "c=1 v=1 s=1"},
               {"shift", "c=1 v=1 s=16"},
               {"half", "c=1 v=4 s=1"},
               {"third", "c=1 v=1 s=1"},
               {"again", "c=1 v=8 s=1"},
               {"unsigned", "c=1 v=4 s=1"},
               {"quarter", "c=1 v=2 s=1"},
               {"low", "c=1 v=2 s=1"}});
}

/// Numbers that each stand for a block of elements, and rows that are taken apart: groups go with the last axis of each
/// run of axes.
TEST(AxisFacts, ReshapesKeepGroups) {
  expectFacts(R"(kernel @k(%p: ptr<i32>, %n: i32 {divisibility = 16}) {
    %r = range {start = 0} : tensor<16xi32>
    %b = splat %p : tensor<16xptr<i32>>
    %ptrs = addptr %b, %r
    %index = load %ptrs : tensor<16xi32>
    %col = expand_dims %index {axis = 1} : tensor<16x1xi32>
    %wide = broadcast %col : tensor<16x8xi32>
    %each = reshape %wide : tensor<128xi32>
    %halves = reshape %wide : tensor<32x4xi32>
    %pairs = reshape %each : tensor<4x4x8xi32>
    %stride = splat %n : tensor<128xi32>
    %start = mul %each, %stride
    %lane = range {start = 0} : tensor<128xi32>
    %eight = const {value = 8} : tensor<128xi32>
    %rest = srem %lane, %eight
    %offs = add %start, %rest
    %rows = reshape %offs : tensor<16x2x4xi32>
    %again = reshape %rows : tensor<128xi32>
    %any = reshape %offs {reorder = 1} : tensor<16x8xi32>
    %splat = splat %n : tensor<4x8xi32>
    %flat = reshape %splat : tensor<32xi32>
    %across = range {start = 0} : tensor<8xi32>
    %row = expand_dims %across {axis = 0} : tensor<1x8xi32>
    %same = broadcast %row : tensor<4x8xi32>
    %tiled = reshape %same : tensor<32xi32>
    %cut = reshape %same : tensor<4x2x1x4xi32>
  })",
              {{"each", "c=1 v=1 s=8"},
               {"halves", "c=1,1 v=1,1 s=2,4"},
               {"pairs", "c=1,1,1 v=1,1,1 s=1,1,8"},
               {"start", "c=1 v=16 s=8"},
               {"offs", "c=8 v=8 s=1"},
               {"rows", "c=1,1,4 v=1,1,4 s=1,1,1"},
               {"again", "c=4 v=4 s=1"},
               {"any", "c=1,1 v=1,1 s=1,1"},
               {"flat", "c=1 v=16 s=32"},
               {"tiled", "c=8 v=1099511627776 s=1"},
               {"cut", "c=1,1,1,4 v=1,1,1,4 s=4,1,1,1"}});
}

TEST(AxisFacts, LoopsAndHints) {
  expectFacts(R"(kernel @k(%p: ptr<f32> {divisibility = 16}, %n: i32, %stride: i32) {
    %zero = const {value = 0} : i64
    %izero = const {value = 0} : i32
    %one = const {value = 1} : i32
    %four = const {value = 4} : i64
    %r = range {start = 0} : tensor<64xi32>
    %b = splat %p : tensor<64xptr<f32>>
    %p0 = addptr %b, %r
    %e = for %izero, %n, %one, %zero : i64 (%i: i32, %off: i64) {
      %s = splat %off : tensor<64xi64>
      %ptrs = addptr %p0, %s
      %v = load %ptrs : tensor<64xf32>
      store %ptrs, %v
      %next = add %off, %four
      yield %next
    }
    %h = mul %stride, %one {divisibility = [32]}
    %hs = splat %h : tensor<64xi32>
    %w = add %r, %hs
    %g = mul %w, %w {contiguity = [8], divisibility = [8]}
  })",
              {{"off", "c=1 v=4 s=1"},
               {"ptrs", "c=64 v=16 s=1"},
               {"h", "c=1 v=32 s=1"},
               {"w", "c=64 v=32 s=1"},
               {"g", "c=8 v=8 s=1"}});
}

/// Division takes the parts of a grid that a program goes through for non-negative; their differences, and products
/// without a program, may be anything.
TEST(AxisFacts, PartsOfAGridAreDivided) {
  expectFacts(R"(kernel @k(%n: i32 {divisibility = 16}, %parts: i32, %rest: i32, %total: i32) {
    %pid = program_id {axis = 0} : i32
    %size = const {value = 64} : i32
    %r = range {start = 0} : tensor<64xi32>
    %nn = splat %n : tensor<64xi32>
    %few = mul %pid, %parts
    %more = smin %pid, %rest
    %first = add %few, %more
    %end = while %first : i32 (%now: i32) {
      %goes = cmpi %now, %total {pred = slt}
      condition %goes, %now
    } do (%at: i32) {
      %start = mul %at, %size
      %s = splat %start : tensor<64xi32>
      %offs = add %s, %r
      %rem = srem %offs, %nn
      %count = sub %total, %at
      %next = add %at, %count
      yield %next
    }
    %back = while %first : i32 (%now1: i32) {
      %goes1 = cmpi %now1, %total {pred = sgt}
      condition %goes1, %now1
    } do (%at1: i32) {
      %start1 = mul %at1, %size
      %s1 = splat %start1 : tensor<64xi32>
      %offs1 = add %s1, %r
      %rem1 = srem %offs1, %nn
      %next1 = add %at1, %parts
      yield %next1
    }
    %other = mul %parts, %rest
    %bytes = mul %other, %size
    %s2 = splat %bytes : tensor<64xi32>
    %offs2 = add %s2, %r
    %rem2 = srem %offs2, %nn
  })",
              {{"rem", "c=16 v=16 s=1"}, {"rem1", "c=1 v=1 s=1"}, {"rem2", "c=1 v=1 s=1"}});
}

/// A difference is not negative where the branches around say so, and may be anything elsewhere.
TEST(AxisFacts, DifferencesInBranches) {
  expectFacts(R"(kernel @k(%n: i32, %m: i32) {
    %pid = program_id {axis = 0} : i32
    %size = const {value = 64} : i32
    %seven = const {value = 7} : i32
    %back = const {value = -7} : i32
    %further = const {value = -8} : i32
    %r = range {start = 0} : tensor<64xi32>
    %parts = const {value = 256} : tensor<64xi32>
    %small = cmpi %pid, %n {pred = slt} : i1
    if %small {
      %less = sub %pid, %n : i32
      %less.start = mul %less, %size : i32
      %less.s = splat %less.start : tensor<64xi32>
      %less.offs = add %less.s, %r
      %less.q = sdiv %less.offs, %parts
      yield
    } else {
      %more = sub %pid, %n : i32
      %more.start = mul %more, %size : i32
      %more.s = splat %more.start : tensor<64xi32>
      %more.offs = add %more.s, %r
      %more.q = sdiv %more.offs, %parts
      %other = sub %pid, %m : i32
      %other.start = mul %other, %size : i32
      %other.s = splat %other.start : tensor<64xi32>
      %other.offs = add %other.s, %r
      %other.q = sdiv %other.offs, %parts
      yield
    }
    %large = cmpi %pid, %seven {pred = sge} : i1
    %both = and %small, %large : i1
    if %both {
      %after = add %pid, %back : i32
      %after.start = mul %after, %size : i32
      %after.s = splat %after.start : tensor<64xi32>
      %after.offs = add %after.s, %r
      %after.q = sdiv %after.offs, %parts
      %far = add %pid, %further : i32
      %far.start = mul %far, %size : i32
      %far.s = splat %far.start : tensor<64xi32>
      %far.offs = add %far.s, %r
      %far.q = sdiv %far.offs, %parts
      yield
    } else {
      yield
    }
    %later = sub %pid, %n : i32
    %later.start = mul %later, %size : i32
    %later.s = splat %later.start : tensor<64xi32>
    %later.offs = add %later.s, %r
    %later.q = sdiv %later.offs, %parts
  })",
              {{"less.q", "c=1 v=1 s=1"},
               {"more.q", "c=1 v=1 s=64"},
               {"other.q", "c=1 v=1 s=1"},
               {"after.q", "c=1 v=1 s=64"},
               {"far.q", "c=1 v=1 s=1"},
               {"later.q", "c=1 v=1 s=1"}});
}

/// A nest of loops costs a few visits a loop: were it their product, this would never end.
TEST(AxisFacts, DeepNestsOfLoops) {
  std::string open, close;
  for (int i = 0; i < 60; ++i) {
    std::string n = std::to_string(i), outer = i ? "%a" + std::to_string(i - 1) : "%eight";
    open += "%r" + n + " = for %izero, %n, %one, " + outer + " : i64 (%i" + n + ": i32, %a" + n + ": i64) {\n";
  }
  close = "%next = add %a59, %four\nyield %next\n}\n";
  for (int i = 58; i >= 0; --i)
    close += "yield %r" + std::to_string(i + 1) + "\n}\n";
  std::string kernel = "kernel @k(%p: ptr<f32> {divisibility = 16}, %n: i32) {\n"
                       "%izero = const {value = 0} : i32\n%one = const {value = 1} : i32\n"
                       "%four = const {value = 4} : i64\n%eight = const {value = 8} : i64\n" +
                       open + close + "}\n";
  expectFacts(kernel.c_str(),
              {{"a0", "c=1 v=4 s=1"}, {"a59", "c=1 v=4 s=1"}, {"r0", "c=1 v=4 s=1"}, {"next", "c=1 v=4 s=1"}});
}

} // namespace
