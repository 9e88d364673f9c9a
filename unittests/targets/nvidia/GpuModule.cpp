// See GpuModule.h.
#include "GpuModule.h"
#include "targets/common/Pipeline.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <fstream>

namespace tegula::nvidia {

GpuModule::GpuModule(const NvTarget &target, Options options)
    : target_(target), options_(options), module_(std::make_unique<llvm::Module>("test", context_)) {}

void GpuModule::Kernel::use(V v) {
  if (v->getType()->isIntegerTy(1))
    v = b.CreateZExt(v, b.getInt32Ty());
  V at = b.CreateInBoundsGEP(b.getInt8Ty(), data,
                             b.CreateAdd(b.CreateSExt(n, b.getInt64Ty()), b.getInt64(static_cast<uint64_t>(used))));
  used += 16;
  i.storeGlobal(at, v, nullptr);
}

void GpuModule::Kernel::use(const Regs &values) {
  for (V v : values)
    use(v);
}

Regs GpuModule::Kernel::ints(unsigned count) {
  Regs out;
  for (unsigned k = 0; k < count; ++k)
    out.push_back(b.CreateAdd(n, i32(k)));
  return out;
}

Regs GpuModule::Kernel::floats(unsigned count) {
  Regs out;
  for (unsigned k = 0; k < count; ++k)
    out.push_back(b.CreateFAdd(x, llvm::ConstantFP::get(b.getFloatTy(), k)));
  return out;
}

Regs GpuModule::Kernel::halves(unsigned count) {
  Regs out;
  for (unsigned k = 0; k < count; ++k)
    out.push_back(b.CreateTrunc(b.CreateAdd(n, i32(k)), b.getInt16Ty()));
  return out;
}

Regs GpuModule::Kernel::doubles(unsigned count) {
  Regs out;
  for (unsigned k = 0; k < count; ++k)
    out.push_back(b.CreateFAdd(y, llvm::ConstantFP::get(b.getDoubleTy(), k)));
  return out;
}

void GpuModule::add(const std::string &name, const std::function<void(Kernel &)> &body, KernelBounds bounds) {
  llvm::IRBuilder<> b(context_);
  // As the launcher gives them: one by one on a GPU, packed to the simulator.
  std::vector<llvm::Type *> params = {b.getPtrTy(), b.getInt32Ty(), b.getFloatTy(), b.getDoubleTy()};
  std::vector<llvm::Type *> types = target_.simulate ? std::vector<llvm::Type *>{b.getPtrTy(), b.getPtrTy()} : params;
  auto *f = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), types, false),
                                   llvm::Function::ExternalLinkage, name, *module_);
  f->setDoesNotThrow();
  b.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", f));
  V arg[4];
  auto *pack = llvm::StructType::get(context_, params);
  for (unsigned k = 0; k < 4; ++k)
    arg[k] = target_.simulate ? b.CreateLoad(params[k], b.CreateStructGEP(pack, f->getArg(1), k))
                              : static_cast<V>(f->getArg(k));
  if (!target_.simulate)
    markKernel(*f, bounds);
  Instr i(b, target_, target_.simulate ? f->getArg(0) : nullptr);
  i.setSite(7);
  V tid = i.special(Special::Tid);
  Kernel k{i, b, arg[0], arg[1], arg[2], arg[3], i.sharedBase(), b.CreateICmpSLT(tid, arg[1])};
  body(k);
  b.CreateRetVoid();
}

const std::string &GpuModule::text() {
  if (!text_.empty())
    return text_;
  std::string error;
  llvm::raw_string_ostream os(error);
  if (llvm::verifyModule(*module_, &os)) {
    ADD_FAILURE() << error;
    return text_ = "malformed";
  }
  DiagEngine diag;
  auto tm = createTargetMachine(target_, options_, diag);
  if (!tm) {
    ADD_FAILURE() << "no target machine";
    return text_ = "no machine";
  }
  optimize(*module_, *tm, options_);
  return text_ = target_.simulate ? targets::emitAssemblyText(*module_, *tm) : emitPtx(*module_, *tm);
}

std::vector<char> GpuModule::object() {
  DiagEngine diag;
  auto tm = createTargetMachine(target_, options_, diag);
  optimize(*module_, *tm, options_);
  return emitObject(*module_, *tm);
}

std::string GpuModule::textOf(const std::string &name) {
  const std::string &all = text();
  size_t begin = all.find(target_.simulate ? "\n" + name + ":" : ".entry " + name + "(");
  if (begin == std::string::npos)
    return {};
  size_t end = all.find(target_.simulate ? ".Lfunc_end" : "\n}\n", begin);
  return all.substr(begin, end == std::string::npos ? end : end - begin);
}

std::string GpuModule::irOf(const std::string &name) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module_->getFunction(name)->print(os);
  return text;
}

std::string archName(const NvTarget &t) { return "sm_" + std::to_string(t.sm) + (t.archFeatures ? "a" : ""); }

bool assembles(const std::string &ptx, const NvTarget &t, runtime::cuda::Assembly &out) {
  runtime::Status status;
  if (const char *path = getenv("TEGULA_TEST_PTX_OUT")) // to look at it
    std::ofstream(std::string(path) + "/" + archName(t) + ".ptx") << ptx;
  const runtime::cuda::Assembler *assembler = runtime::cuda::Assembler::get(status);
  if (!assembler) {
    static bool said = (printf("not assembled here: %s\n", status.text.c_str()), true);
    (void)said;
    return false;
  }
  runtime::cuda::AssembleOptions options;
  options.arch = archName(t);
  status = assembler->assemble(ptx, "test", options, out);
  EXPECT_TRUE(bool(status)) << status.text;
  return bool(status);
}

} // namespace tegula::nvidia
