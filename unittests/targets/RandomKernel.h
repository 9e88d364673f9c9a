// Random kernels in tile IR, for tests that compare what comes out of a target with the reference interpreter.
//
// Integers only, so results are exact. The kernels mix what planning has to get right: values used by several nests and
// inside loops, shape operations in chains, reductions and scans along any axis, carried tensors that depend on each
// other, stores between loads through the same argument, masks, gathers, conditionals.
#pragma once
#include "ir/Builder.h"
#include "ir/Interp.h"
#include <gtest/gtest.h>

namespace tegula::test {

using namespace tegula::ir;

inline constexpr int64_t elements = 256; // of each buffer and of every tile

/// Writes kernel @k(a: ptr<i32>, o: ptr<i32>, i32, i32) of the given seed into the module.
class RandomKernel {
public:
  RandomKernel(Module &m, uint64_t seed) : b_(m), state_(seed * 0x9E3779B97F4A7C15u + 77) {
    Type p = Type::ptr(Elem::I32), i = Type::scalar(Elem::I32);
    Type args[] = {p, p, i, i};
    Function *f = m.createFunction("k", args, {}, {});
    f->isKernel = true;
    f->argInfo.resize(4);
    b_.setBlock(f->block());
    a_ = f->block()->args[0];
    o_ = f->block()->args[1];
    scalars_ = {f->block()->args[2], f->block()->args[3], b_.constI32(5)};
    tiles_.push_back(b_.range(0, elements));
    statements(14, 2);
    for (unsigned k = 0; k < 2; ++k)
      store(o_, tile());
    b_.create(OpKind::Return, {}, {});
  }

private:
  uint32_t random(uint32_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33) % n;
  }
  Value *pick(const std::vector<Value *> &v) {
    return v[v.size() - 1 - random(static_cast<uint32_t>(std::min<size_t>(v.size(), 6)))];
  }
  Value *tile() { return pick(tiles_); }
  Value *scalar() { return pick(scalars_); }
  Value *flat(Value *v) { return b_.reshape(v, Shape{elements}); }
  Value *inside(Value *v) { return b_.binary(OpKind::And, v, b_.constInt(v->type, elements - 1)); }

  Value *address(Value *base) {
    Value *index = b_.range(0, elements);
    switch (random(4)) {
    case 0:
      index = inside(b_.binary(OpKind::Add, index, b_.splat(scalar(), index->type.shape)));
      break;
    case 1:
      index = b_.binary(OpKind::Sub, b_.constInt(index->type, elements - 1), index);
      break;
    case 2: { // transposed
      Shape s = random(2) ? Shape{16, 16} : Shape{4, 64};
      int64_t perm[] = {1, 0};
      index = flat(b_.permute(b_.reshape(index, s), perm));
      break;
    }
    default:
      break;
    }
    return b_.addPtr(b_.splat(base, index->type.shape), index);
  }
  Value *mask() {
    Value *r = b_.range(0, elements);
    if (random(3) == 0)
      return b_.cmp(CmpPred::Ne, tile(), b_.splat(scalar(), r->type.shape));
    return b_.cmp(random(2) ? CmpPred::Slt : CmpPred::Sle, r, b_.splat(scalar(), r->type.shape));
  }
  void store(Value *base, Value *v) {
    Value *p = address(base);
    if (random(2))
      b_.create(OpKind::Store, std::vector<Value *>{p, v, mask()}, {});
    else
      b_.create(OpKind::Store, std::vector<Value *>{p, v}, {});
  }
  Value *load() {
    Value *p = address(random(3) ? a_ : o_);
    Type t = p->type.withElem(Elem::I32);
    if (random(2))
      return b_.create1(OpKind::Load, {p}, t);
    return b_.create1(OpKind::Load, {p, mask(), b_.constInt(t, 7)}, t);
  }
  Shape shape() {
    static const Shape shapes[] = {{256},    {16, 16},   {4, 64},    {64, 4},
                                   {128, 2}, {2, 8, 16}, {8, 32, 1}, {2, 2, 2, 2, 2, 2, 2, 2}};
    return shapes[random(8)];
  }
  void region(Op *op, OpKind k) {
    Builder inner(b_.module());
    Block *body = op->regions[0]->block;
    inner.setBlock(body);
    Value *r = inner.binary(k, body->args[0], body->args[1]);
    inner.yield(std::vector<Value *>{r});
  }
  Value *reduceOrScan() {
    Value *v = b_.reshape(tile(), shape());
    unsigned axis = random(v->type.shape.rank());
    static const OpKind kinds[] = {OpKind::Add, OpKind::SMax, OpKind::Xor, OpKind::UMin};
    Value *in[] = {v};
    if (random(3) == 0) {
      Op *s = b_.reduceOp(OpKind::Scan, in, axis, random(2));
      region(s, kinds[random(4)]);
      return flat(s->result());
    }
    Op *r = b_.reduceOp(OpKind::Reduce, in, axis);
    region(r, kinds[random(4)]);
    if (r->result()->type.isScalar()) {
      scalars_.push_back(r->result());
      return b_.splat(r->result(), Shape{elements});
    }
    return flat(b_.broadcast(b_.expandDims(r->result(), axis), v->type.shape));
  }
  Value *shapeOp() {
    Value *v = b_.reshape(tile(), shape());
    const Shape s = v->type.shape;
    switch (random(3)) {
    case 0: {
      std::vector<int64_t> perm(s.rank());
      for (size_t i = 0; i < perm.size(); ++i)
        perm[i] = static_cast<int64_t>((i + 1) % perm.size());
      return flat(b_.permute(v, perm));
    }
    case 1: {
      Value *h = b_.reshape(v, Shape{elements / 2, 2});
      Type half = Type::tensor(Shape{elements / 2}, Elem::I32), both[] = {half, half};
      Op *sp = b_.create(OpKind::Split, std::vector<Value *>{h}, both);
      if (random(2))
        return flat(
            b_.create1(OpKind::Join, {sp->result(1), sp->result(0)}, Type::tensor(Shape{elements / 2, 2}, Elem::I32)));
      return b_.create1(OpKind::Cat, {sp->result(1), sp->result(0)}, Type::tensor(Shape{elements}, Elem::I32),
                        {{attr::axis, 0}});
    }
    default:
      return b_.create1(OpKind::Gather, {tile(), inside(tile())}, tile()->type, {{attr::axis, 0}});
    }
  }
  Value *arithmetic() {
    static const OpKind kinds[] = {OpKind::Add, OpKind::Sub, OpKind::Mul, OpKind::Xor,
                                   OpKind::SMin, OpKind::SRem, OpKind::UDiv};
    Value *x = tile(), *y = random(3) ? tile() : b_.splat(scalar(), Shape{elements});
    OpKind k = kinds[random(7)];
    if (k == OpKind::SRem || k == OpKind::UDiv)
      y = b_.binary(OpKind::Or, inside(y), b_.constInt(y->type, 1));
    if (random(5) == 0)
      return b_.select(b_.cmp(CmpPred::Slt, x, y), x, y);
    return b_.binary(k, x, y);
  }
  void statements(unsigned n, unsigned depth) {
    for (unsigned i = 0; i < n; ++i)
      switch (random(depth ? 12 : 10)) {
      case 0: case 1: tiles_.push_back(load()); break;
      case 2: tiles_.push_back(reduceOrScan()); break;
      case 3: case 4: tiles_.push_back(shapeOp()); break;
      case 5: store(random(3) ? o_ : a_, tile()); break;
      case 10: loop(depth); break;
      case 11: conditional(depth); break;
      default: tiles_.push_back(arithmetic());
      }
  }
  void loop(unsigned depth) {
    Value *inits[] = {tile(), tile(), scalar()};
    Op *f = b_.forOp(b_.constI32(0), b_.constI32(static_cast<int32_t>(random(4))), b_.constI32(1), inits);
    auto tiles = tiles_, scalars = scalars_;
    Block *outer = b_.block(), *body = f->regions[0]->block;
    b_.setBlock(body);
    scalars_.push_back(body->args[0]);
    scalars_.push_back(body->args[3]);
    tiles_.push_back(body->args[1]);
    tiles_.push_back(body->args[2]);
    statements(5, depth - 1);
    Value *last[] = {tile(), tile(), scalar()};
    b_.yield(last);
    b_.setBlock(outer);
    tiles_ = tiles;
    scalars_ = scalars;
    tiles_.push_back(f->result(0));
    tiles_.push_back(f->result(1));
    scalars_.push_back(f->result(2));
  }
  void conditional(unsigned depth) {
    Value *c = b_.cmp(CmpPred::Slt, scalar(), scalar());
    Type types[] = {tiles_[0]->type, Type::scalar(Elem::I32)};
    Op *f = b_.ifOp(c, types);
    Block *outer = b_.block();
    auto tiles = tiles_, scalars = scalars_;
    for (Region *r : f->regions) {
      b_.setBlock(r->block);
      statements(3, depth - 1);
      Value *last[] = {tile(), scalar()};
      b_.yield(last);
      tiles_ = tiles;
      scalars_ = scalars;
    }
    b_.setBlock(outer);
    tiles_.push_back(f->result(0));
    scalars_.push_back(f->result(1));
  }

  Builder b_;
  uint64_t state_;
  Value *a_, *o_;
  std::vector<Value *> tiles_, scalars_;
};

/// Buffers a and o after one run of such a kernel by the reference interpreter, as one; the seed varies what is in
/// them, and the mask's bound.
inline std::vector<int32_t> runKernel(const Module &m, uint64_t seed) {
  std::vector<int32_t> memory(2 * elements);
  for (size_t i = 0; i < elements; ++i) {
    memory[i] = static_cast<int32_t>(i * i * 31 + seed) % 300;
    memory[elements + i] = static_cast<int32_t>(i);
  }
  Interp interp(m);
  interp.addBuffer(memory.data(), elements * 8);
  uint64_t args[] = {reinterpret_cast<uint64_t>(memory.data()), reinterpret_cast<uint64_t>(memory.data() + elements),
                     100 + seed % 120, 3};
  InterpResult r = interp.run(args, {1, 1, 1});
  EXPECT_TRUE(r.ok) << r.fault;
  return memory;
}

} // namespace tegula::test
