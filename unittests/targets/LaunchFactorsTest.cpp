// Which launches are asked to run the exact form of code whose addresses have factors that only they know.
#include "targets/cpu/emit/LaunchFactors.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include <gtest/gtest.h>

namespace {
using namespace tegula;
using namespace tegula::cpu;

class LaunchFactorsTest : public testing::Test {
protected:
  static constexpr unsigned arguments = 12;
  LaunchFactorsTest() : module("m", context), b(context) {
    llvm::SmallVector<llvm::Type *> types(arguments, b.getInt32Ty());
    auto *f = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), types, false),
                                     llvm::GlobalValue::ExternalLinkage, "f", module);
    b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", f));
    for (unsigned i = 0; i < arguments; ++i)
      factors.isArgument(argument[i] = f->getArg(i), i);
    loaded = b.CreateLoad(b.getInt32Ty(), llvm::ConstantPointerNull::get(b.getPtrTy()));
  }
  uint8_t formFor(int64_t x, int64_t y, int64_t programs = 1) const {
    LaunchFacts facts;
    facts.programs = programs, facts.arguments.assign(arguments, 0);
    facts.arguments[0] = x, facts.arguments[1] = y;
    return factors.forms().formFor(facts);
  }

  llvm::LLVMContext context;
  llvm::Module module;
  llvm::IRBuilder<> b;
  LaunchFactors factors{false};
  llvm::Value *argument[arguments], *loaded;
};

TEST_F(LaunchFactorsTest, AsksNothingWithoutFactors) { EXPECT_FALSE(factors.forms().asks()); }

TEST_F(LaunchFactorsTest, StridesAreSmallUpToTheirLimits) {
  factors.assume(argument[0], 64, 6400);
  factors.assume(argument[1], 10, 6400);
  factors.assume(argument[1], 1, 6400); // holds where the one before does
  const LaunchForms forms = factors.forms();
  EXPECT_TRUE(forms.isValid(arguments));
  EXPECT_EQ(forms.form, plainForm);
  EXPECT_EQ(formFor(99, 639), plainForm);
  EXPECT_EQ(formFor(100, 0), exactForm);
  EXPECT_EQ(formFor(-100, 0), exactForm);
  EXPECT_EQ(formFor(0, 640), exactForm);
  EXPECT_EQ(formFor(INT32_MIN, 0), exactForm);
}

TEST_F(LaunchFactorsTest, BoundsAreThoseOfArithmeticModulo2To32) {
  factors.assume(b.CreateMul(b.CreateAdd(argument[0], b.getInt32(1)), argument[1]), 1, 1000);
  EXPECT_EQ(formFor(9, 99), plainForm);
  EXPECT_EQ(formFor(9, 100), exactForm);
  EXPECT_EQ(formFor(INT32_MAX, INT32_MAX), exactForm);
  EXPECT_EQ(formFor(INT32_MAX, 0), plainForm);
}

TEST_F(LaunchFactorsTest, ProgramsAreFewerThanTheGrids) {
  llvm::Value *pid = b.CreateLoad(b.getInt32Ty(), llvm::ConstantPointerNull::get(b.getPtrTy()));
  factors.isProgram(pid);
  factors.assume(pid, 100, 10000);
  EXPECT_EQ(formFor(0, 0, 99), plainForm);
  EXPECT_EQ(formFor(0, 0, 100), exactForm);
}

TEST_F(LaunchFactorsTest, CountersAreBetweenTheirBounds) {
  factors.isBetween(loaded, argument[0], b.CreateAdd(argument[1], b.getInt32(3)));
  factors.assume(loaded, 1, 100);
  EXPECT_EQ(formFor(-99, 96), plainForm);
  EXPECT_EQ(formFor(-100, 0), exactForm);
  EXPECT_EQ(formFor(0, 97), exactForm);
}

TEST_F(LaunchFactorsTest, ManyStridesHaveOneLimit) {
  for (unsigned i = 0; i < 9; ++i)
    factors.assume(argument[i], i + 1, 900);
  EXPECT_TRUE(factors.forms().isValid(arguments));
  EXPECT_EQ(formFor(99, 99), plainForm);
  EXPECT_EQ(formFor(100, 0), exactForm);
  for (unsigned i = 9; i < arguments; ++i)
    factors.assume(argument[i], i + 1, 900);
  EXPECT_FALSE(factors.forms().asks());
}

TEST_F(LaunchFactorsTest, WhatIsLoadedIsNotAskedFor) {
  EXPECT_TRUE(factors.mayAssume(loaded));
  factors.assume(loaded, 1, 10);
  factors.assume(b.CreateAdd(loaded, argument[0]), 1, 10);
  EXPECT_FALSE(factors.forms().asks());
}

TEST_F(LaunchFactorsTest, TheExactFormCountsOnConstantsOnly) {
  LaunchFactors exact(true);
  EXPECT_FALSE(exact.mayAssume(argument[0]));
  EXPECT_TRUE(exact.mayAssume(b.getInt32(5)));
}

} // namespace
