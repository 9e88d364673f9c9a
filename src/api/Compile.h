// The compile driver: one specialization in, one kernel out, by way of the disk cache.
#pragma once
#include "api/Handles.h"
#include "runtime/Stack.h"

namespace tegula::api {

/// Reading and compiling recurse as deep as the source nests, and LLVM takes what it takes. Runs `f`, which gives T,
/// with enough stack for that: on the caller's, or on one of its own on the calling thread. `failed` with the last
/// error set if there is no memory for it.
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
  DeviceEntry *device = nullptr; // to load the code on; null: for another machine
  std::string name;              // of the kernel; empty: what the function's namer says, or the function's own
};

/// Null: the last error is set. Gives one reference. Warnings are left as the thread's diagnostics.
TegulaKernel *compileKernel(const CompileRequest &request);

/// As tegula_module_from_file, with texts in place of all files.
TegulaStatus moduleFromTexts(TegulaContext &context, const std::string &name, std::map<std::string, std::string> texts,
                             TegulaModule **out);

/// The request's name, if it has none yet: what the function's namer says, or its own. False: the last error is set.
bool giveName(CompileRequest &r);
/// Pairs the runtime leaves of `k.specs` with the slots of the argument block. False if they do not match.
bool makePlan(TegulaKernel &k);
/// A key as 64 hexadecimal digits.
std::string hexOf(const runtime::Digest &key);

/// Runs the passes that all targets share over a fresh module. False: reported to `diag`.
bool preparedTile(ir::Module &tile, const Target &target, const CompileOptions &options, DiagEngine &diag);
/// Of a compilation: what passes reported, and what the assembler said of the code.
std::vector<runtime::RemarkInfo> remarksOf(const DiagEngine &diag, const ir::Module &tile, const Generated &made);
/// Multiprocessors of a GPU; a simulated one has as many as an H200, whatever runs it.
uint32_t coresOf(const DeviceEntry &device);
/// Loads the code of a kernel. False: the last error is set.
bool loadOn(TegulaKernel &k, DeviceEntry &device);
/// The target of this name, or that of the call's device, and a device that runs its code, into the request. False: the
/// last error is set.
bool chooseTarget(TegulaContext &c, const char *target, const CallOptions &call, CompileRequest &r);

/// A kernel from the text of tile IR, without the disk cache. Null: the last error is set. Gives one reference.
TegulaKernel *compileTile(TegulaContext &c, std::shared_ptr<const SourceFile> file, const CompileOptions &options,
                          const Target &target, DeviceEntry *device);
/// As emitStage, of a kernel that compileTile made.
bool emitTile(const TegulaKernel &k, std::string_view stage, std::string &out);

/// What a kernel takes on a GPU: what the device says, else what the assembler said.
runtime::GpuUse useOf(const TegulaKernel &k);

/// The text (or bytes) of one stage. False: the last error is set.
bool emitStage(const CompileRequest &request, std::string_view stage, std::string &out);
/// Stages of every target, in order, then those of single targets (targetStages).
inline constexpr const char *commonStages[] = {"source", "ast", "tree", "tile"};
/// Names of the stages of a target; null target: of all targets.
std::vector<const char *> stageNames(const Target *t);
/// A stage of the target (null: of any), or an error that lists them.
bool checkStage(std::string_view stage, const Target *t);

/// The function's kernel for these arguments: from the table, from another thread that is compiling it, or compiled
/// now. Borrowed from the function; null with the last error set.
struct BoundCall;
/// The function's kernel for this key if there is one already.
TegulaKernel *findKernel(TegulaFunction &f, const BoundCall &call);
TegulaKernel *kernelFor(TegulaFunction &f, const TegulaArg *args, size_t count, const CallOptions &options,
                        const BoundCall &call);
/// tegula_launch on the simulator, of the first program of the grid alone.
TegulaStatus launchFirst(TegulaFunction &f, const int64_t grid[3], const TegulaArg *args, size_t count,
                         const TegulaLaunchOptions *options);

/// What this very build of the compiler is called: version, a slash, bytes of its build id (not text).
const std::string &compilerId();
/// A kernel without code for these arguments: see tegula_sketch. Null: the last error is set. Gives one reference.
TegulaKernel *sketchKernel(TegulaFunction &f, const TegulaArg *args, size_t count, const TegulaLaunchOptions *options,
                           Depth depth = Depth::Sketch);
/// "name:type[:divisibility]" and "name:literal" items and constants, into the request's specs. False: the last error
/// is set.
bool parseSignature(TegulaFunction &f, std::string_view signature, const TegulaNamedValue *constants, size_t count,
                    std::vector<sema::ParamSpec> &specs);

} // namespace tegula::api
