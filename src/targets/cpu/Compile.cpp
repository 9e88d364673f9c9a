// compile() and emitStage(): runs the stages in order.
#include "targets/cpu/Codegen.h"
#include "ir/Clone.h"
#include "ir/StageVerifier.h"
#include "targets/common/Angles.h"
#include "targets/common/AsmText.h"
#include "targets/common/CutFunctions.h"
#include "targets/common/Frame.h"
#include "targets/common/Pipeline.h"
#include "targets/cpu/plan/BitMap.h"
#include "targets/cpu/rewrite/CarrySums.h"
#include "targets/cpu/rewrite/ColumnsFirst.h"
#include "targets/common/DebugInfo.h"
#include "targets/cpu/emit/Emitter.h"
#include "targets/cpu/rewrite/JoinRounds.h"
#include "targets/cpu/rewrite/OneRow.h"
#include "targets/cpu/rewrite/ProgramsAsLanes.h"
#include "targets/cpu/rewrite/TurnTiles.h"
#include "targets/Diagnostics.h"
#include "llvm/Support/raw_ostream.h"
#include <functional>

namespace tegula::cpu {

namespace {

struct Compilation {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> llvm;
  KernelMeta meta;
  std::string planText;
  CompileTimes times;
};

/// Of a kernel for groups of programs: nothing but nests that store.
bool isPlain(const Plan &p) {
  return p.buffers.empty() && llvm::all_of(p.steps, [](const Step &s) {
           return s.kind == StepKind::Define || s.kind == StepKind::Return ||
                  (s.kind == StepKind::Nest && s.nest->roots.back().kind == RootKind::Store);
         });
}

/// A rewrite of kernels before they are planned (rewrite/).
struct Rewrite {
  const char *name;
  bool ofChecked; // checked kernels are rewritten, too
  std::function<bool(const ir::Module &)> applies;
  std::function<void(ir::Module &)> run;
};

/// The module after this target's rewrites; null: unchanged. False: a rewrite has created an invalid module.
bool rewrite(const ir::Module &tile, const CpuTarget &target, const Options &options, const ir::StageVerifier &verifier,
             std::unique_ptr<ir::Module> &out, std::optional<ProgramGroup> &lanes) {
  using M = ir::Module;
  if (!options.optLevel || options.debugInfo)
    return true;
  const Rewrite inOrder[] = {
      {"one-row", false, [&](const M &m) { return hasOneRow(m, target); }, [&](M &m) { sumOneRow(m, target); }},
      {"programs-as-lanes", false, [&](const M &m) { return (lanes = programLanes(m, target)).has_value(); },
       [&](M &m) { programsAsLanes(m, *lanes); }},
      {"turn-tiles", false, hasTurnedTiles, turnTiles},
      {"carry-sums", true, [&](const M &m) { return hasCarriedSums(m, target); }, [&](M &m) { carrySums(m, target); }},
      {"columns-first", true, [&](const M &m) { return hasWholeReductions(m, target); },
       [&](M &m) { columnsFirst(m, target); }},
      {"join-rounds", false, [&](const M &m) { return hasShallowRounds(m, target); },
       [&](M &m) { joinRounds(m, target); }},
  };
  for (const Rewrite &r : inOrder) {
    if ((options.checked && !r.ofChecked) || !r.applies(out ? *out : tile))
      continue;
    if (!out)
      out = ir::clone(tile);
    r.run(*out);
    if (!verifier.check(*out, r.name))
      return false;
  }
  return true;
}

// Plans and emits all functions, callees first; optimizes.
bool emitModule(const ir::Module &tile, const CpuTarget &target, const Options &options, Stage upTo,
                DiagEngine &diag, Compilation &c) {
  if (!tile.kernel()) {
    diag.report(diag::noKernel, Loc{});
    return false;
  }
  const ir::StageVerifier verifier(options.verify, diag);
  if (!verifier.check(tile, "the target-neutral passes"))
    return false;
  std::unique_ptr<ir::Module> changed;
  std::optional<ProgramGroup> lanes;
  if (!rewrite(tile, target, options, verifier, changed, lanes))
    return false;
  const ir::Module &module = changed ? *changed : tile;
  const ir::Function *kernel = module.kernel();
  for (const ir::Function *f : module.functions)
    if (!targets::checkExtents(*f->block(), diag))
      return false;
  c.machine = createTargetMachine(target, options, diag);
  if (!c.machine)
    return false;
  c.llvm = std::make_unique<llvm::Module>(kernel->name, c.context);
  c.llvm->setTargetTriple(target.triple);
  c.llvm->setDataLayout(c.machine->createDataLayout());
  c.meta.checked = options.checked;
  targets::CodegenMessages::install(c.context);
  targets::Lap lap;
  std::optional<Plan> groupPlan;
  std::optional<GroupedPrograms> grouped =
      lanes || options.checked || options.debugInfo || !options.optLevel ? std::nullopt : groupPrograms(module);
  if (grouped && !verifier.check(*grouped->module, "group-programs"))
    return false;
  if (grouped)
    groupPlan = planFunction(*grouped->module->kernel(), target, &grouped->group);
  if (groupPlan && !isPlain(*groupPlan))
    grouped.reset();
  if (grouped)
    diag.report(diag::programGroups, grouped->group.access->loc, grouped->group.size, grouped->group.axis ? "y" : "x",
                grouped->group.access->kind == ir::OpKind::Store ? "store" : "load", grouped->group.rowBytes);
  if (lanes)
    diag.report(diag::programLanes, lanes->access->loc, lanes->size, lanes->axis ? "y" : "x",
                lanes->access->kind == ir::OpKind::Store ? "store" : "load");
  const ir::Module &source = grouped ? *grouped->module : module;
  ModuleState state{*c.llvm, source, target, options, c.meta};
  state.remarks = &diag;
  std::optional<DebugEmitter> debug;
  if (options.debugInfo)
    state.debug = &debug.emplace(*c.llvm, source, options.optLevel > 0);
  uint64_t calleeBytes = 0;
  for (const ir::Function *f : source.functions) {
    Plan plan = grouped ? std::move(*groupPlan) : planFunction(*f, target, lanes ? &*lanes : nullptr);
    lap.into(c.times.planNs);
    if (upTo == Stage::Plan) {
      c.planText += print(plan);
      continue;
    }
    FunctionEmitter emitter(state, plan);
    if (f->isKernel) {
      emitter.emitKernel();
      c.meta.scratchBytes = plan.scratchBytes + calleeBytes;
    } else {
      emitter.emitCallee();
      // Callees come before callers, so what is deepest so far is enough room for those it calls.
      calleeBytes += plan.scratchBytes;
    }
    lap.into(c.times.emitNs);
  }
  if (debug)
    debug->finish();
  if (upTo == Stage::Plan || options.depth != Depth::Code)
    return true;
  lap = {};
  const bool verifies = options.verify || ir::verifiesAlways;
  if (verifies && !targets::verifyModule(*c.llvm, "before optimization", kernel->loc, diag))
    return false;
  if (isInterrupted(options))
    return false;
  targets::joinAngles(*c.llvm, vecTarget(target, options));
  optimize(*c.llvm, *c.machine, options);
  lap.into(c.times.optimizeNs);
  if (isInterrupted(options))
    return false;
  return !verifies || targets::verifyModule(*c.llvm, "after optimization", kernel->loc, diag);
}

} // namespace

/// A checked kernel on large tiles is a chain of many thousand small blocks, for which LLVM's register allocator needs
/// time that grows faster than linearly (117,000 instructions: 45 s, 1 s without optimization). Checking is not for
/// speed.
static void boundCodegen(Compilation &c, const Options &options) {
  constexpr unsigned most = 30000;
  if (options.checked && c.llvm->getInstructionCount() > most)
    c.machine->setOptLevel(llvm::CodeGenOptLevel::None);
}

std::optional<CpuKernel> compile(const ir::Module &module, const CpuTarget &target, const Options &options,
                                 DiagEngine &diag) {
  LaunchForms forms;
  // Both forms ask the same.
  if (options.facts.form == exactForm) {
    Options plain = options;
    plain.facts.form = plainForm, plain.depth = Depth::Sketch;
    Compilation asked;
    if (!emitModule(module, target, plain, Stage::Object, diag, asked))
      return std::nullopt;
    forms = std::move(asked.meta.forms);
    forms.form = exactForm;
  }
  Compilation c;
  if (!emitModule(module, target, options, Stage::Object, diag, c))
    return std::nullopt;
  if (forms.asks())
    c.meta.forms = std::move(forms);
  if (options.depth != Depth::Code)
    return CpuKernel{{}, std::move(c.meta), c.times};
  targets::Lap lap;
  targets::CodegenMessages::of(c.context).meterFrames(*c.llvm, c.meta.stackBytes);
  boundCodegen(c, options);
  std::vector<char> object = emitObject(*c.llvm, *c.machine);
  if (targets::CodegenMessages::of(c.context).report(diag))
    return std::nullopt;
  CpuKernel kernel{std::move(object), std::move(c.meta), {}};
  lap.into(c.times.codegenNs);
  kernel.times = c.times;
  return kernel;
}

std::optional<std::string> emitStage(const ir::Module &module, const CpuTarget &target, const Options &options,
                                     Stage stage, DiagEngine &diag) {
  Compilation c;
  if (!emitModule(module, target, options, stage, diag, c))
    return std::nullopt;
  if (stage == Stage::Plan)
    return std::move(c.planText);
  if (stage == Stage::Llvm) {
    std::string text;
    llvm::raw_string_ostream os(text);
    c.llvm->print(os, nullptr);
    return text;
  }
  boundCodegen(c, options);
  std::string text;
  if (stage == Stage::Asm) {
    text = emitAssembly(*c.llvm, *c.machine);
  } else {
    std::vector<char> object = emitObject(*c.llvm, *c.machine);
    text.assign(object.begin(), object.end());
  }
  if (targets::CodegenMessages::of(c.context).report(diag))
    return std::nullopt;
  return text;
}

} // namespace tegula::cpu
