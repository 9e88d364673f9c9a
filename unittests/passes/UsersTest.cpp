// The index of users: each once, in the order of the text; single notes.
#include "ParsedIr.h"
#include "passes/Users.h"
#include <gtest/gtest.h>

using namespace tegula;

TEST(Users, EachOnceInTheOrderOfTheText) {
  std::unique_ptr<ir::Module> m = test::parsed(R"(kernel @k(%p: ptr<i32>, %c: i1) {
  %x = const {value = 3} : i32
  %s = mul %x, %x
  %y = if %c : i32 {
    %t = add %x, %s
    yield %t
  } else {
    yield %s
  }
  store %p, %y
})");
  ASSERT_TRUE(m);
  const ir::Block &b = *m->kernel()->block();
  ir::Op *square = b.ops[1], *branch = b.ops[2], *sum = branch->region(0)->ops[0];
  const ir::Value *x = b.ops[0]->result(), *s = square->result();
  Users users(b);
  ASSERT_EQ(users.of(x).size(), 2u); // the square once
  EXPECT_EQ(users.of(x)[0], square);
  EXPECT_EQ(users.of(x)[1], sum);
  EXPECT_EQ(users.only(x), nullptr);
  EXPECT_EQ(users.of(s).size(), 2u); // the sum and a yield
  EXPECT_EQ(users.only(branch->result()), b.ops[3]);
  EXPECT_EQ(users.take(x), (std::vector<ir::Op *>{square, sum}));
  EXPECT_TRUE(users.of(x).empty());
  EXPECT_TRUE(users.take(x).empty());
  users.note(x, branch); // a pass that says the branch uses what is used in it
  users.note(x, branch);
  EXPECT_EQ(users.only(x), branch);
}
