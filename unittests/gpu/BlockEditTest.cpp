// BlockEditor: changes of a block that take place together.
#include "gpu/BlockEdit.h"
#include "ir/Builder.h"
#include <gtest/gtest.h>

namespace tegula::gpu {
namespace {

using namespace ir;

struct BlockEditTest : ::testing::Test {
  Module m;
  Function *f = m.createFunction("f", {}, {}, Loc{});
  Block &entry = *f->block();
  Builder b{m};
  BlockEditTest() {
    b.setFolding(false);
    b.setBlock(&entry);
  }
  Value *add(Value *x, Value *y) { return b.binary(OpKind::Add, x, y); }
  /// An operation of a temporary block.
  Value *made(Block &to, int32_t n) {
    b.setBlock(&to);
    return b.constI32(n);
  }
};

TEST_F(BlockEditTest, PlacesAreInTheOrderOfTheCalls) {
  Value *x = b.constI32(1), *y = b.constI32(2), *sum = add(x, y);
  Block here;
  Value *first, *second, *in;
  {
    BlockEditor edit(entry);
    first = made(here, 10);
    edit.insertBefore(sum->def, here);
    in = made(here, 20);
    edit.replace(y->def, here);
    edit.replaceUses(y, in);
    second = made(here, 30);
    edit.insertBefore(sum->def, here);
    EXPECT_EQ(edit.positionOf(sum->def), 2u);
    EXPECT_EQ(entry.ops.size(), 3u) << "nothing changes before the end";
    EXPECT_TRUE(here.ops.empty());
  }
  EXPECT_EQ(entry.ops, (std::vector<Op *>{x->def, in->def, first->def, second->def, sum->def}));
  EXPECT_EQ(sum->def->operands[1], in);
  for (const Op *op : entry.ops)
    EXPECT_EQ(op->parent, &entry);
}

TEST_F(BlockEditTest, UsersFollowTheChanges) {
  Value *x = b.constI32(1), *y = b.constI32(2), *both = add(x, x), *one = add(y, x);
  BlockEditor edit(entry);
  EXPECT_EQ(edit.users(x), (std::vector<Op *>{both->def, one->def}));
  edit.erase(both->def);
  EXPECT_EQ(edit.users(x), (std::vector<Op *>{one->def}));
  edit.replaceUses(x, y);
  EXPECT_TRUE(edit.users(x).empty());
  EXPECT_EQ(edit.users(y), (std::vector<Op *>{one->def}));
}

// A replacement that is replaced, and uses in what was moved there and in regions.
TEST_F(BlockEditTest, UsesAreReplacedEverywhere) {
  Value *x = b.constI32(1), *y = b.constI32(2), *z = b.constI32(3);
  Op *loop = b.forOp(x, y, z, {});
  b.setBlock(loop->region(0));
  Value *inside = add(x, y);
  Block here;
  b.setBlock(&here);
  Value *moved = add(x, z);
  {
    BlockEditor edit(entry);
    EXPECT_EQ(edit.users(x), (std::vector<Op *>{loop}));
    edit.insertBefore(loop, here);
    edit.replaceUses(x, y);
    edit.replaceUses(y, z);
  }
  EXPECT_EQ(inside->def->operands, (decltype(inside->def->operands){z, z}));
  EXPECT_EQ(moved->def->operands[0], z);
  EXPECT_EQ(loop->operands[0], z);
}

} // namespace
} // namespace tegula::gpu
