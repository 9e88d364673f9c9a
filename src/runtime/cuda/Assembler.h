// Assembles PTX text to a cubin in this process, with the linker library of the CUDA toolkit (libnvJitLink), opened at
// run time.
//
// Needs no GPU and no driver. Without the library, the driver's own assembler takes the PTX (CudaKernel.h): loading is
// slower, and resource numbers are unknown until the kernel is on a GPU. Some kernels the library compiles to worse
// code (isForWholeProgram): these go to a program of a toolkit (AssemblerProgram.h); if none is as new as the driver,
// to the driver; and without either, to the library after all.
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
  // of a block, if the caller gives it; then the assembler tries to fit one more block, if that costs few registers
  std::optional<uint64_t> sharedBytes;
};

/// The assembler's report about a kernel, its device functions included.
struct AssemblyStats {
  uint32_t registers = 0, spillStoreBytes = 0, spillLoadBytes = 0, stackBytes = 0, barriers = 0;
  /// Why asynchronous matrix instructions are serialized (advisories C7510 to C7520), in the assembler's words; empty:
  /// they are not.
  std::string serialized;
};

struct Assembly {
  std::vector<char> cubin;
  std::string log;
  AssemblyStats stats;
  // the number of assembler runs: a request for blocks that costs spills is lowered or dropped (BlockRequest.h)
  unsigned attempts = 0;
};

class AssemblerProgram;
class AssemblyMemo;

class Assembler {
public:
  /// TEGULA_NOT_FOUND if `path` cannot be opened or is another library.
  static std::unique_ptr<const Assembler> open(const std::string &path, Status &status);
  /// The process's assembler: the first library found (Assembler.cpp lists the places) that opens and whose code the
  /// installed driver, if any, can load. The search runs at the first call. Null, with the reason; always the same
  /// result.
  static const Assembler *get(Status &status);
  /// For cache keys: distinguishes the code of that assembler from any other's. Opens no library (8 ms, which a launch
  /// from the disk cache saves) if the search first finds a file under its usual name: its build id identifies it as
  /// well as its version. Otherwise as `version`; "" if there is no assembler. Always the same in a process.
  static const std::string &identity();

  /// "nvJitLink 12.9", and the name of the program that is also used, if any.
  std::string version() const;
  const std::string &path() const { return path_; }
  unsigned major() const { return major_; }

  /// Should a launch give that text to the driver? True if the driver makes better code of it than the library and
  /// there is no program for it. Thread-safe.
  bool leavesToDriver(std::string_view ptx) const;

  /// Thread-safe. TEGULA_ASSEMBLER_ERROR, with the log and the offending lines, if the text is rejected; `kernel` is
  /// for messages. `ptx` may end in NULs. A `.minnctapersm` request (blocks on a multiprocessor) that costs more than a
  /// few bytes of spills (more for fewer blocks) is lowered and finally dropped. If it costs any spills, a request that
  /// leaves eight registers more is tried; before that, for a register or two and an architecture before sm_90, an
  /// equivalent bound on registers. Without a request, a kernel is assembled again with a request for one more block if
  /// it lacks up to eight registers for it, or up to a third of its registers where fewer than sixteen warps run or one
  /// block alone, or half of them (withOneBlockMore). That result is kept if nothing is spilled, or a few bytes for the
  /// second block where it takes a third (options.sharedBytes). Repeated texts are answered by an AssemblyMemo and by
  /// no other cache: the same text gives the same code and numbers on every machine.
  Status assemble(std::string_view ptx, const std::string &kernel, const AssembleOptions &options, Assembly &out) const;

  ~Assembler();

private:
  Assembler();
  static std::unique_ptr<Assembler> openLibrary(const std::string &path, Status &status);
  /// Lowers the request for blocks by a quarter, and finally drops it, while the spills are more than it is worth: no
  /// spills at all once it was lowered.
  Status keepingRequest(std::string text, const std::string &kernel, const AssembleOptions &options,
                        Assembly &out) const;
  Status assembleNow(const std::string &text, const std::string &kernel, const AssembleOptions &options,
                     Assembly &out) const;
  struct Library;
  std::unique_ptr<AssemblyMemo> memo_;
  std::shared_ptr<const Library> library_;
  std::unique_ptr<const AssemblerProgram> program_; // for kernels that the library compiles worse; null: none
  bool hasProgramFor(std::string_view ptx) const;
  std::string version_, path_;
  unsigned major_ = 0;
  bool knowsNoCache_ = false;
};

/// During its lifetime a thread of its own makes the first `Assembler::get` of the process, which takes 8 ms, while the
/// caller does other work. Does nothing if that call was made before, `wanted` is false or the system has no thread.
/// The destructor waits for the thread, which is in no GateSection, takes no signals and calls no function of the user.
class AssemblerOpening {
public:
  explicit AssemblerOpening(bool wanted);
  ~AssemblerOpening();
  AssemblerOpening(const AssemblerOpening &) = delete;

private:
  pthread_t thread_{};
  bool runs_ = false;
};

/// Adds a folder of Python packages (site-packages) to the search. Call it before the first use.
void addAssemblerFolder(std::string folder);

/// True if an assembler of whole programs makes better code of the text: libnvJitLink compiles for linking, and then
/// ignores setmaxnreg (C7504).
bool isForWholeProgram(std::string_view ptx);

/// The numbers in an assembler's log.
AssemblyStats parseAssemblerLog(std::string_view log);
/// Replaces "line 10" in a log by the text of that line and, if the PTX has line tables, the kernel's source line.
std::string explainAssemblerLog(std::string_view log, std::string_view ptx);

} // namespace tegula::runtime::cuda
