// See Model.h. Constants without a source beside them were fitted to measured times (docs/autotuning.md).
#include "tune/Model.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tegula::tune {

namespace {
/// Causes that overlap, but not perfectly: a little more than the largest.
double overlapped(std::initializer_list<double> parts, double power = 4) {
  double most = 0, sum = 0;
  for (double p : parts) most = std::max(most, p);
  if (most <= 0) return 0;
  for (double p : parts) sum += std::pow(std::max(p, 0.0) / most, power);
  return most * std::pow(sum, 1 / power);
}

// ---- GPU

/// Clocks of one program on a multiprocessor, by unit.
struct Units {
  double issue = 0, tensor = 0, shared = 0, l1 = 0;
  double busy() const { return overlapped({issue, tensor, shared, l1}); }
};

/// Does a block's dot go to the warpgroup's unit?
bool isWide(const Demand &d, const GpuCeilings &gpu) { return gpu.capability == 90 && d.threads >= 128 && d.dotM * d.ctas >= 64 && d.dotK > 0; }

/// How often operands are read from shared memory, in times of their size.
double operandReads(const Demand &d, const GpuCeilings &gpu) {
  double m = std::max(d.dotM, 1.0), n = std::max(d.dotN, 1.0);
  if (isWide(d, gpu)) return std::ceil(m / 64) * std::ceil(n / 256) * (64 + std::min(n, 256.0)) / (m + n);
  // Warps stand in a grid whose parts are about square.
  double warps = std::max(d.threads / 32, 1.0), alongM = 1;
  while (alongM < warps && m / alongM > n / (warps / alongM)) alongM *= 2;
  return (m * (warps / alongM) + n * alongM) / (m + n);
}

Units unitsOf(const Demand &d, const GpuCeilings &gpu) {
  Units u;
  // Of the lanes of a multiprocessor: an instruction of a warp takes 32.
  double integer = d.integer + 2.5 * d.wide + 0.35 * d.index + 3 * d.lanes + 5 * d.copies + 16 * d.intDivide;
  double single = d.single + 7 * d.divide + d.fma32 / 0.7 + d.reduce;
  double half = d.half, special = d.special + d.divide + d.intDivide;
  double other = d.convert + 3 * d.exchange + d.lanes + d.copies + 0.3 * d.reduce + 0.25 * d.scalar * std::max(d.threads, 32.0);
  double all = integer + single + half + special + other + d.twice;
  u.issue = overlapped({all / 128, integer / gpu.int32, single / gpu.fp32, special / gpu.special, d.convert / 64, d.twice / gpu.fp64});
  double rate = isWide(d, gpu) ? 0.8 : gpu.capability == 90 ? 0.6 : 0.9;
  u.tensor = (d.fma16 / gpu.mma16 + d.fma8 / gpu.mma8 + d.fmaTf32 / gpu.mmaTf32) / rate + d.fma64 / gpu.fp64;
  // Computed operands that are rows of the result stay in registers; others are written to shared memory, as those that are loaded are.
  double written = d.operandBytes - d.registerBytes;
  u.shared = (written * operandReads(d, gpu) + written + 8 * d.exchange) / 128;
  double spills = 2 * d.spillBytes * d.threads * (1 + d.trips);
  u.l1 = (d.loadBytes + d.storeBytes + spills) / 64 + 8 * d.atomics / 32;
  for (double *x : {&u.issue, &u.tensor, &u.shared, &u.l1}) *x /= std::max(d.ctas, 1.0);
  return u;
}

struct Rounds {
  double full, rest; // rounds of all blocks; blocks of the last one
};

} // namespace

Estimate gpuTime(const Demand &d, const GpuCeilings &gpu) {
  Estimate e;
  e.demand = d;
  const double latency = 700, start = 900, clock = gpu.clockGhz, launch = 2500;
  double ctas = std::max(d.ctas, 1.0), blocks = std::max(d.blocks, 1.0), total = d.programs * ctas;
  Units u = unitsOf(d, gpu);
  double warps = std::max(d.threads / 32, 1.0), alone = u.busy();
  // One block does not fill the units: a warp issues every other clock at best, and has a quarter of the multiprocessor.
  alone = std::max(alone, u.issue * 4 / std::min(4.0, warps * 0.6));
  double waits = d.rounds * latency + (d.depth >= 1 ? std::max(0.0, d.pipelined * latency / d.depth - alone) : 0);
  double chain = start + waits + alone + 90 * d.dots + 60 * d.barriers;
  auto together = [&](double b) { return b <= 0 ? 0 : overlapped({b * u.busy(), chain}, 8); };
  double most = std::ceil(total / gpu.cores), full = std::floor(most / blocks);
  double core = std::max(full * together(blocks) + together(most - full * blocks), std::max(1.0, d.imbalance) * chain) / clock;
  double streamed = std::max(d.freshBytes * d.programs, d.uniqueBytes), l2 = static_cast<double>(gpu.l2Bytes);
  double miss = std::clamp((d.uniqueBytes - 0.4 * l2) / (0.8 * l2), 0.0, 1.0);
  double memory = (d.uniqueBytes + (streamed - d.uniqueBytes) * miss) / (0.87 * gpu.memoryGBs);
  double cache = d.programs * (d.loadBytes + d.storeBytes) / gpu.l2GBs;
  double updates = d.programs * d.atomics * std::max(1.0, d.clash / 8) / (gpu.cores * clock * 4);
  e.ns = launch + overlapped({core, memory, cache, updates}, 6);
  double perCore = total / gpu.cores / clock;
  e.parts = {{"launch", launch},
             {"memory", memory},
             {"L2", cache},
             {"atomics", updates},
             {"tensor cores", perCore * u.tensor},
             {"instructions", perCore * u.issue},
             {"shared memory", perCore * u.shared},
             {"L1", perCore * u.l1},
             {"latency", std::ceil(most / blocks) * chain / clock},
             {"multiprocessors", core}};
  return e;
}

Estimate estimateGpu(const runtime::KernelInfo &info, runtime::GpuUse use, const Launch &launch, const GpuCeilings &gpu) {
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

// ---- CPU

Estimate cpuTime(const Demand &d, const CpuCeilings &cpu) {
  Estimate e;
  e.demand = d;
  const double launch = 2000, start = 60;
  double lanes = cpu.vectorBits / 32;
  double elements = (0.6 * (d.single + d.integer + d.convert) + 1.2 * d.wide + 0.4 * d.index + 2 * d.half + 1.2 * d.twice + 10 * d.divide + 6 * d.special +
                     0.8 * d.reduce + d.swept) /
                        lanes +
                    6 * d.intDivide + 1.5 * d.exchange + d.scalar + 1.2 * d.scattered + 20 * d.atomics + 30 * d.barriers;
  double perVector = lanes * cpu.fmasPerClock;
  double dots = (d.fma32 + d.fmaTf32 + d.fma64 * 2 + d.fma16 / (cpu.dots16 ? 2 : 1) + d.fma8 / (cpu.dots8 ? 4 : 1)) / (0.8 * perVector);
  double packing = d.operandBytes / 16, results = 2 * d.resultBytes / 48;
  // Scratch that the L1 cache does not hold comes from the L2 cache, and so on.
  bool isFar = d.scratchBytes > cpu.l2Bytes, isNear = d.scratchBytes <= cpu.l1Bytes;
  double scratch = (d.operandBytes + d.resultBytes) * (isFar ? 0.15 : isNear ? 0 : 0.03) + d.carried * (isFar ? 1 : 0.1 + 0.5 * std::min(d.scratchBytes / cpu.l1Bytes, 1.2));
  double memory = d.l1Misses / 64 + d.l2Misses / 14 + d.l3Misses / 4 + 0.5 * d.pieces + 20 * d.farPieces;
  double program = start + overlapped({elements + dots + packing + results + scratch, memory}, 2);
  double rounds = std::ceil(d.programs / cpu.threads);
  double ns = rounds / cpu.clockGhz;
  e.ns = launch + ns * program;
  e.parts = {{"launch", launch},          {"programs", ns * start}, {"elements", ns * elements}, {"dots", ns * dots},
             {"packing", ns * packing},   {"results", ns * results}, {"scratch", ns * scratch},   {"memory", ns * memory}};
  return e;
}

Estimate estimateCpu(const runtime::KernelInfo &info, const Launch &launch, const CpuCeilings &cpu) {
  Machine m;
  m.inFlight = 256;
  m.sector = 64;
  // The last cache is shared, also with others.
  m.l1Bytes = cpu.l1Bytes, m.l2Bytes = cpu.l2Bytes, m.l3Bytes = cpu.l3Bytes / 4;
  Demand d = demandOf(info, {}, launch, m);
  d.blocks = 1;
  return cpuTime(d, cpu);
}

// ---- words

namespace {
std::string nanoseconds(double ns) {
  char text[32];
  std::snprintf(text, sizeof text, ns < 1e4 ? "%.0f ns" : ns < 1e7 ? "%.1f us" : "%.2f ms", ns < 1e4 ? ns : ns < 1e7 ? ns / 1e3 : ns / 1e6);
  return text;
}
} // namespace

std::string Estimate::why() const {
  std::string text;
  const Part *most = nullptr;
  for (const Part &p : parts)
    if (!most || p.ns > most->ns) most = &p;
  if (most) text = std::string("bounded by ") + most->name + ", " + nanoseconds(most->ns) + " of " + nanoseconds(ns) + "\n";
  for (const Part &p : parts)
    if (p.ns > 0) text += std::string("part ") + p.name + ": " + nanoseconds(p.ns) + "\n";
  char number[32];
  for (const DemandField &f : demandFields()) {
    double v = demand.*f.value;
    if (v == 0) continue;
    std::snprintf(number, sizeof number, "%.6g", v);
    text += std::string(f.name) + " = " + number + " # " + f.text + "\n";
  }
  return text;
}

} // namespace tegula::tune
