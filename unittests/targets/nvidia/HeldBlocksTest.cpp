// How many blocks and CTAs hold rows that loops read again, and the forms that say so.
#include "targets/nvidia/occupancy/HeldBlocks.h"
#include "../../ParsedIr.h"
#include "targets/nvidia/Nvidia.h"

using namespace tegula;
using namespace tegula::nvidia;

namespace {

TEST(HeldBlocks, FormsAreNumbers) {
  const auto isSame = [](const FormCode &a) {
    const FormCode b = FormCode::of(a.pack());
    return a.pack() && a.blocks == b.blocks && a.limit == b.limit && a.ctas == b.ctas && a.loadsAhead == b.loadsAhead;
  };
  for (const bool ahead : {false, true})
    for (unsigned limit = 0; limit <= mostLimited; ++limit) {
      for (unsigned blocks = 0; blocks <= (limit ? limit : 32); ++blocks)
        EXPECT_TRUE(isSame({blocks, limit, 1, ahead})) << blocks << " " << limit;
      for (unsigned ctas = 2; limit && ctas <= 16; ctas *= 2)
        EXPECT_TRUE(isSame({limit, limit, ctas, ahead})) << limit << " " << ctas;
    }
}

TEST(HeldBlocks, AsFewCtasAsHoldTheRow) {
  const HeldIterations wide{16 << 10, false, 1}, narrow{8 << 10, true, 1};
  const auto of = [](const HeldIterations &it, uint64_t kib, uint64_t programs = 0, unsigned most = 16) {
    return blocksThatHold(it, static_cast<int64_t>((kib << 10) / it.bytes), 8, programs, most);
  };
  EXPECT_EQ(of(wide, 64), (Holding{3, 1}));
  EXPECT_EQ(of(wide, 128), (Holding{2, 1}));                     // seven eighths
  EXPECT_EQ(of({16 << 10, false, 2}, 128), (Holding{3, 2}));     // of which two loops load the rest again
  EXPECT_EQ(of(wide, 256), (Holding{3, 4}));
  EXPECT_EQ(of(wide, 1024), (Holding{3, 16}));
  EXPECT_EQ(of(wide, 1024, 0, 8), (Holding{2, 8}));
  EXPECT_EQ(of(wide, 256, 0, 1), (Holding{0, 1}));
  EXPECT_EQ(of(wide, 4096), (Holding{0, 1}));
  EXPECT_EQ(of(narrow, 128), (Holding{6, 4}));                   // 48 warps
  // a thread has 32 elements of an iteration
  EXPECT_EQ(blocksThatHold({32 << 10, true, 1}, 4, 16, 0, 16), (Holding{2, 1}));
  EXPECT_EQ(blocksThatHold({64 << 10, true, 1}, 2, 32, 0, 16), (Holding{0, 1}));
  EXPECT_EQ(blocksThatHold({64 << 10, false, 1, 64}, 8, 16, 0, 16), (Holding{2, 8}));
  // two blocks have 64 registers for 96: one, of which two CTAs hold three of four iterations
  EXPECT_EQ(blocksThatHold({64 << 10, false, 1, 96}, 8, 16, 0, 16), (Holding{1, 2}));
  EXPECT_EQ(of(wide, 128, 1), (Holding{0, 1}));                  // few programs, whose row one CTA has room for
  EXPECT_EQ(of(wide, 512, 1), (Holding{3, 8}));
}

// Whoever refuses clusters gets none, whatever form was asked for before.
TEST(HeldBlocks, RefusedClusters) {
  const auto m = test::parsed(R"(kernel @sum(%x: ptr<f32> {divisibility = 16}, %y: ptr<f32> {divisibility = 16}, %n: i32 {divisibility = 16}) {
  %zero = const {value = 0} : i32
  %step = const {value = 1024} : i32
  %pid = program_id {axis = 0} : i32
  %o = mul %pid, %n : i32
  %row = addptr %x, %o : ptr<f32>
  %init = const {value = 0.0} : tensor<1024xf32>
  %i = range {start = 0} : tensor<1024xi32>
  %px = splat %row : tensor<1024xptr<f32>>
  %sums = for %zero, %n, %step, %init : tensor<1024xf32> (%at: i32, %acc: tensor<1024xf32>) {
    %ats = splat %at : tensor<1024xi32>
    %c = add %ats, %i : tensor<1024xi32>
    %p = addptr %px, %c : tensor<1024xptr<f32>>
    %v = load %p : tensor<1024xf32>
    %next = fadd %acc, %v : tensor<1024xf32>
    yield %next
  }
  %sum = reduce %sums {axis = 0} : f32 (%l: f32, %r: f32) {
    %add = fadd %l, %r : f32
    yield %add
  }
  %py = splat %y : tensor<1024xptr<f32>>
  %totals = splat %sum : tensor<1024xf32>
  for %zero, %n, %step (%at2: i32) {
    %ats = splat %at2 : tensor<1024xi32>
    %c = add %ats, %i : tensor<1024xi32>
    %p = addptr %px, %c : tensor<1024xptr<f32>>
    %v = load %p : tensor<1024xf32>
    %w = fmul %v, %totals : tensor<1024xf32>
    %q = addptr %py, %c : tensor<1024xptr<f32>>
    store %q, %w
    yield
  }
  return
}
)");
  for (const gpu::Clusters clusters : {gpu::Clusters::ByCost, gpu::Clusters::Never}) {
    targets::Options options;
    options.clusters = clusters;
    options.facts.form = FormCode{.blocks = 4, .limit = 4, .ctas = 4}.pack();
    DiagEngine diag;
    const std::optional<std::string> text = emitStage(*m, *parseTarget("sm_90a"), options, Stage::Gpu, diag);
    ASSERT_TRUE(text) << renderAll(diag);
    EXPECT_EQ(text->find("cluster_rank") != std::string::npos, clusters == gpu::Clusters::ByCost);
  }
}

} // namespace
