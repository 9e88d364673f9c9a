// ProgramDependence: which values differ from program to program.
#include "gpu/ProgramDependence.h"
#include "ParsedIr.h"
#include "ir/Walk.h"
#include <string>
#include <vector>

namespace tegula::gpu {
namespace {

using namespace ir;

/// The names of the values that depend on the program, in the order of the text.
std::vector<std::string> dependent(const std::string &body) {
  const auto m = test::parsed("kernel @k(%p: ptr<i32>, %n: i32, %c: i1) {\n" + body + "}\n");
  std::vector<std::string> out;
  if (!m)
    return out;
  ProgramDependence depends;
  anyValue(*m->kernel()->block(), [&](const Value &v) {
    if (depends.of(&v))
      out.push_back(v.name);
    return false;
  });
  // The answer to one question does not depend on those before it.
  std::vector<std::string> alone;
  anyValue(*m->kernel()->block(), [&](const Value &v) {
    if (ProgramDependence().of(&v))
      alone.push_back(v.name);
    return false;
  });
  EXPECT_EQ(out, alone);
  return out;
}
using Names = std::vector<std::string>;

TEST(ProgramDependence, FollowsOperands) {
  EXPECT_EQ(
      dependent(
          "%i = program_id {axis = 0} : i32\n %m = add %n, %n\n %s = add %i, %m\n %a = addptr %p, %s\n %x = load %a : i32\n %y = load %p : i32\n"),
      (Names{"i", "s", "a", "x"}));
  EXPECT_EQ(dependent("%g = num_programs {axis = 0} : i32\n"), (Names{"g"}));
}

TEST(ProgramDependence, CounterOfALoopByFirstValueAndStep) {
  EXPECT_EQ(dependent("%i = program_id {axis = 0} : i32\n for %i, %n, %n (%t: i32) { %u = add %t, %n\n yield }\n"),
            (Names{"i", "t", "u"}));
  // the last value only says how often
  EXPECT_EQ(dependent("%i = program_id {axis = 0} : i32\n for %n, %i, %n (%t: i32) { yield }\n"), (Names{"i"}));
}

TEST(ProgramDependence, CarriedInACircle) {
  // %a takes %b, which takes what depends on the program: %a does one iteration later, whichever is asked first.
  EXPECT_EQ(
      dependent(
          "%i = program_id {axis = 0} : i32\n %r, %s, %q = for %n, %n, %n, %n, %n, %n : i32, i32, i32 (%t: i32, %a: i32, %b: i32, %d: i32) { %e = add %b, %i\n yield %b, %e, %d }\n"),
      (Names{"i", "r", "s", "a", "b", "e"}));
}

TEST(ProgramDependence, BehindLoopsAndBranchesByHowOftenAndWhether) {
  EXPECT_EQ(
      dependent(
          "%i = program_id {axis = 0} : i32\n %r = for %n, %i, %n, %n : i32 (%t: i32, %a: i32) { %b = add %a, %n\n yield %b }\n"),
      (Names{"i", "r"}));
  EXPECT_EQ(
      dependent(
          "%i = program_id {axis = 0} : i32\n %z = cmpi %i, %n {pred = eq}\n %r = if %z : i32 { yield %n } else { yield %n }\n %q = if %c : i32 { yield %n } else { yield %n }\n"),
      (Names{"i", "z", "r"}));
}

TEST(ProgramDependence, WhileLoops) {
  EXPECT_EQ(
      dependent(
          "%i = program_id {axis = 0} : i32\n %r, %s = while %n, %n : i32, i32 (%a: i32, %b: i32) { condition %c, %a, %b } do (%d: i32, %e: i32) { %f = add %d, %i\n yield %f, %e }\n"),
      (Names{"i", "r", "a", "d", "f"}));
}

} // namespace
} // namespace tegula::gpu
