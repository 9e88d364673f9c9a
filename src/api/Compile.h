// The compile driver: compiles one specialization to one kernel, through the disk cache.
#pragma once
#include "api/Handles.h"
#include "runtime/Stack.h"

namespace tegula::api {

/// Parsing and compiling recurse as deep as the source nests, and LLVM needs stack of its own. Runs `f`, which returns
/// T, with enough stack: the caller's, or a fresh one on the calling thread. Returns `failed`, with the last error set,
/// if there is no memory for a stack.
template <typename T, typename F> T onCompilerStack(T failed, F &&f) {
  constexpr size_t needed = size_t(4) << 20, fresh = size_t(16) << 20;
  T result = failed;
  if (!runtime::withStack(needed, fresh, [&] { result = f(); }))
    fail(TEGULA_OUT_OF_RESOURCES, "no memory for a stack to compile on");
  return result;
}

struct CompileRequest {
  TegulaFunction *function = nullptr;
  std::vector<sema::ParamSpec> specs;
  CompileOptions options;
  Target target;
  DeviceEntry *device = nullptr; // to load the code on; null: the code is for another machine
  std::string name;              // of the kernel; empty: the name from the function's namer, or the function's own
};

/// Compiles the request. Null: the last error is set. Returns one reference. Warnings stay as the thread's diagnostics.
TegulaKernel *compileKernel(const CompileRequest &request);

/// As tegula_module_from_file, with texts instead of all files.
TegulaStatus moduleFromTexts(TegulaContext &context, const std::string &name, std::map<std::string, std::string> texts,
                             TegulaModule **out);

/// Names a request without a name: by the function's namer, else by the function's own name. False: the last error is
/// set.
bool giveName(CompileRequest &r);
/// Pairs the runtime leaves of `k.specs` with the slots of the argument block. False if they do not match.
bool makePlan(TegulaKernel &k);
/// A key as 64 hexadecimal digits.
std::string hexOf(const runtime::Digest &key);

/// Runs the passes that all targets share on a fresh module. False: reported to `diag`.
bool preparedTile(ir::Module &tile, const Target &target, const CompileOptions &options, DiagEngine &diag);
/// The remarks of a compilation: those of passes, and what the assembler reported about the code.
std::vector<runtime::RemarkInfo> remarksOf(const DiagEngine &diag, const ir::Module &tile, const Generated &made);
/// Multiprocessors of a GPU; a simulated GPU has as many as an H200, on every host.
uint32_t coresOf(const DeviceEntry &device);
/// Loads the code of a kernel. False: the last error is set.
bool loadOn(TegulaKernel &k, DeviceEntry &device);
/// Sets the request's target: the target of this name, or that of the call's device; and a device that runs its code.
/// False: the last error is set.
bool chooseTarget(TegulaContext &c, const char *target, const CallOptions &call, CompileRequest &r);

/// Compiles the text of tile IR, without the disk cache. Null: the last error is set. Returns one reference.
TegulaKernel *compileTile(TegulaContext &c, std::shared_ptr<const SourceFile> file, const CompileOptions &options,
                          const Target &target, DeviceEntry *device);
/// As emitStage, for a kernel that compileTile made.
bool emitTile(const TegulaKernel &k, std::string_view stage, std::string &out);

/// The resources of a kernel on a GPU, as the device reports them, else as the assembler did.
runtime::GpuUse useOf(const TegulaKernel &k);

/// The text (or bytes) of one stage. False: the last error is set.
bool emitStage(const CompileRequest &request, std::string_view stage, std::string &out);
/// The stages that all targets share, in order; those of single targets follow (targetStages).
inline constexpr const char *commonStages[] = {"source", "ast", "tree", "tile"};
/// Names of the stages of a target; null target: of all targets.
std::vector<const char *> stageNames(const Target *t);
/// Is it a stage of the target (null: of any)? Otherwise sets an error that lists them.
bool checkStage(std::string_view stage, const Target *t);

/// The arguments of one call after binding (Specialize.h).
struct BoundCall;
/// The function's kernel for this key. findKernel() only reads the table. kernelFor() also waits for another thread
/// that is compiling it, or compiles it now. Borrowed from the function; null: not in the table, or (kernelFor) the
/// last error is set.
TegulaKernel *findKernel(TegulaFunction &f, const BoundCall &call);
TegulaKernel *kernelFor(TegulaFunction &f, const TegulaArg *args, size_t count, const CallOptions &options,
                        const BoundCall &call);
/// tegula_launch on the simulator, but only the first program of the grid.
TegulaStatus launchFirst(TegulaFunction &f, const int64_t grid[3], const TegulaArg *args, size_t count,
                         const TegulaLaunchOptions *options);

/// The identity of this build of the compiler: version, a slash, bytes of its build id (not text).
const std::string &compilerId();
/// A kernel without code for these arguments: see tegula_sketch. Null: the last error is set. Returns one reference.
TegulaKernel *sketchKernel(TegulaFunction &f, const TegulaArg *args, size_t count, const TegulaLaunchOptions *options,
                           Depth depth = Depth::Sketch);
/// Parses "name:type[:divisibility]" and "name:literal" items and constants into the request's specs. False: the last
/// error is set.
bool parseSignature(TegulaFunction &f, std::string_view signature, const TegulaNamedValue *constants, size_t count,
                    std::vector<sema::ParamSpec> &specs);

} // namespace tegula::api
