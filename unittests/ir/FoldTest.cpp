// What the builder folds, and what it must leave alone.
#include "ir/Builder.h"
#include "ir/Verifier.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace tegula::ir;

namespace {

struct Fold : testing::Test {
  Module m;
  Builder b{m};
  Function *f = nullptr;
  Value *x = nullptr, *y = nullptr;
  void SetUp() override {
    Type args[] = {Type::scalar(Elem::I32), Type::scalar(Elem::F32)};
    f = m.createFunction("k", args, {}, {});
    f->isKernel = true;
    b.setBlock(f->block());
    x = f->block()->args[0], y = f->block()->args[1];
  }
};

TEST_F(Fold, IntegerConstants) {
  EXPECT_EQ(constantInt(b.binary(OpKind::Add, b.constI32(INT32_MAX), b.constI32(1))), INT32_MIN);
  EXPECT_EQ(constantInt(b.cmp(CmpPred::Ult, b.constI32(-1), b.constI32(1))), 0);
  EXPECT_EQ(constantInt(b.cmp(CmpPred::Slt, b.constI32(-1), b.constI32(1))), 1);
  EXPECT_EQ(constantInt(b.cast(OpKind::ZExt, b.constI32(-1), Elem::I64)), 0xFFFFFFFF);
  EXPECT_FALSE(constantInt(b.binary(OpKind::SDiv, b.constI32(1), b.constI32(0))));
  EXPECT_FALSE(constantInt(b.binary(OpKind::SDiv, b.constI32(INT32_MIN), b.constI32(-1))));
  EXPECT_EQ(constantInt(b.binary(OpKind::Shl, b.constI32(1), b.constI32(32))), 0);
  Value *t =
      b.binary(OpKind::Mul, b.constInt(Type::tensor({4}, Elem::I32), 3), b.constInt(Type::tensor({4}, Elem::I32), 5));
  EXPECT_EQ(constantInt(t), 15);
  EXPECT_EQ(t->type.shape.numel(), 4);
}

TEST_F(Fold, IntegerIdentities) {
  EXPECT_EQ(b.binary(OpKind::Add, x, b.constI32(0)), x);
  EXPECT_EQ(b.binary(OpKind::Add, b.constI32(0), x), x);
  EXPECT_EQ(b.binary(OpKind::Mul, b.constI32(1), x), x);
  EXPECT_EQ(b.binary(OpKind::And, x, b.constI32(-1)), x);
  EXPECT_EQ(constantInt(b.binary(OpKind::Mul, x, b.constI32(0))), 0);
  EXPECT_EQ(constantInt(b.binary(OpKind::Sub, x, x)), 0);
  EXPECT_NE(b.binary(OpKind::Sub, b.constI32(0), x), x);
  EXPECT_EQ(constantInt(b.cmp(CmpPred::Sge, x, x)), 1);
  EXPECT_EQ(b.cast(OpKind::Trunc, b.cast(OpKind::SExt, x, Elem::I64), Elem::I32), x);
  EXPECT_EQ(b.select(b.constInt(Type::scalar(Elem::I1), 1), x, b.constI32(4)), x);
}

TEST_F(Fold, ShiftsOfMasks) {
  EXPECT_EQ(constantInt(b.binary(OpKind::AShr, b.constI32(-1), x)), -1);
  EXPECT_EQ(constantInt(b.binary(OpKind::AShr, b.constI32(0), x)), 0);
  EXPECT_EQ(constantInt(b.binary(OpKind::LShr, b.constI32(0), x)), 0);
  EXPECT_EQ(constantInt(b.binary(OpKind::Shl, b.constI32(0), x)), 0);
  EXPECT_FALSE(constantInt(b.binary(OpKind::LShr, b.constI32(-1), x)));
  EXPECT_FALSE(constantInt(b.binary(OpKind::Shl, b.constI32(-1), x)));
  EXPECT_FALSE(constantInt(b.binary(OpKind::AShr, b.constI32(-2), x)));
}

TEST_F(Fold, FloatsKeepTheirBits) {
  Type t = Type::scalar(Elem::F32);
  EXPECT_EQ(constantFloat(b.binary(OpKind::FAdd, b.constFloat(t, 1e8), b.constFloat(t, 1))), 1e8);
  EXPECT_EQ(constantFloat(b.binary(OpKind::FDiv, b.constFloat(t, 1), b.constFloat(t, 3))),
            static_cast<double>(1.0f / 3.0f));
  EXPECT_NE(b.binary(OpKind::FAdd, y, b.constFloat(t, 0)), y);
  EXPECT_NE(b.binary(OpKind::FMul, y, b.constFloat(t, 1)), y);
  EXPECT_FALSE(constantFloat(b.binary(OpKind::FSub, y, y)));
  EXPECT_FALSE(constantFloat(b.binary(OpKind::FDiv, b.constFloat(t, 0), b.constFloat(t, 0))));
  EXPECT_FALSE(constantFloat(b.unary(OpKind::Exp, b.constFloat(t, 1))));
  EXPECT_EQ(constantFloat(b.constFloat(Type::scalar(Elem::BF16), 1.0 / 3)), 0.333984375);
  EXPECT_EQ(b.unary(OpKind::FNeg, b.unary(OpKind::FNeg, y)), y);
}

/// A number that was extended is rounded to what it was. Floats of 8 bits saturate, so their infinities would not come
/// back.
TEST_F(Fold, FloatsExtendedAndRounded) {
  auto thereAndBack = [&](Elem narrow, Elem wide) {
    Value *n = b.cast(OpKind::FpTrunc, y, narrow);
    return b.cast(OpKind::FpTrunc, b.cast(OpKind::FpExt, n, wide), narrow) == n;
  };
  EXPECT_TRUE(thereAndBack(Elem::BF16, Elem::F32));
  EXPECT_TRUE(thereAndBack(Elem::F16, Elem::F32));
  EXPECT_TRUE(thereAndBack(Elem::F16, Elem::F64));
  EXPECT_FALSE(thereAndBack(Elem::F8E5M2, Elem::F32));
  Value *half = b.cast(OpKind::FpTrunc, y, Elem::F16);
  EXPECT_NE(b.cast(OpKind::FpTrunc, b.cast(OpKind::FpExt, half, Elem::F32), Elem::BF16)->type, half->type);
}

TEST_F(Fold, Shapes) {
  Value *s = b.splat(b.constI32(7), {4, 8});
  EXPECT_EQ(constantInt(s), 7);
  EXPECT_EQ(s->type, Type::tensor({4, 8}, Elem::I32));
  EXPECT_EQ(constantInt(b.broadcast(b.expandDims(b.splat(b.constI32(7), {8}), 0), {4, 8})), 7);
  int64_t id[] = {0, 1}, swap[] = {1, 0};
  Value *v = b.splat(x, {4, 4});
  EXPECT_EQ(b.permute(v, id), v);
  EXPECT_NE(b.permute(v, swap), v);
  EXPECT_EQ(b.reshape(v, {4, 4}), v);
  EXPECT_EQ(b.create1(OpKind::Unsplat, {b.splat(x, {1})}, x->type), x);
}

TEST_F(Fold, RegionsVerify) {
  Value *inits[] = {y};
  Op *loop = b.forOp(b.constI32(0), x, b.constI32(1), inits);
  b.setBlock(loop->region(0));
  b.yield({&loop->region(0)->args[1], 1});
  b.setBlock(f->block());
  Value *in[] = {b.splat(loop->result(), {8})};
  Op *r = b.reduceOp(OpKind::Reduce, in, 0);
  b.setBlock(r->region(0));
  Value *sum[] = {b.binary(OpKind::FAdd, r->region(0)->args[0], r->region(0)->args[1])};
  b.yield(sum);
  b.setBlock(f->block());
  b.create(OpKind::Return, {}, {});
  std::string why;
  EXPECT_TRUE(verify(m, &why)) << why;
}

} // namespace
