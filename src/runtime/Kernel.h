// A compiled kernel in the runtime: the data that its code lacks (KernelInfo), and the loaded code of a CPU kernel
// (CpuKernel).
#pragma once
#include "abi/CpuAbi.h"
#include "support/ByteStream.h"
#include "support/LaunchForms.h"
#include "runtime/ObjectLoader.h"
#include "support/Work.h"
#include <atomic>

namespace tegula::runtime {

/// One runtime argument: a field of the argument block.
struct ArgInfo {
  std::string name;
  TegulaDtype dtype = TEGULA_VOID; // of the value, or pointee
  bool isPtr = false;
  bool read = false, written = false; // the kernel may load, store through it
  uint32_t offset = 0;
};

/// The value of one packed argument by its type, with its sign; of a pointer, the address.
int64_t integerOf(const ArgInfo &a, const char *args);

struct PrintOperand {
  TegulaDtype dtype = TEGULA_VOID;
  bool isPtr = false;
  std::vector<int64_t> shape;
};

/// A source location that faults and prints refer to.
struct SiteInfo {
  enum class Kind : uint8_t { Assert, Load, Store, Atomic, Print, Other } kind = Kind::Assert;
  std::string file, function, text;
  uint32_t line = 0, column = 0;
  int32_t arg = -1; // index into KernelInfo::args
  bool hex = false;
  std::vector<PrintOperand> operands;
};

/// The resources of a kernel on a GPU.
struct GpuUse {
  uint32_t registers = 0, spillBytes = 0, localBytes = 0; // per thread
  uint32_t sharedBytes = 0;                               // per block, static and dynamic
  uint32_t blocksPerCore = 0;                             // that fit on a multiprocessor at once
  // that run on the GPU at once; 0: not known, or the kernel has none
  uint32_t clusters = 0;
};

/// A tile in shared memory; line and column are 0 if its location is unknown.
struct SharedTileInfo {
  uint64_t bytes = 0;
  std::string what, file;
  uint32_t line = 0, column = 0;
};

/// The launch parameters of a kernel on a GPU or the simulator.
struct GpuInfo {
  uint32_t threads = 0; // per block; 0: the kernel is not for a GPU
  uint32_t clusterCtas = 1;
  // compiled with num_ctas = n, it has a loop whose iterations n blocks share: for launches that leave multiprocessors
  // idle
  bool splitsByGrid = false;
  // the limit of blocks on a multiprocessor, however many fit, so that data that they read again stays in caches; 0: no
  // limit
  uint8_t mostBlocks = 0;
  uint32_t sharedBytes = 0; // dynamic, per block
  bool cooperative = false, programmaticLaunch = false;
  GpuUse use; // as far as the assembler reported
  std::vector<SharedTileInfo> tiles; // largest first
};

/// A remark of the compiler about a kernel, not an error.
struct RemarkInfo {
  std::string kind, text, file;
  uint32_t line = 0, column = 0;
};

/// A number known at launch: the product of a constant and, where set, two arguments (indices into KernelInfo::args)
/// and the number of programs along an axis.
struct TensorMapTerm {
  int32_t arg = -1;
  int64_t value = 1;
  int32_t gridAxis = -1, arg2 = -1;
};
/// A tensor map that a launch appends to the arguments (TensorMaps.h). Dimensions outermost first.
struct TensorMapInfo {
  TegulaDtype dtype = TEGULA_VOID;
  bool nanFill = false;
  uint8_t swizzle = 0; // bytes: 0, 32, 64, 128
  TensorMapTerm base;
  std::vector<TensorMapTerm> extents, strides; // strides in elements
  std::vector<uint32_t> box;
  bool roundTf32 = false; // f32 is rounded to tf32 on the way
  uint8_t merged = 1;     // that many neighbours of the last dimension form one element of 8 bytes; box counts those
};

struct KernelInfo {
  std::string name;   // of the kernel, for messages
  std::string symbol; // of the entry point
  std::vector<ArgInfo> args;
  uint32_t argBytes = 0;
  uint64_t scratchBytes = 0;
  uint64_t stackBytes = 0; // CPU: the code's stack use, without that of the runtime functions it calls
  bool checked = false;
  bool waits = false; // CPU: has loops that wait for other programs (TegulaCpuLaunch::wait)
  LaunchForms forms; // other code that launches may use; not stored in bundles
  GpuInfo gpu;
  Work work; // for the cost model; its arguments are those of args
  std::vector<SiteInfo> sites;
  std::vector<TensorMapInfo> tensorMaps;
  std::vector<RemarkInfo> remarks;
};

void write(ByteWriter &w, const KernelInfo &info);
/// False if the bytes are not a KernelInfo.
bool read(ByteReader &r, KernelInfo &info);
void write(ByteWriter &w, const Work &work);
void write(ByteWriter &w, const LaunchForms &forms);
/// False if the bytes are not the forms of a kernel with that many arguments.
bool read(ByteReader &r, LaunchForms &forms, size_t arguments);
/// False if the bytes are not a Work of a kernel with that many arguments.
bool read(ByteReader &r, Work &work, size_t arguments);

/// The error for a kernel that needs more shared memory than there is: both numbers, and the largest tile. `where`:
/// "cuda:0 (...)".
Status tooMuchShared(const KernelInfo &info, uint64_t needed, uint64_t limit, const std::string &where);

/// Loaded, callable code. Immutable except for the running estimate of its speed.
class CpuKernel {
public:
  static std::unique_ptr<CpuKernel> load(KernelInfo info, std::span<const char> object, Status &status);
  /// Code that is part of the program (compiled ahead of time and linked in).
  CpuKernel(KernelInfo info, TegulaCpuEntry entry);
  const KernelInfo &info() const { return info_; }
  TegulaCpuEntry entry() const { return entry_; }
  size_t codeBytes() const { return object_ ? object_->codeBytes() : 0; }
  /// Bytes of stack that a thread must have left to run programs: for the code, and for functions it calls (printing,
  /// signal handlers).
  size_t stackNeed() const { return stackNeed_; }
  /// How many programs of one launch may wait at once, each with its own stack and scratch.
  uint64_t inFlightLimit() const { return inFlightLimit_; }
  static constexpr uint64_t maxInFlight = 8192;

  /// Average nanoseconds of one program in recent launches; 0 = never run. Affects only scheduling.
  mutable std::atomic<uint32_t> programNs{0};
  /// The same for launches that ran alone (TEGULA_LAUNCH_ALONE). hasPlainAtomics: they are worth trying.
  mutable std::atomic<uint32_t> aloneNs{0};
  mutable std::atomic<bool> hasPlainAtomics{false};

private:
  KernelInfo info_;
  TegulaCpuEntry entry_ = nullptr;
  std::unique_ptr<LoadedObject> object_;
  size_t stackNeed_ = 0;
  uint64_t inFlightLimit_ = 0;
};

} // namespace tegula::runtime
