// The model's time of a launch on a GPU: the clocks of each unit of a multiprocessor for one block, the time of one
// block alone (chained latencies), the sharing of a multiprocessor by blocks, and the time of memory and L2 for all of
// them. Constants were fitted to sweeps on an H100 and an H200 within the bounds of published data about these devices
// (docs/autotuning.md); capability-specific numbers are in Ceilings.h.
#include "tune/Model.h"
#include "tune/Overlap.h"
#include <algorithm>
#include <cmath>

namespace tegula::tune {

namespace {
// ---- latencies, in clocks
constexpr double memoryLatency = 1000;  // of a load that comes from device memory while others load, too
constexpr double l2Latency = 230, l1Latency = 33; // measured by others with dependent loads
constexpr double startOfBlock = 550;    // parameters, indices, the first instruction's fetch; its end
constexpr double meeting = 160;         // a reduction: shuffles, shared memory, a barrier
constexpr double dotLatency = 80;       // until the next dot can use the result
// of a pipelined loop: waiting for its copies, a barrier, issuing the dot and the next copies
constexpr double iteration = 340;
constexpr double copyLatency = 640;     // until the first bytes of a loop's copies arrive
constexpr double copyBytes = 38;        // that arrive in a clock from then on
constexpr double ownBytes = 48;         // that a multiprocessor receives if no other one loads
constexpr double launchNs = 2500;
// of the whole device, started: a sum of 2^26 elements by blocks of 128 takes 1.1 clocks a block with 1, 2 and 4 warps
constexpr double blocksPerClock = 0.9;
// ---- instructions of a thread
constexpr double ofThread = 24, ofTrip = 12, ofScalar = 0.22;
constexpr double clocksPerInstruction = 1.5; // of a warp whose instructions wait for each other
// ---- memory
constexpr double reached = 0.87;        // of the data sheet's bandwidth
// additional time if every sector is a separate run: rows of memory are opened for 32 bytes
constexpr double shortRuns = 0.3;

double threadsOf(const Demand &d) { return std::max(d.threads, 32.0); }

/// Does a block's dot use wgmma?
bool isWide(const Demand &d, const GpuCeilings &gpu) {
  return gpu.capability == 90 && d.threads >= 128 && d.dotM * d.ctas >= 64 && d.dotK > 0;
}

/// How many times operands are read from shared memory.
double operandReads(const Demand &d, const GpuCeilings &gpu) {
  double m = std::max(d.dotM, 1.0), n = std::max(d.dotN, 1.0);
  if (isWide(d, gpu)) return std::ceil(m / 64) * std::ceil(n / 256) * (64 + std::min(n, 256.0)) / (m + n);
  // Warps form a grid of approximately square parts.
  double warps = std::max(d.threads / 32, 1.0), alongM = 1;
  while (alongM < warps && m / alongM > n / (warps / alongM)) alongM *= 2;
  return (m * (warps / alongM) + n * alongM) / (m + n);
}

/// Clocks of one block on a multiprocessor, by unit.
struct Units {
  double issue = 0, tensor = 0, shared = 0, l1 = 0;
  double thread = 0; // instructions of one thread
  double busy() const { return overlapped({issue, tensor, shared, l1}); }
};

Units unitsOf(const Demand &d, const GpuCeilings &gpu) {
  Units u;
  double threads = threadsOf(d);
  // Threads beyond a tile's elements repeat the work of others.
  double again = d.tile > 0 ? std::max(1.0, threads / d.tile) : 1, lanes = d.lanes * again;
  // In lanes of a multiprocessor: an instruction of a warp takes 32.
  double integer = (d.integer + 2.5 * d.wide + 0.6 * d.index + 16 * d.intDivide) * again + 3 * lanes + 2.5 * d.copies;
  double single = (d.single + 7 * d.divide + 1.5 * d.reduce) * again + 0.9 * d.fma32;
  double special = (d.special + d.divide + d.intDivide) * again, convert = 1.7 * d.convert * again,
         twice = d.twice * again;
  double other = d.half * again + convert + 2.4 * d.exchange + lanes + d.copies +
                 (ofScalar * d.scalar + ofThread + ofTrip * d.trips) * threads;
  double all = integer + single + special + other + twice;
  u.issue = overlapped({all / 128, integer / gpu.int32, single / gpu.fp32, special / gpu.special,
                        d.convert * again / 64, twice / gpu.fp64});
  u.thread = all / threads;
  double rate = isWide(d, gpu) ? 0.85 : gpu.capability == 90 ? 0.4 : 0.9;
  u.tensor = (d.fma16 / gpu.mma16 + d.fma8 / gpu.mma8 + d.fmaTf32 / gpu.mmaTf32) / rate + d.fma64 / gpu.fp64;
  // Computed operands that are rows of the result stay in registers; other computed operands are written to shared
  // memory, as loaded ones are.
  double written = d.operandBytes - d.registerBytes;
  if (d.fma32 > 0) {
    // Each thread reads the rows and columns of its part, which is about square; lanes that read the same data partly
    // share a read.
    double reads = 2 * std::sqrt(std::max(d.dotM * d.dotN * threads, 1.0)) / std::max(d.dotM + d.dotN, 1.0);
    u.shared = (written + 8 * d.exchange) / 128 + d.operandBytes * reads / 220;
  } else {
    u.shared = (written * operandReads(d, gpu) + written + 8 * d.exchange) / 128;
  }
  double spills = 2 * d.spillBytes * threads * (1 + d.trips);
  u.l1 = (d.loadBytes + d.storeBytes) / 64 + 0.7 * spills / 16 + 8 * d.atomics / 32;
  for (double *x : {&u.issue, &u.tensor, &u.shared, &u.l1}) *x /= std::max(d.ctas, 1.0);
  return u;
}

/// The bytes that the launch moves, by source.
struct Traffic {
  double memoryBytes = 0, l2Bytes = 0;
  double missesL1 = 0, missesL2 = 0; // of the data that a program loads again
};

Traffic trafficOf(const Demand &d, const GpuCeilings &gpu, double blocks, double total) {
  Traffic t;
  double l2 = static_cast<double>(gpu.l2Bytes);
  // Data that a program loads again, in another pass over its row, say, is still cached if the rows of all blocks that
  // run at the same time fit. The L1 cache is the rest of its memory (28 KiB more than the maximum of shared memory)
  // after the blocks' shared memory.
  constexpr double l1Rest = 28 * 1024, l1Used = 0.33, l2Used = 0.4, l2Width = 0.65;
  double l1 = std::max(gpu.sharedBytes + l1Rest - blocks * (d.sharedBytes + 1024), 1.0);
  t.missesL1 = std::clamp((blocks * d.keptBytes - l1Used * l1) / ((1 - l1Used) * l1), 0.0, 1.0);
  double inFlight = std::min(blocks * gpu.cores, total) * d.keptBytes;
  t.missesL2 = t.missesL1 * std::clamp((inFlight - l2Used * l2) / (l2Width * l2), 0.0, 1.0);
  // Data loaded by several programs comes from memory once, unless the launch's memory exceeds the L2 cache.
  double streamed = std::max(d.freshBytes * d.programs, d.uniqueBytes),
         miss = std::clamp((d.uniqueBytes - 0.3 * l2) / (0.8 * l2), 0.0, 1.0);
  t.memoryBytes = d.uniqueBytes + (streamed - d.uniqueBytes) * miss + d.programs * d.againBytes * t.missesL2;
  t.l2Bytes = d.programs * (d.loadBytes + d.storeBytes - d.againBytes * (1 - t.missesL1));
  return t;
}

/// Clocks from the start to the end of a block that is alone on its multiprocessor.
double chainOf(const Demand &d, const GpuCeilings &gpu, const Units &u, const Traffic &t, double total) {
  double alone = std::max(u.busy(), u.thread * clocksPerInstruction);
  double again = l1Latency + t.missesL1 * (l2Latency - l1Latency) + t.missesL2 * (memoryLatency - l2Latency);
  double trips = (d.rounds - d.again) * memoryLatency + d.again * again;
  // Awaited data must arrive at the block's share of the bandwidth. Warps that never synchronize wait only for their
  // own part.
  double moved = std::max(d.programs * (d.loadBytes + d.storeBytes), 1.0),
         fromMemory = std::min(1.0, t.memoryBytes / moved);
  double active = std::min(total, static_cast<double>(gpu.cores)) * gpu.clockGhz;
  double share = 1 / (fromMemory / (reached * gpu.memoryGBs / active) + (1 - fromMemory) / (gpu.l2GBs / active));
  double parts = d.barriers + d.pipelined > 0 ? 1 : std::max(d.threads / 32, 1.0);
  double through =
      ((d.rounds - d.again) * d.burst + d.storeBytes) / std::max(d.ctas, 1.0) / parts / std::min(ownBytes, share);
  // Loops with copies in flight ahead wait for a part of a round trip; others wait in each iteration for a round trip
  // and its data.
  double trip = copyLatency + d.iterationBytes / copyBytes, compute = alone;
  if (d.depth >= 1)
    compute = overlapped({alone, d.pipelined * (iteration + trip / d.depth)}, 6);
  else
    trips += d.pipelined * (iteration + 1.4 * (copyLatency + trip));
  return startOfBlock + trips + through + compute + dotLatency * d.dotChain + meeting * d.barriers;
}
} // namespace

Estimate gpuTime(const Demand &d, const GpuCeilings &gpu) {
  Estimate e;
  e.demand = d;
  double blocks = std::max(d.blocks, 1.0), total = d.programs * std::max(d.ctas, 1.0), clock = gpu.clockGhz;
  const Units u = unitsOf(d, gpu);
  const Traffic t = trafficOf(d, gpu, blocks, total);
  double chain = chainOf(d, gpu, u, t, total);
  // Blocks that share a multiprocessor: its units serve all of them, latencies overlap.
  auto together = [&](double b) { return b <= 0 ? 0 : overlapped({b * u.busy(), chain}, 6); };
  double most = std::ceil(total / gpu.cores), full = std::floor(most / blocks);
  double core =
      std::max(full * together(blocks) + together(most - full * blocks), std::max(1.0, d.imbalance) * chain) / clock;
  double sectors = std::min(1.0, 32 * d.pieces / std::max(d.loadBytes + d.storeBytes, 1.0));
  double memory = t.memoryBytes / (reached * gpu.memoryGBs) * (1 + shortRuns * sectors);
  double cache = t.l2Bytes / (1.15 * gpu.l2GBs);
  double updates = d.programs * d.atomics * std::max(1.0, d.clash / 8) / (gpu.cores * clock * 4);
  double started = total / blocksPerClock / clock;
  e.ns = launchNs + overlapped({overlapped({core, memory, cache, updates}), started}, 16);
  double perCore = total / gpu.cores / clock;
  e.parts = {{"launch", launchNs},
             {"memory", memory},
             {"L2", cache},
             {"atomics", updates},
             {"starting blocks", started},
             {"tensor cores", perCore * u.tensor},
             {"instructions", perCore * u.issue},
             {"shared memory", perCore * u.shared},
             {"L1", perCore * u.l1},
             {"latency", std::ceil(most / blocks) * chain / clock},
             {"multiprocessors", core}};
  return e;
}

Estimate estimateGpu(const runtime::KernelInfo &info, runtime::GpuUse use, const Launch &launch,
                     const GpuCeilings &gpu) {
  constexpr uint32_t ordinary = 96;
  uint32_t shared = std::max(use.sharedBytes, info.gpu.sharedBytes);
  uint32_t fit = blocksPerCore(gpu, info.gpu.threads, use.registers ? use.registers : ordinary, shared);
  double blocks = std::max(use.blocksPerCore ? use.blocksPerCore : fit, 1u);
  Machine m;
  m.inFlight = std::max(1.0, blocks * gpu.cores / std::max(info.gpu.clusterCtas, 1u));
  Demand d = demandOf(info, use, launch, m);
  d.blocks = blocks;
  return gpuTime(d, gpu);
}

} // namespace tegula::tune
