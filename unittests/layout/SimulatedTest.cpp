// Conversion plans on the GPU simulator: its race detector, its matrix moves and its bank counter are independent of
// the planner.
#include "KernelLayouts.h"
#include "Rounds.h"
#include "abi/SimAbi.h"
#include "layout/Follow.h"
#include "sim/Machine.h"
#include <cstring>
#include <gtest/gtest.h>

using namespace tegula::layout;
using tegula::layout::test::Random;
using tegula::layout::test::someLayout;
using tegula::test::rounds;
namespace sim = tegula::sim;

namespace {

/// One conversion, and what the threads found wrong.
struct Task {
  LinearLayout src, dst;
  ConversionPlan plan;
  unsigned elemBits, wrong = 0;
};

/// A value that tells elements apart, cut to the width of an element.
uint64_t valueOf(uint64_t element, unsigned bits) {
  uint64_t h = (element + 1) * 0x9e3779b97f4a7c15u;
  h ^= h >> 29;
  return bits == 64 ? h : h & ((uint64_t{1} << bits) - 1);
}

using Values = std::vector<uint64_t>;

/// One GPU thread that follows a plan.
class Thread {
public:
  Thread(TegulaSimThread *t, Task &task) : t_(t), task_(task), bytes_(task.elemBits / 8) {
    auto tid = static_cast<uint32_t>(tegula_sim_sreg(t, TEGULA_SREG_TID));
    lane_ = tid % 32;
    warp_ = tid / 32;
    block_ = static_cast<uint32_t>(tegula_sim_sreg(t, TEGULA_SREG_CLUSTER_CTARANK));
    for (uint64_t r = 0; r < static_cast<uint64_t>(task.src.inSize(Dim::Register)); ++r)
      in_.push_back(expected(task.src, r));
  }

  void run() {
    std::vector<uint64_t> out = followPlan(task_.plan, std::span<const uint64_t>(in_), *this);
    // Nobody leaves while others read its memory.
    if (task_.plan.scope == ExchangeScope::Cluster)
      barrier(ExchangeScope::Cluster);
    for (uint64_t r = 0; r < static_cast<uint64_t>(task_.dst.inSize(Dim::Register)); ++r)
      task_.wrong += out.at(r) != expected(task_.dst, r);
  }

  // The steps of a plan.
  uint64_t pack(std::span<const uint64_t> elements) {
    uint64_t word = 0;
    for (size_t j = 0; j < elements.size(); ++j)
      word |= elements[j] << (j * task_.elemBits);
    return word;
  }
  Values unpack(uint64_t word, size_t n) {
    Values v;
    for (size_t j = 0; j < n; ++j)
      v.push_back(word >> (j * task_.elemBits) & (~uint64_t{0} >> (64 - task_.elemBits)));
    return v;
  }
  uint64_t select(const ThreadBit &when, uint64_t ifSet, uint64_t ifClear) {
    return when.at(lane_, warp_, block_) ? ifSet : ifClear;
  }
  uint64_t shuffle(uint64_t word, const ThreadMap &sourceLane, uint32_t laneXor) {
    auto from = static_cast<int32_t>(sourceLane.at(lane_, warp_, block_) ^ laneXor);
    uint64_t low = tegula_sim_shfl(t_, site_++, TEGULA_SHFL_IDX, ~0u, static_cast<uint32_t>(word), from), high = 0;
    if (task_.elemBits == 64)
      high = tegula_sim_shfl(t_, site_++, TEGULA_SHFL_IDX, ~0u, static_cast<uint32_t>(word >> 32), from);
    return low | high << 32;
  }
  void barrier(ExchangeScope scope) {
    if (scope == ExchangeScope::Cluster) {
      tegula_sim_cluster_arrive(t_, site_, 0);
      tegula_sim_cluster_wait(t_, site_++);
    } else if (scope == ExchangeScope::Cta) {
      tegula_sim_bar_sync(t_, site_++, 0, 0);
    } else {
      tegula_sim_syncwarp(t_, site_++, ~0u);
    }
  }
  void store(const SharedSide &side, const SharedAccess &a, std::span<const uint64_t> values) {
    alignas(16) uint8_t packed[16] = {};
    for (size_t j = 0; j < values.size(); ++j)
      std::memcpy(packed + j * bytes_, &values[j], bytes_);
    bool guarded = ((lane_ & side.guard.lane) | (warp_ & side.guard.warp)) != 0;
    int32_t site = site_++;
    if (side.move == SharedMove::Plain) {
      tegula_sim_st_shared(t_, site, address(side, a), static_cast<int32_t>(values.size() * bytes_), !guarded, packed);
    } else if (!guarded) {
      uint32_t words[4];
      std::memcpy(words, packed, 16);
      tegula_sim_stmatrix(t_, site, address(side, a), static_cast<int32_t>(side.matrices),
                          side.move == SharedMove::MatrixTrans, words);
    }
  }
  Values load(const SharedSide &side, const SharedAccess &a) {
    alignas(16) uint8_t packed[16] = {};
    size_t n = a.registers.size();
    int32_t site = site_++;
    if (side.move == SharedMove::Plain) {
      tegula_sim_ld_shared(t_, site, address(side, a), static_cast<int32_t>(n * bytes_), 1, packed);
    } else {
      uint32_t words[4];
      tegula_sim_ldmatrix(t_, site, address(side, a), static_cast<int32_t>(side.matrices),
                          side.move == SharedMove::MatrixTrans, words);
      std::memcpy(packed, words, 16);
    }
    Values v(n);
    for (size_t j = 0; j < n; ++j)
      std::memcpy(&v[j], packed + j * bytes_, bytes_);
    return v;
  }

private:
  uint64_t expected(const LinearLayout &l, uint64_t r) const {
    auto clip = [&](Dim d, uint64_t v) { return l.ins().flat(d, v & (static_cast<uint64_t>(l.inSize(d)) - 1)); };
    return valueOf(
        l.apply(clip(Dim::Register, r) | clip(Dim::Lane, lane_) | clip(Dim::Warp, warp_) | clip(Dim::Block, block_)),
        task_.elemBits);
  }

  uint32_t address(const SharedSide &side, const SharedAccess &a) const {
    uint32_t owner = side.block.block.empty() ? block_ : side.block.at(lane_, warp_, block_) ^ a.blockXor;
    return owner << 24 | (sim::sharedBase + (side.base.at(lane_, warp_, block_) ^ a.offset) * bytes_);
  }

  TegulaSimThread *t_;
  Task &task_;
  uint32_t bytes_, lane_, warp_, block_;
  int32_t site_ = 0;
  Values in_;
};

void entry(TegulaSimThread *t, const void *args) { Thread(t, **static_cast<Task *const *>(args)).run(); }

void simulate(const LinearLayout &src, const LinearLayout &dst, unsigned elemBits,
              const ConversionOptions &options = {}) {
  Task task{src, dst, planConversion(src, dst, elemBits, options), elemBits};
  const ConversionPlan &plan = task.plan;
  auto warps = static_cast<unsigned>(std::max(src.inSize(Dim::Warp), dst.inSize(Dim::Warp)));
  Task *pointer = &task;
  sim::LaunchConfig config;
  config.entry = entry;
  config.args = &pointer;
  config.threads = 32 * warps;
  config.clusterCtas = static_cast<unsigned>(std::max(src.inSize(Dim::Block), dst.inSize(Dim::Block)));
  config.sharedBytes = std::max(plan.cost.bytes, 16u);
  config.countBanks = true;
  sim::Report report = sim::launch(config);
  std::string what = plan.print() + "\nsrc " + src.print() + "\ndst " + dst.print();
  EXPECT_FALSE(report.fault) << report.fault.text << "\n" << what;
  EXPECT_EQ(task.wrong, 0u) << what;
  uint64_t conflicts = 0;
  for (auto kind :
       {sim::SharedAccess::Load, sim::SharedAccess::Store, sim::SharedAccess::Ldmatrix, sim::SharedAccess::Stmatrix})
    conflicts += report.counters[kind].conflicts;
  uint64_t promised = uint64_t{plan.cost.conflicts} * warps * config.clusterCtas;
  bool everybodyStores = plan.shared.store.guard.lane == 0 && plan.shared.store.guard.warp == 0;
  if (everybodyStores)
    EXPECT_EQ(conflicts, promised) << what;
  else
    EXPECT_LE(conflicts, promised) << what;
  EXPECT_EQ(report.counters[sim::Instr::Shuffle], uint64_t{plan.cost.shuffles} * warps * config.clusterCtas) << what;
}

TEST(Simulated, KernelLayouts) {
  Random rnd(31);
  for (uint64_t k = 0; k < rounds(250) && !testing::Test::HasFailure(); ++k) {
    Extents shape{int64_t{8} << rnd.below(4), int64_t{8} << rnd.below(4)};
    unsigned warps = 1u << rnd.below(4), elemBits = 8u << rnd.below(4);
    ConversionOptions options;
    options.shuffles = rnd.chance(70);
    if (rnd.chance(20))
      options.maxBytes = 1024;
    simulate(someLayout(rnd, shape, warps, elemBits), someLayout(rnd, shape, warps, elemBits), elemBits, options);
  }
}

TEST(Simulated, RandomLayouts) {
  Random rnd(32);
  for (uint64_t k = 0; k < rounds(250) && !testing::Test::HasFailure(); ++k) {
    DimList outs{{Dim::Dim1, static_cast<uint8_t>(rnd.below(6))}, {Dim::Dim0, static_cast<uint8_t>(rnd.below(5))}};
    unsigned warpBits = static_cast<unsigned>(rnd.below(3));
    LinearLayout a = rnd.distributed(outs, 5, warpBits, rnd.chance(30)),
                 b = rnd.distributed(outs, 5, warpBits, rnd.chance(30));
    simulate(a, b, 8u << rnd.below(4));
  }
}

TEST(Simulated, Clusters) {
  WarpGrid grid{2, 1, 1};
  LinearLayout rows = overBlocks(dealt({32, 64}, {1, 0}, 4, {32, 2}), {2, 1}, {1, 0});
  LinearLayout columns = overBlocks(mmaAccumulator({64, 32}, grid), {1, 2}, {1, 0});
  for (unsigned elemBits : {8u, 16u, 32u, 64u}) {
    simulate(rows, columns, elemBits);
    simulate(columns, rows, elemBits);
  }
}

} // namespace
