// See JitLibrary.h.
#include "JitLibrary.h"
#include "Machine.h"
#include "TestPaths.h"
#include "targets/nvidia/Codegen.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Verifier.h"
#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace tegula::cpu {

JitLibrary::JitLibrary(const std::string &targetName, Options options)
    : target_(*parseTarget(targetName == "gpu" ? test::machineName() : targetName)), options_(options),
      module_(std::make_unique<llvm::Module>("test", context_)),
      emulated_(target_.triple.substr(0, 7) != parseTarget(test::machineName())->triple.substr(0, 7)) {
  if (targetName == "gpu")
    gpu_ = nvidia::gpuOfThisMachine();
}

JitLibrary::~JitLibrary() {
  if (handle_)
    dlclose(handle_);
  if (!path_.empty())
    std::filesystem::remove_all(path_);
}

void JitLibrary::addElementwise(const std::string &name, unsigned lanes, llvm::ArrayRef<ir::Elem> args, ir::Elem result,
                                const Body &body) {
  entries_[name] = {{args.begin(), args.end()}, result, entries_.size()};
  llvm::IRBuilder<> b(context_);
  VecEmitter v{b, vecTargetOf()};
  llvm::Type *ptr = b.getPtrTy(), *i64 = b.getInt64Ty();
  auto *f = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {ptr, ptr, i64}, false),
                                   llvm::Function::ExternalLinkage, symbolOf(name), *module_);
  auto *entry = llvm::BasicBlock::Create(context_, "entry", f), *loop = llvm::BasicBlock::Create(context_, "loop", f),
       *exit = llvm::BasicBlock::Create(context_, "exit", f);
  b.SetInsertPoint(entry);
  llvm::Value *first = b.getInt64(0), *step = b.getInt64(lanes);
  if (gpu_) {
    nvidia::markKernel(*f, {.threads = nvidia::GpuLibrary::threads});
    auto special = [&](llvm::Intrinsic::ID id) { return b.CreateZExt(b.CreateIntrinsic(id, {}, {}), i64); };
    llvm::Value *block = special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
    llvm::Value *thread = special(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
    first = b.CreateMul(b.CreateAdd(b.CreateMul(block, b.getInt64(nvidia::GpuLibrary::threads)), thread), step);
    step = b.getInt64(uint64_t(lanes) * nvidia::GpuLibrary::threads * nvidia::GpuLibrary::blocks);
  }
  b.CreateCondBr(b.CreateICmpSLT(first, f->getArg(2)), loop, exit);
  b.SetInsertPoint(loop);
  llvm::PHINode *iv = b.CreatePHI(i64, 2);
  iv->addIncoming(first, entry);
  // In memory i1 is a byte.
  auto memElem = [&](ir::Elem e) { return e == ir::Elem::I1 ? ir::Elem::I8 : e; };
  std::vector<llvm::Value *> values;
  for (size_t k = 0; k < args.size(); ++k) {
    llvm::Value *base = b.CreateLoad(ptr, b.CreateConstGEP1_64(ptr, f->getArg(0), k));
    llvm::Value *p = b.CreateGEP(v.elemType(memElem(args[k])), base, iv);
    llvm::Value *x = b.CreateAlignedLoad(v.vecType(memElem(args[k]), lanes), p, llvm::Align(1));
    values.push_back(args[k] == ir::Elem::I1 ? b.CreateTrunc(x, v.vecType(args[k], lanes)) : x);
  }
  llvm::Value *r = body(v, values);
  EXPECT_EQ(r->getType(), v.vecType(result, lanes)) << name;
  if (result == ir::Elem::I1)
    r = b.CreateZExt(r, v.vecType(ir::Elem::I8, lanes));
  b.CreateAlignedStore(r, b.CreateGEP(v.elemType(memElem(result)), f->getArg(1), iv), llvm::Align(1));
  llvm::Value *next = b.CreateAdd(iv, step);
  iv->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, f->getArg(2)), loop, exit);
  b.SetInsertPoint(exit);
  b.CreateRetVoid();
}

void JitLibrary::addPointers(const std::string &name,
                             const std::function<void(VecEmitter &, llvm::ArrayRef<llvm::Value *>)> &body) {
  entries_[name] = {{}, ir::Elem::Void, entries_.size()};
  llvm::IRBuilder<> b(context_);
  VecEmitter v{b, vecTargetOf()};
  llvm::Type *ptr = b.getPtrTy();
  auto *f = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {ptr, ptr, ptr}, false),
                                   llvm::Function::ExternalLinkage, name, *module_);
  for (unsigned k = 0; k < 3; ++k)
    f->addParamAttr(k, llvm::Attribute::NoAlias);
  b.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", f));
  body(v, {f->getArg(0), f->getArg(1), f->getArg(2)});
  b.CreateRetVoid();
}

bool JitLibrary::load() {
  using Clock = std::chrono::steady_clock;
  auto ms = [](Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  std::string error;
  llvm::raw_string_ostream os(error);
  if (llvm::verifyModule(*module_, &os)) {
    ADD_FAILURE() << error;
    return false;
  }
  if (gpu_)
    return loadOnGpu();
  DiagEngine diag;
  auto tm = createTargetMachine(target_, options_, diag);
  if (!tm) {
    ADD_FAILURE() << "no target machine";
    return false;
  }
  auto start = Clock::now();
  optimize(*module_, *tm, options_);
  auto middle = Clock::now();
  std::vector<char> object = emitObject(*module_, *tm);
  optimizeMs = ms(middle - start);
  emitMs = ms(Clock::now() - middle);

  std::string pattern = std::filesystem::temp_directory_path() / "tegula-test-XXXXXX";
  path_ = mkdtemp(pattern.data());
  std::ofstream(path_ + "/k.o", std::ios::binary).write(object.data(), static_cast<std::streamsize>(object.size()));
  if (emulated_)
    return linkForEmulator();
  std::string command = "ld.lld -shared -o " + path_ + "/k.so " + path_ + "/k.o";
  if (std::system(command.c_str()) != 0) {
    ADD_FAILURE() << command;
    return false;
  }
  handle_ = dlopen((path_ + "/k.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_)
    ADD_FAILURE() << dlerror();
  return handle_ != nullptr;
}

/// PTX knows letters, digits and _ only.
std::string JitLibrary::symbolOf(std::string name) const {
  if (gpu_)
    for (char &c : name)
      if (!isalnum(c))
        c = '_';
  return name;
}

targets::VecTarget JitLibrary::vecTargetOf() const {
  nvidia::Options onGpu;
  onGpu.fpFusion = options_.fpFusion;
  return gpu_ ? nvidia::vecTarget(*gpu_, onGpu) : vecTarget(target_, options_);
}

bool JitLibrary::loadOnGpu() {
  DiagEngine diag;
  nvidia::Options options;
  auto tm = nvidia::createTargetMachine(*gpu_, options, diag);
  if (!tm) {
    ADD_FAILURE() << "no target machine";
    return false;
  }
  nvidia::optimize(*module_, *tm, options);
  std::string ptx = nvidia::emitPtx(*module_, *tm);
  if (const char *folder = std::getenv("TEGULA_TEST_PTX_OUT")) { // to look at it
    const auto *test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test->test_suite_name()) + "." + test->name();
    std::replace(name.begin(), name.end(), '/', '_');
    std::ofstream(std::string(folder) + "/" + name + ".ptx") << ptx;
  }
  return onGpu_.load(ptx);
}

void *JitLibrary::symbol(const std::string &name) const {
  void *s = dlsym(handle_, name.c_str());
  EXPECT_NE(s, nullptr) << name;
  return s;
}

bool JitLibrary::linkForEmulator() {
  std::ofstream table(path_ + "/table.c");
  std::vector<std::string> names(entries_.size());
  for (const auto &[name, entry] : entries_) {
    names[entry.index] = name;
    table << "extern char f" << entry.index << "[] __asm__(\"" << name << "\");\n";
  }
  table << "const void *const testFunctions[] = {";
  for (size_t i = 0; i < names.size(); ++i)
    table << "f" << i << ", ";
  table << "0};\n";
  table.close();
  std::string command = "clang-19 --target=" + target_.triple +
                        " -O1 -ffreestanding -fno-builtin -nostdlib -static -fuse-ld=lld -w -o " + path_ + "/k " +
                        path_ + "/k.o " + path_ + "/table.c " + tegula::testSourceDir +
                        "/unittests/targets/EmulatorDriver.c";
  bool ok = std::system(command.c_str()) == 0;
  EXPECT_TRUE(ok) << command;
  return ok;
}

/// Layout of the request: see EmulatorDriver.c.
void JitLibrary::emulate(const Entry &e, std::vector<std::pair<const void *, size_t>> in, void *out, size_t outBytes,
                         int64_t n) const {
  uint64_t header[8] = {e.index, e.args.empty() ? 0u : 1u, in.size(), static_cast<uint64_t>(n)};
  for (size_t i = 0; i < in.size(); ++i)
    header[4 + i] = in[i].second;
  header[4 + in.size()] = outBytes;
  in.push_back({out, outBytes});
  std::ofstream request(path_ + "/in", std::ios::binary);
  request.write(reinterpret_cast<const char *>(header), sizeof header);
  for (auto [data, bytes] : in) {
    request.write(static_cast<const char *>(data), static_cast<std::streamsize>(bytes));
    for (size_t pad = bytes; pad % 64; ++pad)
      request.put(0);
  }
  request.close();
  std::string command = "qemu-" + target_.triple.substr(0, target_.triple.find('-')) + " " + path_ + "/k < " + path_ +
                        "/in > " + path_ + "/out";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  std::ifstream(path_ + "/out", std::ios::binary)
      .read(static_cast<char *>(out), static_cast<std::streamsize>(outBytes));
}

std::function<void(const void *const *, void *, int64_t)> JitLibrary::elementwise(const std::string &name) const {
  if (!emulated_ && !gpu_)
    return reinterpret_cast<void (*)(const void *const *, void *, int64_t)>(symbol(name));
  const Entry &e = entries_.at(name);
  return [this, &e, name](const void *const *in, void *out, int64_t n) {
    std::vector<std::pair<const void *, size_t>> inputs;
    for (size_t i = 0; i < e.args.size(); ++i)
      inputs.push_back({in[i], static_cast<size_t>(n) * ir::byteWidth(e.args[i])});
    size_t outBytes = static_cast<size_t>(n) * ir::byteWidth(e.result);
    if (gpu_)
      onGpu_.run(symbolOf(name), inputs, out, outBytes, n);
    else
      emulate(e, inputs, out, outBytes, n);
  };
}

std::function<void(void *, void *, void *)> JitLibrary::pointers(const std::string &name,
                                                                 std::array<size_t, 3> bytes) const {
  if (!emulated_)
    return reinterpret_cast<void (*)(void *, void *, void *)>(symbol(name));
  const Entry &e = entries_.at(name);
  return [this, &e, bytes](void *a, void *b, void *c) { emulate(e, {{a, bytes[0]}, {b, bytes[1]}}, c, bytes[2], 0); };
}

std::vector<std::string> runnableTargets() {
  if (!parseTarget(test::machineName())->triple.starts_with("x86_64"))
    return {test::machineName()};
  std::vector<std::string> names;
  for (const char *name : {"cpu:x86-64", "cpu:avx2", "cpu:avx2vnni", "cpu:avx512", "cpu:avx512bf16"})
    if (name != test::machineName() && test::runsHere(name))
      names.push_back(name);
  names.push_back(test::machineName());
  // Slow (a process a call), so only on demand.
  if (std::getenv("TEGULA_TEST_QEMU"))
    names.push_back("cpu:aarch64");
  else
    printf("not run here: cpu:aarch64; set TEGULA_TEST_QEMU=1 to run it by qemu-aarch64\n");
  return names;
}

std::vector<std::string> elementwiseTargets() {
  std::vector<std::string> names = runnableTargets();
  if (nvidia::gpuOfThisMachine())
    names.push_back("gpu");
  return names;
}

} // namespace tegula::cpu
