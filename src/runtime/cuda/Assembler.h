// From PTX text to a cubin in this process, with the linker library of the CUDA toolkit (libnvJitLink), opened at run
// time.
//
// Needs no GPU and no driver. Where the library is missing the driver's own assembler takes the PTX (CudaKernel.h):
// slower to load, and no resource numbers before the kernel is on a GPU. What the library makes worse code of
// (isForWholeProgram) goes to a program of a toolkit (AssemblerProgram.h), where none that is as new as the driver is,
// to the driver, and where neither is to the library after all.
#pragma once
#include "runtime/Status.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <pthread.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tegula::runtime::cuda {

struct AssembleOptions {
  std::string arch;          // "sm_90a"
  unsigned maxRegisters = 0; // per thread; 0: no limit
  unsigned optLevel = 3;
  bool lineInfo = false;
  // of a block, where the caller knows; then one more block is made to fit where it takes not too many registers
  std::optional<uint64_t> sharedBytes;
};

/// What the assembler says about a kernel, its device functions included.
struct AssemblyStats {
  uint32_t registers = 0, spillStoreBytes = 0, spillLoadBytes = 0, stackBytes = 0, barriers = 0;
  /// Why asynchronous matrix instructions wait for each other (advisories C7510 to C7520), in the assembler's words;
  /// empty: they do not.
  std::string serialized;
};

struct Assembly {
  std::vector<char> cubin;
  std::string log;
  AssemblyStats stats;
  // how often the assembler ran: a request for blocks that costs spills is lowered or dropped (BlockRequest.h)
  unsigned attempts = 0;
};

class AssemblerProgram;
class AssemblyMemo;

class Assembler {
public:
  /// TEGULA_NOT_FOUND if `path` cannot be opened or is something else.
  static std::unique_ptr<const Assembler> open(const std::string &path, Status &status);
  /// The process's assembler: the first library found (Assembler.cpp lists the places) that opens and whose code the
  /// installed driver, if any, can load. Searched for at the first call; null with the reason, always the same.
  static const Assembler *get(Status &status);
  /// For cache keys: what tells the code of that assembler from any other's. Opens no library (8 ms, which a launch
  /// from the disk cache can do without) where the search comes to a file under its usual name first: its build id says
  /// as much as its version. Else what `version` says; "" where there is no assembler. Always the same in a process.
  static const std::string &identity();

  /// "nvJitLink 12.9", and the program that is used as well, if one is.
  std::string version() const;
  const std::string &path() const { return path_; }
  unsigned major() const { return major_; }

  /// Should a launch give that text to the driver, which makes better code of it than the library and no program is
  /// there for? Thread-safe.
  bool leavesToDriver(std::string_view ptx) const;

  /// Thread-safe. TEGULA_ASSEMBLER_ERROR with the log and the offending lines if the text is not accepted; `kernel` is
  /// for messages. `ptx` may end in NULs. Its `.minnctapersm` request (blocks on a multiprocessor) is lowered, and
  /// dropped at last, where it would cost more than a few bytes of spills, the fewer blocks the more;
  /// where it costs any, a request that leaves eight registers more is tried; before it, for a register or two and an
  /// architecture before sm_90, a bound on registers that comes to the same. Without a request, a kernel that lacks up
  /// to eight registers for one more block, or up to a third of its registers where fewer than sixteen warps run or one
  /// block alone, or half of them (withOneBlockMore), is assembled again with that request, and stays so if nothing is
  /// spilled, or a few bytes for the second block where it takes a third (options.sharedBytes). What was assembled
  /// before comes from an AssemblyMemo, and from no other cache: the same text gives the same code and numbers on every
  /// machine.
  Status assemble(std::string_view ptx, const std::string &kernel, const AssembleOptions &options, Assembly &out) const;

  ~Assembler();

private:
  Assembler();
  static std::unique_ptr<Assembler> openLibrary(const std::string &path, Status &status);
  /// The request for blocks is lowered by a quarter, in the end dropped, while more bytes are spilled than it is worth:
  /// none where it was lowered before.
  Status keepingRequest(std::string text, const std::string &kernel, const AssembleOptions &options,
                        Assembly &out) const;
  Status assembleNow(const std::string &text, const std::string &kernel, const AssembleOptions &options,
                     Assembly &out) const;
  struct Library;
  std::unique_ptr<AssemblyMemo> memo_;
  std::shared_ptr<const Library> library_;
  std::unique_ptr<const AssemblerProgram> program_; // for what the library makes worse code of; null: there is none
  bool hasProgramFor(std::string_view ptx) const;
  std::string version_, path_;
  unsigned major_ = 0;
  bool knowsNoCache_ = false;
};

/// While one lives, a thread of its own does the first `Assembler::get` of the process, which takes 8 ms: for who has
/// something else to do before. Nothing where that call was made, `wanted` is false or the system has no thread. Its
/// end waits for the thread, which is in no GateSection, takes no signals and calls nothing of the user's.
class AssemblerOpening {
public:
  explicit AssemblerOpening(bool wanted);
  ~AssemblerOpening();
  AssemblerOpening(const AssemblerOpening &) = delete;

private:
  pthread_t thread_{};
  bool runs_ = false;
};

/// A folder of Python packages (site-packages) to look in. Before the first use.
void addAssemblerFolder(std::string folder);

/// True if an assembler of whole programs makes better code of it: libnvJitLink compiles for linking and ignores
/// setmaxnreg then (C7504).
bool isForWholeProgram(std::string_view ptx);

/// The numbers in an assembler's log.
AssemblyStats parseAssemblerLog(std::string_view log);
/// "line 10" in a log, as the text of that line and, where the PTX has line tables, the kernel's source line.
std::string explainAssemblerLog(std::string_view log, std::string_view ptx);

} // namespace tegula::runtime::cuda
