// Targets by name, and what objects may contain: known relocations, no foreign symbols, 512-bit vectors where asked
// for.
#include "JitLibrary.h"
#include "Machine.h"
#include "targets/Target.h"
#include "targets/common/Pipeline.h"
#include "targets/cpu/emit/Dot.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Pass.h"
#include "llvm/PassRegistry.h"
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

namespace tegula::cpu {
namespace {

using ir::Elem;
using ir::OpKind;

TEST(Target, NamesAreKnownAndKeysDiffer) {
  std::set<std::string> keys;
  for (const std::string &name : knownTargetNames()) {
    auto t = parseTarget(name);
    ASSERT_TRUE(t) << name;
    EXPECT_GE(t->vectorBits, 128u);
    keys.insert(targetKey(*t));
  }
  EXPECT_GE(keys.size(), 5u);
  EXPECT_EQ(parseTarget("cpu"), parseTarget("cpu:native"));
  EXPECT_FALSE(parseTarget("cpu:z80"));
  EXPECT_FALSE(parseTarget("cuda"));
  EXPECT_FALSE(parseTarget(""));
}

// Held to fewer instructions, a machine keeps its caches: what the blocks of a dot and streaming stores are chosen by.
TEST(Codegen, TunedForAMachine) {
  CpuTarget machine = *parseTarget("cpu:avx512bf16");
  machine.l1Bytes = 48 << 10, machine.l2Bytes = 2 << 20, machine.l3Bytes = 64 << 20, machine.slowPairsOfBf16 = true;
  const CpuTarget code = *parseTarget("cpu:avx512"), tuned = tunedFor(code, machine);
  EXPECT_TRUE(tuned.lastLevelIsFar() && !code.lastLevelIsFar());
  EXPECT_EQ(tuned.l1Bytes, machine.l1Bytes);
  EXPECT_EQ(tuned.l3Bytes, machine.l3Bytes);
  EXPECT_TRUE(tuned.slowPairsOfBf16 && !tuned.avx512Bf16);
  EXPECT_EQ(tuned.features, code.features);
  EXPECT_NE(targetKey(tuned), targetKey(code));
}

// A kernel that is saved and comes back is compiled again for the machine that it was for.
TEST(Codegen, SavedTargetsComeBackWithAllThatDecides) {
  auto cpus = std::find_if(targets::families().begin(), targets::families().end(),
                           [](const targets::Family *f) { return f->name == std::string("cpu"); });
  ASSERT_NE(cpus, targets::families().end());
  for (const std::string &name : knownTargetNames()) {
    targets::TargetRef t = (*cpus)->parse(name), back = (*cpus)->restore(t->saved());
    ASSERT_TRUE(back) << name;
    EXPECT_EQ(back->key(), t->key()) << name;
    // Each instruction set and habit of a core is a byte of its own before the sizes of three caches: none is lost.
    for (size_t flag = 0; flag < 8; ++flag) {
      std::string other = t->saved();
      char &byte = other[other.size() - 3 * sizeof(uint64_t) - 1 - flag];
      byte = !byte;
      targets::TargetRef changed = (*cpus)->restore(other);
      ASSERT_TRUE(changed) << name << ", " << flag;
      EXPECT_EQ(changed->saved(), other) << name << ", " << flag;
      EXPECT_NE(changed->key(), t->key()) << name << ", " << flag;
    }
  }
}

TEST(Codegen, UnknownTripleIsADiagnostic) {
  CpuTarget t = *parseTarget("cpu:x86-64");
  t.triple = "sparc-unknown-linux-gnu";
  DiagEngine diag;
  EXPECT_EQ(createTargetMachine(t, {}, diag), nullptr);
  EXPECT_EQ(renderAll(diag),
            "error: this build cannot generate code for `sparc-unknown-linux-gnu` [noCodegenForTarget]\n");
}

TEST(Codegen, MalformedModulesAreNamedWithTheirStage) {
  llvm::LLVMContext context;
  llvm::Module m("m", context);
  auto *f = llvm::Function::Create(llvm::FunctionType::get(llvm::Type::getVoidTy(context), false),
                                   llvm::Function::ExternalLinkage, "f", m);
  auto *block = llvm::BasicBlock::Create(context, "entry", f);
  DiagEngine diag;
  EXPECT_FALSE(targets::verifyModule(m, "before optimization", {}, diag));
  EXPECT_EQ(
      renderAll(diag).find(
          "error: internal error: the LLVM IR is malformed before optimization: Basic Block in function 'f' does not have terminator!"),
      0u)
      << renderAll(diag);
  llvm::ReturnInst::Create(context, block);
  DiagEngine none;
  EXPECT_TRUE(targets::verifyModule(m, "before optimization", {}, none));
  EXPECT_FALSE(none.hasErrors());
}

// A thousand loops one after the other took 8 s, and twice as many 25; 400 integer divisions to PTX 4.6 s, now 0.3.
// Should LLVM give these passes other names, nothing else would tell.
TEST(Codegen, SlowPassesAreLeftOut) {
  using Of = targets::SlowPass::Of;
  DiagEngine diag;
  auto machine = createTargetMachine(*parseTarget("cpu:x86-64"), {}, diag);
  struct Names final : llvm::PassRegistrationListener {
    std::set<std::string> known;
    void passEnumerate(const llvm::PassInfo *p) override { known.insert(p->getPassName().str()); }
  };
  struct Case {
    unsigned functions, blocks, stores; // of each
    bool hasManyBlocks, hasManyInstructions, hasFiftyThousand;
  };
  for (const Case &c : {Case{1, 2, 1, false, false, false},
                        {1, 3000, 1, true, false, false},
                        {1, 2, 5000, false, true, false},
                        {8, 300, 5, true, true, false},
                        {1, 2, 26000, false, true, true},
                        {8, 300, 21, true, true, true}}) {
    llvm::LLVMContext context;
    llvm::Module m("loops", context);
    m.setDataLayout(machine->createDataLayout());
    llvm::IRBuilder<> b(context);
    for (unsigned n = 0; n < c.functions; ++n) {
      auto *f = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false),
                                       llvm::Function::ExternalLinkage, "f", m);
      b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", f));
      for (unsigned i = 0; i < c.blocks; ++i) {
        auto *next = llvm::BasicBlock::Create(context, "", f);
        b.CreateBr(next);
        b.SetInsertPoint(next);
        for (unsigned k = 0; k < c.stores; ++k)
          b.CreateStore(b.getInt8(0), f->getArg(0), true);
      }
      b.CreateRetVoid();
    }
    emitAssembly(m, *machine);
    for (const targets::SlowPass &p : targets::slowPasses())
      EXPECT_EQ(context.getOptPassGate().shouldRunPass(p.name, "function (f)"),
                (p.of == Of::ManyBlocks && !c.hasManyBlocks) ||
                    (p.of == Of::ManyInstructions && !c.hasManyInstructions) ||
                    (p.of == Of::FiftyThousand && !c.hasFiftyThousand))
          << p.name.str();
  }
  // Those of PTX are known when its passes are.
  llvm::LLVMContext context;
  llvm::Module m("none", context);
  auto ptx = targets::createMachine({"nvptx64-nvidia-cuda", "sm_90", "+ptx84", 2});
  m.setDataLayout(ptx->createDataLayout());
  targets::emitAssemblyText(m, *ptx);
  Names names;
  llvm::PassRegistry::getPassRegistry()->enumerateWith(&names);
  for (const targets::SlowPass &p : targets::slowPasses())
    EXPECT_TRUE(names.known.contains(p.name.str())) << p.name.str();
}

/// `count` loops in a row from 0 to the function's second argument, each with a test at its beginning.
llvm::Function *loopsInARow(llvm::Module &m, unsigned count) {
  llvm::LLVMContext &context = m.getContext();
  llvm::IRBuilder<> b(context);
  auto *f = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt32Ty()}, false),
                                   llvm::Function::ExternalLinkage, "f", m);
  auto block = [&] { return llvm::BasicBlock::Create(context, "", f); };
  b.SetInsertPoint(block());
  for (unsigned i = 0; i < count; ++i) {
    llvm::BasicBlock *before = b.GetInsertBlock(), *head = block(), *body = block(), *end = block();
    b.CreateBr(head);
    b.SetInsertPoint(head);
    llvm::PHINode *at = b.CreatePHI(b.getInt32Ty(), 2);
    b.CreateCondBr(b.CreateICmpSLT(at, f->getArg(1)), body, end);
    b.SetInsertPoint(body);
    b.CreateStore(at, f->getArg(0), true);
    at->addIncoming(b.getInt32(0), before);
    at->addIncoming(b.CreateAdd(at, b.getInt32(1)), body);
    b.CreateBr(head);
    b.SetInsertPoint(end);
  }
  b.CreateRetVoid();
  return f;
}

// 330 such loops took 12 s to PTX, a thousand 184.
TEST(Codegen, LoopsOfLargeFunctionsTestAtTheirEnd) {
  DiagEngine diag;
  auto machine = targets::createMachine({"nvptx64-nvidia-cuda", "sm_90", "+ptx84", 2});
  for (unsigned count : {10u, 1000u}) {
    llvm::LLVMContext context;
    llvm::Module m("loops", context);
    llvm::Function *f = loopsInARow(m, count);
    targets::rotateLoopsOfLarge(m, *machine);
    EXPECT_TRUE(targets::verifyModule(m, "after rotation", {}, diag));
    size_t atEnd = 0;
    for (llvm::BasicBlock &b : *f)
      atEnd += llvm::is_contained(llvm::successors(&b), &b) && llvm::isa<llvm::BranchInst>(b.getTerminator()) &&
               b.getTerminator()->getNumSuccessors() == 2;
    EXPECT_EQ(atEnd, count == 10 ? 0 : count);
  }
}

// A thousand loops in a row took 3.8 s, 2000 of them 18: what the cleanup had hoisted out of the loop over programs was
// alive in all of them. Now 1.1 and 2.9.
TEST(Codegen, NothingIsHoistedOutOfLoopsOfManyBlocks) {
  DiagEngine diag;
  auto machine = createTargetMachine(*parseTarget("cpu:x86-64"), {}, diag);
  for (unsigned count : {10u, 1000u}) {
    llvm::LLVMContext context;
    llvm::Module m("loops", context);
    llvm::Function *f = loopsInARow(m, count);
    llvm::IRBuilder<> b(context);
    // Around them a loop that ends when a byte is set; in it, one addition of two arguments for each inner loop, in
    // that.
    llvm::BasicBlock *first = &f->getEntryBlock(), *last = &f->back();
    last->getTerminator()->eraseFromParent();
    auto *entry = llvm::BasicBlock::Create(context, "entry", f, first),
         *exit = llvm::BasicBlock::Create(context, "exit", f);
    b.SetInsertPoint(entry);
    b.CreateBr(first);
    b.SetInsertPoint(last);
    b.CreateCondBr(b.CreateTrunc(b.CreateLoad(b.getInt8Ty(), f->getArg(0), true), b.getInt1Ty()), exit, first);
    b.SetInsertPoint(exit);
    b.CreateRetVoid();
    unsigned number = 0;
    for (llvm::BasicBlock &block : *f)
      if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&block.front())) {
        b.SetInsertPoint(store);
        b.CreateStore(b.CreateAdd(f->getArg(1), b.getInt32(++number)), f->getArg(0), true);
      }
    ASSERT_EQ(number, count);
    targets::runPipeline(m, *machine, targets::cleanupPasses(2)); // which is cut later
    EXPECT_TRUE(targets::verifyModule(m, "after the cleanup", {}, diag));
    auto isSum = [&](const llvm::Instruction &i) {
      return i.getOpcode() == llvm::Instruction::Add && i.getOperand(0) == f->getArg(1);
    };
    // Out of the inner loops in any case, which are found in a large one, too.
    size_t before = llvm::count_if(f->getEntryBlock(), isSum), inside = 0, inLoops = 0;
    for (llvm::BasicBlock &block : *f) {
      size_t sums = llvm::count_if(block, isSum);
      inside += &block != &f->getEntryBlock() ? sums : 0;
      inLoops += llvm::is_contained(llvm::successors(&block), &block) ||
                         llvm::any_of(block, [](llvm::Instruction &i) { return llvm::isa<llvm::StoreInst>(i); })
                     ? sums
                     : 0;
    }
    EXPECT_EQ(before, count == 10 ? count : 0);
    EXPECT_EQ(inside, count == 10 ? 0 : count);
    EXPECT_EQ(inLoops, 0u);
  }
}

/// One function per element-wise operation, cast and elementary function, and some dots.
void buildEverything(llvm::Module &m, const CpuTarget &target) {
  llvm::LLVMContext &context = m.getContext();
  llvm::IRBuilder<> b(context);
  Options options;
  VecEmitter v{b, vecTarget(target, options)};
  auto begin = [&](const std::string &name, llvm::Type *result, std::vector<llvm::Type *> args) {
    auto *f =
        llvm::Function::Create(llvm::FunctionType::get(result, args, false), llvm::Function::ExternalLinkage, name, m);
    b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", f));
    return f;
  };
  auto unaryOrMore = [&](OpKind k, Elem from, Elem to, unsigned lanes) {
    ir::Op op{};
    op.kind = k;
    std::vector<llvm::Type *> types(static_cast<size_t>(ir::info(k).operands), v.vecType(from, lanes));
    auto *f = begin(std::string(ir::info(k).name) + ir::name(from) + ir::name(to) + std::to_string(lanes),
                    v.vecType(to, lanes), types);
    std::vector<llvm::Value *> args;
    for (llvm::Argument &a : f->args())
      args.push_back(&a);
    b.CreateRet(v.elementwise(op, args, from, to));
  };
  const Elem floats[] = {Elem::F8E5M2, Elem::F8E4M3FN, Elem::F8E4B15, Elem::F8E4B8, Elem::F8E5B16,
                         Elem::F16, Elem::BF16, Elem::F32, Elem::F64};
  const Elem ints[] = {Elem::I1, Elem::I8, Elem::I16, Elem::I32, Elem::I64};
  unsigned lanes = target.vectorBits / 32;
  for (int k = int(OpKind::Add); k < int(OpKind::CmpI); ++k)
    for (Elem e : ints)
      unaryOrMore(OpKind(k), e, e, lanes);
  for (int k = int(OpKind::FAdd); k < int(OpKind::CmpF); ++k)
    for (Elem e : floats)
      unaryOrMore(OpKind(k), e, e, lanes);
  for (int k = int(OpKind::Exp); k <= int(OpKind::Ceil); ++k)
    for (Elem e : {Elem::F32, Elem::F64})
      for (unsigned n : {1u, lanes})
        unaryOrMore(OpKind(k), e, e, n);
  for (Elem f : floats) {
    for (Elem i : ints)
      for (auto [k, from, to] :
           {std::tuple{OpKind::SIToFp, i, f}, {OpKind::UIToFp, i, f}, {OpKind::FpToSI, f, i}, {OpKind::FpToUI, f, i}})
        unaryOrMore(k, from, to, lanes);
    if (f != Elem::F32 && f != Elem::F64)
      for (Elem wide : {Elem::F32, Elem::F64}) {
        unaryOrMore(OpKind::FpTrunc, wide, f, lanes);
        unaryOrMore(OpKind::FpExt, f, wide, lanes);
      }
  }
  for (auto [e, acc] :
       {std::pair{Elem::F32, Elem::F32}, {Elem::BF16, Elem::F32}, {Elem::I8, Elem::I32}, {Elem::F64, Elem::F64}})
    for (int64_t n : {1, 64}) {
      auto *f = begin(std::string("dot") + ir::name(e) + std::to_string(n), b.getVoidTy(),
                      {b.getPtrTy(), b.getPtrTy(), b.getPtrTy()});
      emitDot(v, target, dotPlan(target, e, e, acc, 32, n, 64, "ieee"), f->getArg(0), f->getArg(1), f->getArg(2), true);
      b.CreateRetVoid();
    }
}

/// Megabytes of this process that the kernel was asked to use large pages for; -1: it does not say.
long megabytesOfLargePages() {
  std::ifstream maps("/proc/self/smaps");
  long kilobytes = 0, size = 0;
  bool saysFlags = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with("Size:"))
      size = std::atol(line.c_str() + 5);
    if (!line.starts_with("VmFlags:"))
      continue;
    saysFlags = true;
    if (line.find(" hg") != line.npos)
      kilobytes += size;
  }
  return saysFlags ? kilobytes >> 10 : -1;
}

TEST(Heap, HasLargePagesInEachThreadThatCompiles) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled") || megabytesOfLargePages() < 0)
    GTEST_SKIP() << "this kernel has no large pages, or does not tell";
  const targets::MachineSpec spec{"nvptx64-nvidia-cuda", "sm_90", "+ptx84", 2};
  targets::createMachine(spec);
  const long one = megabytesOfLargePages();
  EXPECT_GE(one, 20);
  std::thread([&] { targets::createMachine(spec); }).join();
  EXPECT_GE(megabytesOfLargePages(), one);
  targets::createMachine(spec);
  EXPECT_LE(megabytesOfLargePages(), 3 * one) << "once for each thread";
}

class ObjectTest : public testing::TestWithParam<std::string> {};

TEST_P(ObjectTest, OnlyAgreedSymbolsAndRelocations) {
  CpuTarget target = *parseTarget(GetParam());
  llvm::LLVMContext context;
  llvm::Module m("everything", context);
  buildEverything(m, target);
  DiagEngine diag;
  auto tm = createTargetMachine(target, {}, diag);
  ASSERT_TRUE(tm);
  optimize(m, *tm, {});
  std::vector<char> bytes = emitObject(m, *tm);
  auto object = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(bytes.data(), bytes.size()), "everything"));
  ASSERT_TRUE(bool(object));

  const std::set<std::string> allowed = {
#define CPU_SYMBOL(name) #name,
#include "abi/CpuSymbols.def"
  };
  for (const llvm::object::SymbolRef &s : (*object)->symbols())
    if (llvm::cantFail(s.getFlags()) & llvm::object::SymbolRef::SF_Undefined) {
      std::string name = llvm::cantFail(s.getName()).str();
      EXPECT_TRUE(name.empty() || allowed.count(name)) << name;
    }
  std::set<std::string> kinds;
  for (const llvm::object::SectionRef &s : (*object)->sections())
    for (const llvm::object::RelocationRef &r : s.relocations()) {
      llvm::SmallString<32> name;
      r.getTypeName(name);
      kinds.insert(name.str().str());
    }
  const std::set<std::string> x86 = {"R_X86_64_PC32", "R_X86_64_PLT32", "R_X86_64_64", "R_X86_64_PC64"};
  for (const std::string &k : kinds) {
    printf("  %s uses %s\n", GetParam().c_str(), k.c_str());
    if (target.triple.starts_with("x86_64"))
      EXPECT_TRUE(x86.count(k)) << k;
  }
}
INSTANTIATE_TEST_SUITE_P(Targets, ObjectTest, testing::ValuesIn(knownTargetNames()), test::testName);

TEST(Codegen, Avx512UsesWholeRegisters) {
  for (const char *name : {"cpu:avx512", "cpu:avx512bf16"}) {
    CpuTarget target = *parseTarget(name);
    llvm::LLVMContext context;
    llvm::Module m("m", context);
    llvm::IRBuilder<> b(context);
    llvm::Type *t = llvm::FixedVectorType::get(b.getFloatTy(), 16), *p = b.getPtrTy();
    auto *f = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {p, p}, false),
                                     llvm::Function::ExternalLinkage, "f", m);
    b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", f));
    llvm::Value *x = b.CreateAlignedLoad(t, f->getArg(0), llvm::Align(4));
    b.CreateAlignedStore(b.CreateFAdd(x, x), f->getArg(1), llvm::Align(4));
    b.CreateRetVoid();
    DiagEngine diag;
    auto tm = createTargetMachine(target, {}, diag);
    optimize(m, *tm, {});
    EXPECT_NE(emitAssembly(m, *tm).find("zmm"), std::string::npos) << name;
  }
}

} // namespace
} // namespace tegula::cpu
