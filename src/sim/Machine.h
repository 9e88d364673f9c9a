// The simulated GPU: runs code compiled against abi/SimAbi.h, one fiber per GPU thread, and detects errors that
// hardware does not.
//
//   LaunchConfig c;  c.entry = ...;  c.args = ...;  c.grid = {4, 1, 1};  c.threads = 128;  c.sharedBytes = 32768;
//   c.buffers = extents;
//   Report r = launch(c);
//   if (r.fault) puts(r.fault.text.c_str());
//
// The CTAs of a cluster run on one host thread; clusters are spread over `hostThreads`. How threads are scheduled, what
// the shadow state of shared memory holds and what is not modelled: docs/rationale/sim.md.
#pragma once
#include "abi/SimAbi.h"
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tegula::sim {

/// Offset of the first shared byte that kernels may use (the system reserves the bytes below), and the most bytes that
/// they may use.
inline constexpr uint32_t sharedBase = 0x400;
inline constexpr uint32_t sharedLimit = 232448;
inline constexpr unsigned maxThreads = 1024, maxClusterCtas = 16;

/// Memory that global accesses may touch.
struct Extent {
  uint64_t begin = 0; // address
  uint64_t bytes = 0;
};

enum class FaultKind : uint8_t {
  None,
  Config,       // the launch itself is impossible
  Assert,       // tegula_sim_assert_fail
  GlobalBounds, // global access outside all buffers
  SharedBounds, // shared access outside the CTA's allocation or cluster, or of a CTA that ended
  Misaligned,
  SharedRace,           // two threads, no order between them, at least one writes
  Uninitialized,        // shared read of bytes that were never written
  BarrierDivergence,    // threads of a CTA do not come to a barrier alike
  WarpDivergence,       // threads named in a mask do not come to a warp's instruction alike
  MissingWait,          // result of an asynchronous copy or of wgmma used before its wait
  AsyncReadOverwritten, // bytes written that a running wgmma or bulk store still reads
  MissingProxyFence,    // generic write read by wgmma or a bulk copy without fence.proxy.async
  MissingWgmmaFence,    // wgmma on registers that were written since the last wgmma.fence
  Mbarrier,             // misuse of an mbarrier
  Tensor,               // bulk copy with a bad map, coordinate or size
  Deadlock,
  Registers,      // setmaxnreg beyond what the CTA has
  BadInstruction, // operands that the assembler or the hardware would refuse
  Hang,           // no program has finished for LaunchConfig::hangNs
  StackOverflow,  // a GPU thread used more than LaunchConfig::stackBytes of local memory (only where it can be told)
  Cancelled
};
/// "shared-memory race", ...
const char *faultName(FaultKind kind);

/// What ended a launch. `site` indexes the kernel's table of sites, -1 if there is none.
struct Fault {
  FaultKind kind = FaultKind::None;
  int32_t site = -1;
  int32_t otherSite = -1;     // the other access of a race ..., else -1
  int32_t pid[3] = {0, 0, 0}; // program: index of the cluster in the grid
  uint32_t ctaRank = 0, thread = 0;
  uint64_t address = 0;           // GlobalBounds, Misaligned of global memory: of the access, else 0
  std::string text; // all details; places in the kernel appear as "site N"
  explicit operator bool() const { return kind != FaultKind::None; }
};

/// The text with every "site N" replaced by place(N) (a file and line of the kernel; -1: no known place).
std::string namePlaces(const std::string &text, const std::function<std::string(int32_t site)> &place);

/// Kinds of instructions that are counted, once per thread (a warp's instruction: once per warp; wgmma: per warpgroup).
enum class Instr : uint8_t {
  LdGlobal,
  StGlobal,
  LdShared,
  StShared,
  Atomic,
  Shuffle,
  Vote,
  Syncwarp,
  Barrier,
  ClusterBarrier,
  Fence,
  Ldmatrix,
  Stmatrix,
  Mma,
  Wgmma,
  CpAsync,
  MbarArrive,
  MbarWait,
  BulkLoad,
  BulkStore,
  StAsync,
  Count
};
const char *instrName(Instr i);

/// Shared-memory traffic of one kind of access over the 32 banks (docs/hopper.md): `wavefronts` passes in total, of
/// which bank conflicts cause `conflicts`.
struct BankStats {
  uint64_t instructions = 0, wavefronts = 0, conflicts = 0;
};
enum class SharedAccess : uint8_t { Load, Store, Ldmatrix, Stmatrix, Count };

struct Counters {
  std::array<uint64_t, size_t(Instr::Count)> instructions{};
  std::array<BankStats, size_t(SharedAccess::Count)> banks{}; // only if LaunchConfig::countBanks
  uint64_t switches = 0;                                      // changes from one fiber to another
  uint64_t operator[](Instr i) const { return instructions[size_t(i)]; }
  const BankStats &operator[](SharedAccess a) const { return banks[size_t(a)]; }
};

/// One element of device_print; called under a lock, in the order of execution.
using PrintFn = std::function<void(int32_t site, int32_t operand, const int32_t pid[3], int64_t index, uint64_t bits)>;

/// Stacks kept from one launch to the next; saves most of the 0.7 ms that a launch takes. Thread-safe; must outlive its
/// launches.
class StackPool;
std::shared_ptr<StackPool> makeStackPool();

constexpr uint32_t usualStackBytes = 256 * 1024;

struct LaunchConfig {
  TegulaSimEntry entry = nullptr;
  const void *args = nullptr;
  std::array<int32_t, 3> grid{1, 1, 1}; // programs; each is one cluster of `clusterCtas` CTAs
  uint64_t programs = 0;                // the first that many of them run; 0: all
  unsigned threads = 128;               // per CTA, a multiple of 32
  unsigned clusterCtas = 1;
  uint32_t sharedBytes = 0;        // per CTA
  std::span<const Extent> buffers; // need not be sorted
  bool allowAny = false;           // no check of global addresses
  bool countBanks = false;         // fill Counters::banks (slower)
  PrintFn print;
  const std::atomic<int32_t> *cancel = nullptr; // polled; nonzero ends the launch (FaultKind::Cancelled)
  // ends the launch if no program finishes for that long while threads take back edges (FaultKind::Hang); 0: never
  uint64_t hangNs = 0;
  unsigned hostThreads = 1;
  /// A thread pool of the caller that replaces the launch's own threads: calls task(data, i) once for each i below
  /// count, and returns when all calls have returned. May be null.
  void (*executor)(void *user, uint32_t count, void (*task)(void *data, uint32_t index), void *data) = nullptr;
  void *executorUser = nullptr;
  uint32_t stackBytes = usualStackBytes; // local memory of a GPU thread
  StackPool *stacks = nullptr;      // see StackPool; null: stacks of this launch alone
  unsigned registersPerThread = 0;  // at launch, for setmaxnreg; 0: the most that fit one CTA per SM
};

/// A program that was running when a launch was ended, and the loop that one of its threads was in (-1: in none).
struct Unfinished {
  int32_t pid[3] = {0, 0, 0};
  int32_t site = -1;
};

struct Report {
  Fault fault; // the first one
  Counters counters;
  // FaultKind::Hang: by program, the first axis fastest; and how many had not begun.
  std::vector<Unfinished> unfinished;
  uint64_t notStarted = 0;
};

/// Runs the whole grid. Thread-safe.
Report launch(const LaunchConfig &config);

} // namespace tegula::sim
