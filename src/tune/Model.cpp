// See Model.h; GPUs are in GpuTime.cpp. Constants without a source beside them were fitted to measured times
// (docs/autotuning.md).
#include "tune/Model.h"
#include "tune/Overlap.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tegula::tune {

// ---- CPU

/// Clocks for an element that moves. Rows shorter than a vector are moved by whole pieces and shuffles; along longer
/// ones each lane is gathered from a separate row. Rows whose distance is a multiple of a page share the sets of the L1
/// cache: if there are more of them than its ways, each one comes from the L2.
static double exchangeCost(const Demand &d, double lanes) {
  constexpr double shuffled = 0.5, gathered = 3, unknown = 1.5, ways = 8;
  if (d.exchangeRow <= 0) return unknown;
  if (d.exchangeRow < lanes) return shuffled;
  return gathered + std::clamp(std::log2(std::max(d.farRows, 1.0) / ways), 0.0, 4.0) * 0.6;
}

Estimate cpuTime(const Demand &d, const CpuCeilings &cpu) {
  Estimate e;
  e.demand = d;
  const double launch = 2000, start = 60;
  double lanes = cpu.vectorBits / 32;
  double elements = (0.6 * (d.single + d.integer + d.convert) + 1.2 * d.wide + 0.4 * d.index + 2 * d.half +
                     1.2 * d.twice + 10 * d.divide + 6 * d.special + 0.8 * d.reduce + d.swept) /
                        lanes +
                    6 * d.intDivide + exchangeCost(d, lanes) * d.exchange + d.scalar + 1.2 * d.scattered +
                    20 * d.atomics + 30 * d.barriers;
  double perVector = lanes * cpu.fmasPerClock;
  double dots = (d.fma32 + d.fmaTf32 + d.fma64 * 2 + d.fma16 / (cpu.dots16 ? 2 : 1) + d.fma8 / (cpu.dots8 ? 4 : 1)) /
                (0.8 * perVector);
  double packing = d.operandBytes / 16, results = 2 * d.resultBytes / 48;
  // Scratch that does not fit into the L1 cache comes from the L2 cache, and so on.
  bool isFar = d.scratchBytes > cpu.l2Bytes, isNear = d.scratchBytes <= cpu.l1Bytes;
  double scratch = (d.operandBytes + d.resultBytes) * (isFar    ? 0.15
                                                       : isNear ? 0
                                                                : 0.03) +
                   d.carried * (isFar ? 1 : 0.1 + 0.5 * std::min(d.scratchBytes / cpu.l1Bytes, 1.2));
  double memory = d.l1Misses / 64 + d.l2Misses / 14 + d.l3Misses / 4 + 0.5 * d.pieces + 20 * d.farPieces;
  double program = start + overlapped({elements + dots + packing + results + scratch, memory}, 2);
  double rounds = std::ceil(d.programs / cpu.threads);
  double ns = rounds / cpu.clockGhz;
  e.ns = launch + ns * program;
  e.parts = {{"launch", launch},        {"programs", ns * start},  {"elements", ns * elements},
             {"dots", ns * dots},       {"packing", ns * packing}, {"results", ns * results},
             {"scratch", ns * scratch}, {"memory", ns * memory}};
  return e;
}

Estimate estimateCpu(const runtime::KernelInfo &info, const Launch &launch, const CpuCeilings &cpu) {
  Machine m;
  m.inFlight = 256;
  m.sector = 64;
  // The last-level cache is shared, also with other processes.
  m.l1Bytes = cpu.l1Bytes, m.l2Bytes = cpu.l2Bytes, m.l3Bytes = cpu.l3Bytes / 4;
  Demand d = demandOf(info, {}, launch, m);
  d.blocks = 1;
  return cpuTime(d, cpu);
}

// ---- words

namespace {
std::string nanoseconds(double ns) {
  char text[32];
  std::snprintf(text, sizeof text,
                ns < 1e4   ? "%.0f ns"
                : ns < 1e7 ? "%.1f us"
                           : "%.2f ms",
                ns < 1e4   ? ns
                : ns < 1e7 ? ns / 1e3
                           : ns / 1e6);
  return text;
}
} // namespace

std::string Estimate::why() const {
  std::string text;
  const Part *most = nullptr;
  for (const Part &p : parts)
    if (!most || p.ns > most->ns) most = &p;
  if (most)
    text = std::string("bounded by ") + most->name + ", " + nanoseconds(most->ns) + " of " + nanoseconds(ns) + "\n";
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
