// Random programs over tiles of odd extents, before and after padding: the interpreter, which knows what they mean,
// must see the same memory, and nothing may be touched outside the buffers.
#include "Rounds.h"
#include "ir/Builder.h"
#include "ir/Interp.h"
#include "ir/Text.h"
#include "ir/Verifier.h"
#include "passes/PadTiles.h"
#include "passes/Pipeline.h"
#include <gtest/gtest.h>
#include <numeric>

using namespace tegula;
using namespace tegula::ir;

namespace {

struct Random {
  uint64_t state;
  uint64_t operator()(uint64_t n) {
    return state = state * 6364136223846793005u + 1442695040888963407u, (state >> 33) % n;
  }
};

constexpr size_t cells = 4096;

class Program {
public:
  explicit Program(uint64_t seed) : r_{seed * 7919 + 11}, m_(std::make_unique<Module>()), b_(*m_) {
    Type types[] = {Type::ptr(Elem::I32), Type::ptr(Elem::I32)};
    f_ = m_->createFunction("k", types, {}, {});
    f_->isKernel = true;
    b_.setBlock(f_->block());
    Value *x = load(randomShape());
    for (unsigned i = 0, n = 2 + static_cast<unsigned>(r_(6)); i < n; ++i)
      x = step(x);
    store(x);
    b_.create(OpKind::Return, {}, {});
  }
  std::unique_ptr<Module> take() { return std::move(m_); }

private:
  Shape randomShape() {
    static constexpr int64_t extents[] = {1, 2, 3, 4, 5, 6, 7, 8, 12};
    Shape s;
    for (unsigned i = 0, n = 1 + static_cast<unsigned>(r_(3)); i < n; ++i)
      s.push(extents[r_(std::size(extents))]);
    return s;
  }
  /// The number of each element in memory order.
  Value *numbers(const Shape &s) {
    Value *sum = nullptr;
    int64_t stride = 1;
    for (unsigned d = s.rank(); d-- > 0; stride *= s[d]) {
      Value *line = b_.range(0, s[d]);
      line = b_.binary(OpKind::Mul, line, b_.constInt(line->type, stride));
      for (unsigned i = 0; i < d; ++i)
        line = b_.expandDims(line, 0);
      while (line->type.shape.rank() < s.rank())
        line = b_.expandDims(line, line->type.shape.rank());
      line = b_.broadcast(line, s);
      sum = sum ? b_.binary(OpKind::Add, sum, line) : line;
    }
    return sum;
  }
  Value *load(const Shape &s) {
    Value *p = b_.addPtr(b_.splat(f_->block()->args[0], s), numbers(s));
    std::vector<Value *> operands{p};
    if (r_(2)) {
      operands.push_back(b_.cmp(CmpPred::Ne,
                                b_.binary(OpKind::URem, numbers(s), b_.constInt(Type::tensor(s, Elem::I32), 5)),
                                b_.constInt(Type::tensor(s, Elem::I32), 2)));
      operands.push_back(b_.constInt(Type::tensor(s, Elem::I32), 9));
    }
    Type t = Type::tensor(s, Elem::I32);
    return b_.create(OpKind::Load, operands, {&t, 1})->result();
  }
  void store(Value *x) {
    Value *to = b_.addPtr(f_->block()->args[1], b_.constI32(static_cast<int32_t>(used_)));
    used_ += static_cast<size_t>(x->type.numel());
    Shape s = x->type.shape;
    Value *operands[] = {s.rank() ? b_.addPtr(b_.splat(to, s), numbers(s)) : to, x};
    if (r_(3) == 0) {
      Type t = x->type;
      b_.create(OpKind::AtomicRmw, operands, {&t, 1}, {{attr::rmw, std::string("add")}});
    } else {
      b_.create(OpKind::Store, operands, {});
    }
  }

  /// Combinations that have a neutral element, and some that have none.
  Value *combine(Value *x, OpKind kind) {
    unsigned axis = static_cast<unsigned>(r_(x->type.shape.rank())), which = static_cast<unsigned>(r_(4));
    bool reverse = kind == OpKind::Scan && r_(2);
    std::vector<Value *> in{x};
    if (which == 3)
      in.push_back(b_.binary(OpKind::Xor, x, numbers(x->type.shape)));
    Op *op = b_.reduceOp(kind, in, axis, reverse);
    Block *outside = b_.block(), *body = op->region(0);
    b_.setBlock(body);
    const auto &a = body->args;
    if (which == 3) { // of the pair with the greater first value, the first in order; associative
      Value *left = b_.cmp(CmpPred::Sge, a[0], a[2]);
      Value *yields[] = {b_.select(left, a[0], a[2]), b_.select(left, a[1], a[3])};
      b_.yield(yields);
    } else {
      static constexpr OpKind kinds[] = {OpKind::Add, OpKind::SMin, OpKind::UMax};
      Value *yields[] = {which == 2 && r_(2) ? b_.binary(OpKind::Or, b_.binary(OpKind::Or, a[0], a[1]), a[0])
                                             : b_.binary(kinds[which], a[0], a[1])};
      b_.yield(yields);
    }
    b_.setBlock(outside);
    Value *y = op->result(static_cast<unsigned>(in.size()) - 1);
    store(op->result());
    return y;
  }

  Value *step(Value *x) {
    if (x->type.isScalar())
      return b_.splat(x, randomShape());
    const Shape s = x->type.shape;
    switch (r_(10)) {
    case 0: return b_.binary(OpKind::SRem, b_.binary(OpKind::Mul, x, numbers(s)), b_.constInt(x->type, 91));
    case 1: return combine(x, OpKind::Reduce);
    case 2: return combine(x, OpKind::Scan);
    case 3: { // another shape of as many elements
      Shape to;
      int64_t left = s.numel();
      for (int64_t d : {2, 3, 5, 4})
        if (left % d == 0 && r_(2))
          to.push(d), left /= d;
      to.insert(static_cast<unsigned>(r_(to.rank() + 1)), left);
      return b_.reshape(x, to);
    }
    case 4: {
      std::vector<int64_t> perm(s.rank());
      std::iota(perm.begin(), perm.end(), 0);
      std::swap(perm[0], perm[r_(perm.size())]);
      return b_.permute(x, perm);
    }
    case 5: {
      unsigned axis = static_cast<unsigned>(r_(s.rank()));
      Shape to = s;
      to.set(axis, 2 * s[axis]);
      if (to.numel() > 500)
        return x;
      Value *operands[] = {x, b_.binary(OpKind::Add, x, b_.constInt(x->type, 100))};
      Type t = x->type.withShape(to);
      return b_.create(OpKind::Cat, operands, {&t, 1}, {{attr::axis, axis}})->result();
    }
    case 6: {
      unsigned axis = static_cast<unsigned>(r_(s.rank()));
      Shape to = s;
      to.set(axis, 1 + static_cast<int64_t>(r_(6)));
      Value *index = b_.binary(OpKind::Sub, numbers(to), b_.constInt(Type::tensor(to, Elem::I32), 7));
      Value *operands[] = {x, index};
      Type t = x->type.withShape(to);
      return b_.create(OpKind::Gather, operands, {&t, 1}, {{attr::axis, axis}})->result();
    }
    case 7: {
      Value *v = b_.binary(OpKind::And, b_.reshape(x, Shape{s.numel()}),
                           b_.constInt(Type::tensor(Shape{s.numel()}, Elem::I32), 7));
      Type t = Type::tensor(Shape{6}, Elem::I32);
      Value *operands[] = {v};
      store(b_.create(OpKind::Histogram, operands, {&t, 1})->result());
      return x;
    }
    case 8: {
      Type types[] = {x->type};
      Value *first = b_.addPtr(f_->block()->args[0], b_.constI32(static_cast<int32_t>(r_(9))));
      Value *operands[] = {first};
      Type scalar = Type::scalar(Elem::I32);
      Op *op = b_.ifOp(b_.cmp(CmpPred::Sgt, b_.create(OpKind::Load, operands, {&scalar, 1})->result(), b_.constI32(3)),
                       types);
      Block *outside = b_.block();
      for (unsigned arm = 0; arm < 2; ++arm) {
        b_.setBlock(op->region(arm));
        Value *yields[] = {arm ? b_.binary(OpKind::Sub, b_.constInt(x->type, 0), x) : x};
        b_.yield(yields);
      }
      b_.setBlock(outside);
      return op->result();
    }
    default: store(x); return x;
    }
  }

  Random r_;
  std::unique_ptr<Module> m_;
  Builder b_;
  Function *f_ = nullptr;
  size_t used_ = 0;
};

std::vector<int32_t> run(const Module &m) {
  static std::vector<int32_t> x, y; // one place, so that addresses are equal in both runs
  x.resize(cells), y.assign(cells, 0);
  for (size_t i = 0; i < cells; ++i)
    x[i] = static_cast<int32_t>(i * 37 % 23) - 5;
  Interp in(m);
  in.addBuffer(x.data(), cells * 4, false);
  in.addBuffer(y.data(), cells * 4);
  InterpResult r = in.run(
      std::vector<uint64_t>{reinterpret_cast<uintptr_t>(x.data()), reinterpret_cast<uintptr_t>(y.data())}, {1, 1, 1});
  EXPECT_TRUE(r.ok) << r.fault << (r.op ? print(*r.op) : "");
  return y;
}

bool hasOdd(const Block &b) {
  for (const Op *op : b.ops) {
    for (const Value *v : op->results)
      if (v->type.isTensor() && paddedShape(v->type.shape) != v->type.shape)
        return true;
    for (const Region *r : op->regions)
      if (hasOdd(*r->block))
        return true;
  }
  return false;
}

TEST(PadTiles, KeepsTheMeaning) {
  unsigned odd = 0;
  for (uint64_t seed = 1; seed <= test::rounds(1500); ++seed) {
    std::unique_ptr<Module> m = Program(seed).take();
    std::string why, before = print(*m);
    ASSERT_TRUE(verify(*m, &why)) << why << before;
    odd += hasOdd(*m->kernel()->block());
    auto expected = run(*m);
    padTiles(*m);
    ASSERT_TRUE(verify(*m, &why)) << why << "seed " << seed << "\n" << before << print(*m);
    ASSERT_FALSE(hasOdd(*m->kernel()->block())) << print(*m);
    ASSERT_EQ(run(*m), expected) << "seed " << seed << "\n" << before << print(*m);
    runPipeline(*m);
    ASSERT_EQ(run(*m), expected) << "seed " << seed << " after all passes\n" << before << print(*m);
  }
  EXPECT_GT(odd, test::rounds(1000));
}

} // namespace
