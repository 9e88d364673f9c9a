// Every builtin and operator on arguments of every sort: no crash, an error value exactly where an error was reported,
// and valid IR where none was.
#include "Fixture.h"
#include "lang/Containers.h"
#include <limits>
#include <random>

namespace tegula::lang {
namespace {

class RobustnessTest : public LangTest {
protected:
  std::vector<Value> pool;
  std::mt19937 random{7};

  void SetUp() override {
    LangTest::SetUp();
    c.functions["bad"] = [](std::span<const Value>) { return Value::none(); };
    c.functions["first"] = [](std::span<const Value> a) { return a[0]; };
    for (Scalar s : {Scalar::Int1, Scalar::Int8, Scalar::UInt16, Scalar::Int32, Scalar::UInt32, Scalar::Int64,
                     Scalar::Fp8e5, Scalar::Fp16, Scalar::Bf16, Scalar::Fp32, Scalar::Fp64})
      for (ir::Shape shape : {ir::Shape{}, ir::Shape{1}, ir::Shape{2}, ir::Shape{16, 16}, ir::Shape{2, 16, 16}}) {
        pool.push_back(var(s, shape));
        if (shape.rank() < 2)
          pool.push_back(ptr(s, shape));
      }
    pool.push_back(var(Dtype::ptr(Scalar::Int32, true)));
    const double inf = std::numeric_limits<double>::infinity();
    for (Value v : {num(0),
                    num(1),
                    num(2),
                    num(-1),
                    num(16),
                    num(3),
                    num(INT64_MAX),
                    num(INT64_MIN),
                    real(0.5),
                    real(inf),
                    real(-0.0),
                    real(1e300),
                    real(std::numeric_limits<double>::quiet_NaN()),
                    Value::boolean(true),
                    Value::none(),
                    Value::str(""),
                    Value::str("ieee"),
                    Value::str("rtz"),
                    Value::str("acquire"),
                    Value::str(".cg"),
                    Value::str("\xff\xfe"),
                    list({}),
                    list({0}),
                    list({16, 16}),
                    list({1, 0}),
                    list({0, 0}),
                    list({-1}),
                    list({1 << 20, 2}),
                    Value::tuple({list({1})}),
                    Value(EllipsisValue{}),
                    slice(),
                    fn("add"),
                    fn("bad"),
                    fn("first"),
                    fn("add_max")})
      pool.push_back(v);
    pool.push_back(Value::integer(static_cast<Int>(1) << 126));
    pool.push_back(Value::type(dtype(Scalar::Fp16)));
    pool.push_back(Value::type(dtype(Scalar::Int32)));
    pool.push_back(Value::type(dtype(Scalar::Void)));
    pool.push_back(Value::type(Dtype::ptr(Scalar::Fp32)));
    pool.push_back(*findConstant("PropagateNan.NONE"));
    pool.push_back(Value::tuple({pool[0], pool[0]}));
    pool.push_back(blockPtr = run("make_block_ptr", {ptr(Scalar::Fp32), list({64, 64}), list({64, 1}), list({0, 0}),
                                                     list({16, 16}), list({1, 0})}));
    ASSERT_TRUE(blockPtr.isRecord());
    diags = DiagEngine();
  }

  /// Half of the arguments are of the sort that the parameter's name asks for, so that many calls get past the first
  /// check.
  Value forParameter(const Signature::Param &p) {
    static const std::map<std::string, std::string> sorts = {
        {"pointer", "pointer"}, {"base", "block_ptr"},  {"axis", "axis"},  {"dim", "axis"},
        {"shape", "shape"},     {"dims", "axes"},       {"dtype", "type"}, {"mask", "mask"},
        {"index", "index"},     {"num_bins", "length"}, {"end", "length"}, {"start", "axis"},
        {"args", "numbers"},    {"out_dtype", "type"},
    };
    auto it = sorts.find(p.name);
    std::string sort = it == sorts.end() ? "tensor" : it->second;
    auto pick = [&](std::initializer_list<Value> v) { return *(v.begin() + random() % v.size()); };
    auto shape = [&] { return ir::Shape(same.begin(), same.end()); };
    if (sort == "pointer")
      return pick(
          {ptr(Scalar::Int32, shape()), ptr(Scalar::Fp32, shape()), ptr(Scalar::UInt64), ptr(Scalar::Int1, shape())});
    if (sort == "block_ptr")
      return blockPtr;
    if (sort == "axis")
      return pick({num(0), num(1), num(-1), Value::none()});
    if (sort == "shape")
      return pick({list({2}), list({16, 16}), list({256}), list({1, 2}), Value::tuple({list({2, 16, 16})})});
    if (sort == "axes")
      return pick({list({}), list({1, 0}), list({0}), list({2, 0, 1})});
    if (sort == "length")
      return pick({num(1), num(16), num(1024)});
    if (sort == "type")
      return pick(
          {Value::type(dtype(Scalar::Fp16)), Value::type(dtype(Scalar::Int64)), Value::type(dtype(Scalar::Fp32))});
    if (sort == "mask")
      return var(Scalar::Int1, shape());
    if (sort == "index")
      return var(Scalar::Int32, shape());
    if (sort == "numbers")
      return pick({list({1, 2}), Value::tuple({var(Scalar::Int32), num(3)})});
    return pick({var(sameScalar, shape()), var(sameScalar, shape()), num(2), real(1.5)});
  }
  /// The shape and dtype that the likely arguments of one call share.
  std::vector<int64_t> same;
  Scalar sameScalar = Scalar::Fp32;
  Value blockPtr;
  void nextCall() {
    const std::vector<int64_t> shapes[] = {{}, {2}, {16, 16}, {2, 16, 16}, {16, 2}};
    const Scalar scalars[] = {Scalar::Fp32, Scalar::Fp32, Scalar::Int32, Scalar::Fp16, Scalar::Int8, Scalar::Int1};
    same = shapes[random() % 5];
    sameScalar = scalars[random() % 6];
  }

  const Value &any() { return pool[random() % pool.size()]; }

  void check(const Value &result, const std::string &what) {
    EXPECT_EQ(result.isError(), diags.hasErrors()) << what << "\n" << messages();
    for (const Diagnostic &d : diags.all()) {
      EXPECT_TRUE(d.loc) << what << "\n" << d.message();
      EXPECT_EQ(d.message().find("{0}"), std::string::npos) << what;
    }
    (result.isError() ? refused : accepted) += 1;
    if (diags.hasErrors())
      // What an erroneous call left behind need not be valid.
      function->block()->ops.resize(kept);
    kept = function->block()->ops.size();
    diags = DiagEngine();
  }
  size_t kept = 0;
  unsigned refused = 0, accepted = 0;
};

TEST_F(RobustnessTest, Builtins) {
  for (const Builtin *b : allBuiltins()) {
    // Calls of other functions with arguments that these do not expect are the callee's business.
    const Signature &sig = signatureOf(*b);
    for (int i = 0; i < 300; ++i) {
      nextCall();
      std::vector<Value> args;
      std::string what = b->name;
      for (const auto &p : sig.params) {
        // Defaults are taken often, so that the first arguments get a chance to be the ones that matter.
        Value v = random() % 4 ? forParameter(p) : p.variadic ? Value::tuple({any(), any()}) : any();
        if (p.hasDefault && random() % 4)
          v = p.defaultValue;
        if (p.variadic && !sequenceItems(v))
          v = Value::tuple({v});
        if (p.keywords) // whoever calls makes the tuple
          v = random() % 2 ? Value::tuple({}) : Value::tuple({Value::tuple({Value::str("name"), any()})});
        if (p.name == "combine_fn")
          v = fn(random() % 2 ? "add" : random() % 2 ? "first" : "bad");
        if (p.name == "scalar_fn")
          v = fn(random() % 2 ? "first" : "bad");
        what += " " + repr(v);
        args.push_back(v);
      }
      if (std::string_view(b->name).starts_with("dtype."))
        args[0] = Value::type(dtype(Scalar::Int8));
      // A method is found by its receiver.
      for (auto [kind, receiver] : {std::pair<std::string_view, Value>{"python.str.", Value::str("a b")},
                                    {"python.int.", Value::integer(-7)},
                                    {"python.float.", Value::number(2.5)},
                                    {"python.tuple.", Value::tuple({Value::integer(1), Value::str("a")})},
                                    {"python.dict.", dictOf({Value::str("a")}, {Value::integer(1)})}})
        if (std::string_view(b->name).starts_with(kind))
          args[0] = receiver;
      std::vector<Loc> locs(args.size(), at());
      check(callBuiltin(c, *b, args, locs, at()), what);
    }
  }
  EXPECT_GT(refused, 10000u);
  EXPECT_GT(accepted, 10000u);
}

TEST_F(RobustnessTest, Operators) {
  for (int i = 0; i < 20000; ++i) {
    const Value &a = any(), &b = any();
    int o = static_cast<int>(random() % 13);
    check(op(static_cast<BinOp>(o), a, b), repr(a) + spelling(static_cast<BinOp>(o)) + repr(b));
    check(cmp(static_cast<Cmp>(o % 6), a, b), repr(a) + spelling(static_cast<Cmp>(o % 6)) + repr(b));
    check(negate(c, a, at()), "-" + repr(a));
    check(invert(c, a, at()), "~" + repr(a));
    check(logicalNot(c, a, at()), "not " + repr(a));
    check(truth(c, a, at()), "truth " + repr(a));
    if (a.isTensor())
      check(subscript(c, a, b, at()), repr(a) + "[" + repr(b) + "]");
    EXPECT_FALSE(repr(a).empty());
    EXPECT_FALSE(kindName(a).empty());
    // A copy has the key of its original.
    EXPECT_EQ(key(a), key(Value(a))) << repr(a);
    str(a);
  }
  EXPECT_GT(refused, 10000u);
  EXPECT_GT(accepted, 10000u);
}

} // namespace
} // namespace tegula::lang
