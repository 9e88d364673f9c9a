#include "targets/common/Scheduler.h"
#include "llvm/Support/CommandLine.h"
#include <gtest/gtest.h>

// LLVM has no interface to it but the option: one that is gone, or does not know our scheduler, would leave the slow
// one in place without a word.
TEST(Scheduler, OursIsTheOneThatLlvmAsks) {
  tegula::targets::chooseScheduler();
  auto &options = llvm::cl::getRegisteredOptions();
  auto option = options.find("pre-RA-sched");
  ASSERT_NE(option, options.end());
  EXPECT_EQ(option->second->getNumOccurrences(), 1);
  EXPECT_TRUE(option->second->addOccurrence(0, "pre-RA-sched", "no scheduler"));
  EXPECT_FALSE(option->second->addOccurrence(0, "pre-RA-sched", "tegula"));
}
