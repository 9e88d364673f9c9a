// Random programs: what the interpreter sees must be the same before and after passes, and axis facts must hold for the
// values that really occur.
#include "Rounds.h"
#include "ir/Builder.h"
#include "ir/Interp.h"
#include "ir/Text.h"
#include "ir/Verifier.h"
#include "passes/AxisFacts.h"
#include "passes/Pipeline.h"
#include <array>
#include <cstring>
#include <gtest/gtest.h>

using namespace tegula;
using namespace tegula::ir;

namespace {

/// Builds a random kernel that stores what it computed: (ptr<i32> out, ptr<i32> in, i32 n, i32 m).
class RandomKernel {
public:
  RandomKernel(Module &m, uint64_t seed) : b_(m), state_(seed * 2654435761 + 12345) {
    Type args[] = {Type::ptr(Elem::I32), Type::ptr(Elem::I32), Type::scalar(Elem::I32), Type::scalar(Elem::I32)};
    Function *f = m.createFunction("k", args, {}, {});
    f->isKernel = true;
    f->argInfo[2].divisibility = 16;
    b_.setFolding(false); // leave the work to the passes
    b_.setBlock(f->block());
    out_ = f->block()->args[0], in_ = f->block()->args[1];
    values_ = {f->block()->args[2], f->block()->args[3], b_.constI32(0), b_.constI32(1), b_.constI32(16)};
    values_.push_back(b_.range(0, 16));
    values_.push_back(b_.range(16, 32));
    values_.push_back(b_.splat(values_[0], {16}));
    statements(12, 0);
    b_.create(OpKind::Return, {}, {});
  }

private:
  uint64_t next() { return state_ = state_ * 6364136223846793005u + 1442695040888963407u, state_ >> 33; }
  uint64_t below(uint64_t n) { return next() % n; }

  Value *pick(const Type &t) {
    for (int tries = 0; tries < 20; ++tries) {
      Value *v = values_[below(values_.size())];
      if (v->type == t)
        return v;
    }
    int64_t c = below(3) ? static_cast<int64_t>(below(40)) - 8 : int64_t(1) << below(6);
    return b_.constInt(t, c);
  }

  static Type i32(bool tile) { return tile ? Type::tensor({16}, Elem::I32) : Type::scalar(Elem::I32); }

  Value *expression() {
    static constexpr OpKind kinds[] = {
        OpKind::Add, OpKind::Sub, OpKind::Mul, OpKind::And, OpKind::Or, OpKind::Xor, OpKind::SMin, OpKind::UMax,
        OpKind::SDiv, OpKind::URem, OpKind::SRem, OpKind::UDiv, OpKind::Add, OpKind::Add, OpKind::AShr, OpKind::LShr};
    bool tile = below(2);
    Type t = i32(tile);
    switch (below(10)) {
    case 0: return b_.splat(pick(i32(false)), {16});
    case 1: {
      Value *c = b_.cmp(static_cast<CmpPred>(below(10)), pick(t), pick(t));
      return b_.select(c, pick(t), pick(t));
    }
    case 2: {
      Value *w = b_.cast(below(2) ? OpKind::SExt : OpKind::ZExt, pick(t), Elem::I64);
      return b_.cast(OpKind::Trunc, b_.binary(OpKind::Add, w, b_.constInt(w->type, 3)), Elem::I32);
    }
    case 3: {
      Value *x = pick(i32(true));
      Value *y = b_.broadcast(b_.expandDims(x, below(2)), {16, 16});
      Value *z = b_.binary(kinds[below(6)], y, b_.splat(pick(i32(false)), {16, 16}));
      return combine(OpKind::Reduce, z, static_cast<unsigned>(below(2)));
    }
    case 4: return combine(OpKind::Scan, pick(i32(true)), 0);
    case 5: case 6: return loadAt(pick(t));
    default: {
      OpKind k = kinds[below(std::size(kinds))];
      Value *x = pick(t), *y = k >= OpKind::Shl && k <= OpKind::AShr && below(2)
                                   ? b_.constInt(t, static_cast<int64_t>(below(40)))
                                   : pick(t);
      // open results would make both sides differ: keep the divisor in 1..63
      if (k >= OpKind::SDiv && k <= OpKind::URem)
        y = b_.binary(OpKind::Add, b_.binary(OpKind::And, y, b_.constInt(t, 31)), b_.constInt(t, below(2) ? 1 : 32));
      return b_.binary(k, x, y);
    }
    }
  }

  Value *combine(OpKind k, Value *x, unsigned axis) {
    Block *outer = b_.block();
    Op *op = b_.reduceOp(k, {&x, 1}, axis);
    b_.setBlock(op->region(0));
    Value *v = b_.binary(below(2) ? OpKind::Add : OpKind::Xor, op->region(0)->args[0], op->region(0)->args[1]);
    b_.yield({&v, 1});
    b_.setBlock(outer);
    return op->result();
  }

  /// An address inside the buffers of 64 elements.
  Value *addressOf(Value *base, Value *index) {
    Value *i = b_.binary(OpKind::And, index, b_.constInt(index->type, 63));
    return b_.addPtr(b_.splat(base, index->type.shape), i);
  }
  /// Often a load that was there before, so that merging has something to get wrong.
  Value *loadAt(Value *index) {
    Type t = index->type;
    if (!loads_.empty() && below(3)) {
      const std::array<Value *, 3> again = loads_[below(loads_.size())];
      return b_.create(OpKind::Load, again, {&again[2]->type, 1})->result();
    }
    Value *p = addressOf(below(2) ? in_ : out_, index);
    Value *mask = b_.cmp(CmpPred::Slt, pick(t), pick(t));
    loads_.push_back({p, mask, pick(t)});
    return b_.create(OpKind::Load, loads_.back(), {&t, 1})->result();
  }
  void store() {
    Type t = i32(below(2));
    Value *ops[] = {addressOf(out_, pick(t)), pick(t)};
    b_.create(OpKind::Store, ops, {});
  }

  void statements(unsigned count, unsigned depth) {
    for (unsigned i = 0; i < count; ++i) {
      switch (below(depth < 2 ? 10 : 7)) {
      case 0: store(); break;
      case 7: conditional(depth); break;
      case 8: case 9: loop(depth); break;
      default: values_.push_back(expression());
      }
    }
  }

  Value *condition() {
    Type t = i32(false);
    return below(6) == 0 ? b_.constInt(t.withElem(Elem::I1), 1)
                         : b_.cmp(static_cast<CmpPred>(below(10)), pick(t), pick(t));
  }

  void conditional(unsigned depth) {
    Type types[] = {i32(false), i32(true)};
    Block *outer = b_.block();
    Op *op = b_.ifOp(condition(), types);
    for (unsigned r = 0; r < 2; ++r) {
      size_t visible = values_.size(), loads = loads_.size();
      b_.setBlock(op->region(r));
      statements(static_cast<unsigned>(below(4)), depth + 1);
      Value *out[] = {pick(types[0]), pick(types[1])};
      b_.yield(out);
      values_.resize(visible), loads_.resize(loads);
    }
    b_.setBlock(outer);
    values_.insert(values_.end(), op->results.begin(), op->results.end());
  }

  void loop(unsigned depth) {
    Value *inits[] = {pick(i32(false)), pick(i32(true)), addressOf(out_, pick(i32(true)))};
    Block *outer = b_.block();
    int64_t lb = static_cast<int64_t>(below(4)), ub = static_cast<int64_t>(below(5)),
            step = 1 + static_cast<int64_t>(below(2));
    bool reverse = below(4) == 0;
    std::vector<Attr> attrs;
    if (reverse)
      attrs = {{attr::reverse, true}};
    Op *op =
        b_.forOp(b_.constI32(lb), below(2) ? b_.constI32(ub) : b_.binary(OpKind::And, pick(i32(false)), b_.constI32(3)),
                 b_.constI32(step), inits, attrs);
    size_t visible = values_.size(), loads = loads_.size();
    b_.setBlock(op->region(0));
    const auto &args = op->region(0)->args;
    values_.insert(values_.end(), args.begin(), args.begin() + 3);
    statements(static_cast<unsigned>(below(5)), depth + 1);
    // Tiles and pointers often move by something affine; the pointer by nothing that adds up, to stay in its buffer.
    Value *tile = below(2) ? b_.binary(below(2) ? OpKind::Add : OpKind::Sub, args[2], b_.splat(pick(i32(false)), {16}))
                           : pick(i32(true));
    Value *back = b_.addPtr(b_.addPtr(args[3], b_.constInt(i32(true), 5)), b_.constInt(i32(true), -5));
    Type t = i32(true);
    Value *load[] = {args[3]};
    values_.push_back(b_.create(OpKind::Load, load, {&t, 1})->result());
    Value *next[] = {pick(i32(false)), tile, below(3) ? back : args[3]};
    b_.yield(next);
    values_.resize(visible), loads_.resize(loads);
    b_.setBlock(outer);
    values_.push_back(op->results[0]);
    values_.push_back(op->results[1]);
    Value *store[] = {op->results[2], pick(i32(true))};
    b_.create(OpKind::Store, store, {});
  }

  Builder b_;
  uint64_t state_;
  Value *out_, *in_;
  std::vector<Value *> values_;
  std::vector<std::array<Value *, 3>> loads_; // operands, all visible
};

struct Memory {
  alignas(16) std::array<int32_t, 64> out, in;
};

Memory runKernel(const Module &m, int32_t n, int32_t k) {
  static Memory mem; // one place, so that addresses are equal in both runs
  for (int i = 0; i < 64; ++i)
    mem.out[static_cast<size_t>(i)] = i * 7 - 50, mem.in[static_cast<size_t>(i)] = i * i % 37 - 11;
  Interp in(m);
  in.addBuffer(&mem.out, sizeof mem.out);
  in.addBuffer(&mem.in, sizeof mem.in);
  uint64_t args[] = {reinterpret_cast<uintptr_t>(&mem.out), reinterpret_cast<uintptr_t>(&mem.in),
                     static_cast<uint32_t>(n), static_cast<uint32_t>(k)};
  InterpResult r = in.run(args, {1, 1, 1});
  EXPECT_TRUE(r.ok) << r.fault << (r.op ? print(*r.op) : "");
  return mem;
}

TEST(Random, PassesKeepTheMeaning) {
  for (uint64_t seed = 1; seed <= test::rounds(500); ++seed) {
    Module m;
    RandomKernel(m, seed);
    std::string why, before = print(m);
    ASSERT_TRUE(verify(m, &why)) << why;
    std::vector<Memory> expected;
    for (int32_t k : {-3, 0, 5})
      expected.push_back(runKernel(m, 32, k));
    for (const PassEntry &p : allPasses()) {
      p.run(m);
      ASSERT_TRUE(verify(m, &why)) << "seed " << seed << " after " << p.name << ": " << why << "\n"
                                   << before << print(m);
      for (size_t i = 0; i < 3; ++i) {
        Memory now = runKernel(m, 32, std::array<int32_t, 3>{-3, 0, 5}[i]);
        ASSERT_EQ(now.out, expected[i].out) << "seed " << seed << " after " << p.name << "\n"
                                            << before << "=>\n"
                                            << print(m);
      }
    }
    ASSERT_LE(print(m).size(), before.size() * 2) << "seed " << seed;
  }
}

/// Follows top-level values of a kernel through the interpreter: all of them as results of a function.
void checkFacts(const ValueFacts &f, const Type &t, const Tile &tile, const std::string &what) {
  auto element = [&](size_t i) { return static_cast<int64_t>(static_cast<int32_t>(tile[i])); };
  for (unsigned d = 0; d < f.axes.size(); ++d) {
    const AxisFact &a = f.axes[d];
    for (size_t i = 0; i < tile.size(); ++i) {
      std::vector<int64_t> c = coordinates(t.shape, static_cast<int64_t>(i));
      int64_t at = t.isScalar() ? 0 : c[d];
      auto groupStart = [&](int64_t size) {
        std::vector<int64_t> s = c;
        if (!s.empty())
          s[d] = at / size * size;
        return element(static_cast<size_t>(linearIndex(t.shape, s)));
      };
      ASSERT_EQ(element(i), groupStart(a.contiguity) + at % a.contiguity) << "contiguity of " << what;
      ASSERT_EQ(element(i), groupStart(a.constancy)) << "constancy of " << what;
      if (a.divisibility < (int64_t(1) << 40))
        ASSERT_EQ(groupStart(a.contiguity) % a.divisibility, 0) << "divisibility of " << what;
      else
        ASSERT_EQ(groupStart(a.contiguity), 0) << "divisibility of " << what;
    }
  }
  if (f.isNonNegative())
    for (size_t i = 0; i < tile.size(); ++i)
      ASSERT_GE(element(i), 0) << "sign of " << what;
}

TEST(Random, AxisFactsHold) {
  unsigned interesting = 0;
  for (uint64_t seed = 1; seed <= test::rounds(120); ++seed) {
    // A function of (n, m) made of the operations that the analysis has rules for, on small numbers.
    Module m;
    Builder b(m);
    b.setFolding(false);
    uint64_t state = seed * 2654435761 + 99;
    auto below = [&](uint64_t n) {
      return state = state * 6364136223846793005u + 1442695040888963407u, (state >> 33) % n;
    };
    Type args[] = {Type::scalar(Elem::I32), Type::scalar(Elem::I32)};
    Function *f = m.createFunction("f", args, {}, {});
    f->argInfo[0].divisibility = 16;
    b.setBlock(f->block());
    Type t = Type::tensor({8, 16}, Elem::I32);
    std::vector<Value *> v = {b.splat(f->block()->args[0], t.shape), b.splat(f->block()->args[1], t.shape)};
    v.push_back(b.broadcast(b.expandDims(b.range(0, 16), 0), t.shape));
    v.push_back(b.broadcast(b.expandDims(b.range(8, 16), 1), t.shape));
    v.push_back(b.broadcast(b.expandDims(b.range(5, 21), 0), t.shape));
    v.push_back(b.binary(OpKind::Sub, v[2], b.constInt(t, 16)));
    v.push_back(b.binary(OpKind::Sub, v[2], v[0]));
    for (int i = 0; i < 10; ++i) {
      Value *x = v[below(v.size())], *y = v[below(v.size())];
      int64_t c = int64_t(1) << below(5);
      Value *k = b.constInt(t, below(3) ? c : 3 * c);
      static constexpr OpKind divisions[] = {OpKind::SDiv, OpKind::SRem, OpKind::UDiv, OpKind::URem};
      switch (below(9)) {
      case 0: v.push_back(b.binary(divisions[below(4)], x, k)); break;
      case 1: v.push_back(b.binary(OpKind::And, x, b.constInt(t, c - 1))); break;
      case 2:
        v.push_back(b.binary(below(2) ? OpKind::AShr : OpKind::LShr, x, b.constInt(t, static_cast<int64_t>(below(5)))));
        break;
      case 3: v.push_back(b.select(b.cmp(static_cast<CmpPred>(below(10)), x, k), y, v[below(v.size())])); break;
      case 4: v.push_back(b.binary(OpKind::Sub, x, y)); break;
      case 5: v.push_back(b.binary(OpKind::Mul, b.binary(OpKind::SMin, x, b.constInt(t, 64)), k)); break;
      case 6: v.push_back(b.cast(OpKind::ZExt, b.cmp(static_cast<CmpPred>(below(10)), x, k), Elem::I32)); break;
      case 7: {
        static const Shape shapes[] = {{128}, {4, 32}, {16, 8}, {2, 4, 1, 8, 2}, {8, 4, 4}};
        Value *z = b.reshape(x, shapes[below(std::size(shapes))]);
        if (below(2))
          z = b.binary(below(2) ? divisions[below(4)] : OpKind::Add, z, b.constInt(z->type, c));
        v.push_back(b.reshape(z, t.shape));
        break;
      }
      default: v.push_back(b.binary(OpKind::Add, x, below(2) ? y : k));
      }
    }
    b.create(OpKind::Return, v, {});
    f->resultTypes.assign(v.size(), t);
    std::string why;
    ASSERT_TRUE(verify(m, &why)) << why;
    AxisFacts facts(*f);
    for (int32_t n : {0, 16, 48, -32})
      for (int32_t k : {1, -7}) {
        Tile in[] = {{static_cast<uint32_t>(n)}, {static_cast<uint32_t>(k)}};
        std::vector<Tile> out;
        ASSERT_TRUE(Interp(m).call(*f, in, out).ok);
        bool small = true; // the analysis assumes that index arithmetic does not overflow
        for (const Tile &tile : out)
          for (uint64_t e : tile)
            small = small && std::abs(static_cast<int64_t>(static_cast<int32_t>(e))) < (1 << 26);
        for (size_t i = 0; small && i < v.size(); ++i) {
          ASSERT_NO_FATAL_FAILURE(checkFacts(facts.of(v[i]), t, out[i], print(*v[i]->def) + print(m)));
          interesting += facts.of(v[i], 1).contiguity > 1 || facts.of(v[i], 1).constancy > 1;
        }
      }
  }
  EXPECT_GT(interesting, 2000u);
}

} // namespace
