// Python arithmetic on compile-time objects.
#include "Fixture.h"
#include <cmath>

namespace tegula::lang {
namespace {

TEST_F(LangTest, PythonNumbers) {
  struct Row {
    BinOp op;
    Value a, b;
    const char *result;
  };
  const Row rows[] = {
      {BinOp::FloorDiv, num(-7), num(2), "-4"},
      {BinOp::FloorDiv, num(7), num(-2), "-4"},
      {BinOp::Mod, num(-7), num(2), "1"},
      {BinOp::Mod, num(7), num(-2), "-1"},
      {BinOp::Div, num(7), num(2), "3.5"},
      {BinOp::Div, num(6), num(2), "3.0"},
      {BinOp::Pow, num(2), num(10), "1024"},
      {BinOp::Pow, num(2), num(-1), "0.5"},
      {BinOp::Pow, num(-1), num(3), "-1"},
      {BinOp::FloorDiv, real(-7.5), num(2), "-4.0"},
      {BinOp::Mod, real(-7.5), num(2), "0.5"},
      {BinOp::Mod, real(5.5), num(-2), "-0.5"},
      {BinOp::LShift, num(1), num(100), "1267650600228229401496703205376"},
      {BinOp::RShift, num(-5), num(1), "-3"},
      {BinOp::RShift, num(-5), num(500), "-1"},
      {BinOp::LShift, num(-3), num(2), "-12"},
      {BinOp::And, num(12), num(10), "8"},
      {BinOp::Xor, num(12), num(10), "6"},
      {BinOp::Or, Value::boolean(true), Value::boolean(false), "True"},
      {BinOp::Add, Value::boolean(true), Value::boolean(true), "2"},
      {BinOp::Add, Value::str("a"), Value::str("b"), "'ab'"},
      {BinOp::Mul, Value::str("ab"), num(2), "'abab'"},
      {BinOp::Add, list({1}), list({2}), "(1, 2)"},
      {BinOp::Mul, num(2), list({1, 2}), "(1, 2, 1, 2)"},
      {BinOp::Mul, list({1}), num(-3), "()"},
  };
  for (const Row &r : rows)
    EXPECT_EQ(repr(op(r.op, r.a, r.b)), r.result) << repr(r.a) << spelling(r.op) << repr(r.b);
  EXPECT_EQ(messages(), "");
  EXPECT_EQ(ops(), "");
}

TEST_F(LangTest, PythonComparisons) {
  auto yes = [&](Cmp o, Value a, Value b) { return cmp(o, a, b).asBool(); };
  EXPECT_TRUE(yes(Cmp::Lt, num(1), real(1.5)));
  EXPECT_TRUE(yes(Cmp::Gt, real(-1.5), num(-2)));
  EXPECT_TRUE(yes(Cmp::Lt, real(0x1p53), num((1ll << 53) + 1)));
  EXPECT_FALSE(yes(Cmp::Le, real(std::nan("")), num(1)));
  EXPECT_TRUE(yes(Cmp::Ne, real(std::nan("")), real(std::nan(""))));
  EXPECT_TRUE(yes(Cmp::Eq, list({1, 2}), list({1, 2})));
  EXPECT_TRUE(yes(Cmp::Lt, list({1, 2}), list({1, 3})));
  EXPECT_TRUE(yes(Cmp::Lt, Value::str("a"), Value::str("b")));
  EXPECT_TRUE(yes(Cmp::Eq, Value::none(), Value::none()));
  EXPECT_TRUE(yes(Cmp::Ne, Value::none(), num(0)));
  EXPECT_TRUE(yes(Cmp::Eq, Value::type(dtype(Scalar::Int8)), Value::type(dtype(Scalar::Int8))));
}

TEST_F(LangTest, PythonUnary) {
  EXPECT_EQ(repr(negate(c, num(3), at())), "-3");
  EXPECT_EQ(repr(negate(c, real(0), at())), "-0.0");
  EXPECT_EQ(repr(invert(c, num(5), at())), "-6");
  EXPECT_EQ(repr(plus(c, Value::boolean(true), at())), "1");
  EXPECT_EQ(repr(logicalNot(c, Value::str(""), at())), "True");
  EXPECT_FALSE(constexprTruth(Value::none()));
  EXPECT_FALSE(constexprTruth(Value::tuple({})));
  EXPECT_TRUE(constexprTruth(real(std::nan(""))));
}

TEST_F(LangTest, PythonNames) {
  EXPECT_EQ(repr(run("python.len", {list({4, 5})})), "2");
  EXPECT_EQ(repr(run("python.int", {real(-2.7)})), "-2");
  EXPECT_EQ(repr(run("python.float", {Value::str("-inf")})), "-inf");
  EXPECT_EQ(repr(run("python.min", {num(3), real(2.5)})), "2.5");
  EXPECT_EQ(repr(run("python.max", {list({3, 9, 4})})), "9");
  EXPECT_EQ(repr(run("python.isinstance", {num(3), Value(findBuiltin("python.int"))})), "True");
  EXPECT_EQ(repr(run("python.isinstance", {var(Scalar::Int8), *findConstant("tensor")})), "True");
  EXPECT_EQ(repr(run("python.isinstance",
                     {num(3), Value::tuple({*findConstant("tensor"), Value(findBuiltin("constexpr"))})})),
            "True");
  EXPECT_EQ(repr(run("python.hasattr", {var(Scalar::Int8), Value::str("dtype")})), "True");
  EXPECT_EQ(repr(run("python.hasattr", {num(8), Value::str("dtype")})), "False");
  EXPECT_EQ(repr(run("python.getattr", {num(8), Value::str("dtype"), num(7)})), "7");
  EXPECT_EQ(repr(run("python.math.sqrt", {num(4)})), "2.0");
  EXPECT_EQ(repr(run("python.math.ceil", {real(1.5)})), "2");
  EXPECT_EQ(repr(run("python.math.log", {num(8), num(2)})), "3.0");
  EXPECT_EQ(ops(), "");
  EXPECT_EQ(typeName(run("python.max", {var(Scalar::Int32), num(2)}).asTensor()), "int32");
  EXPECT_EQ(ops(), "smax");
  Value loop = run("range", {num(4)}, {{"num_stages", num(3)}});
  const auto &r = *loop.get<std::shared_ptr<const RangeValue>>();
  EXPECT_EQ(r.kind, RangeValue::Kind::TlRange);
  EXPECT_EQ(repr(Value::tuple(r.args)), "(0, 4, 1)");
  ASSERT_EQ(r.options.size(), 1u);
  EXPECT_EQ(r.options[0].first, "num_stages");
  EXPECT_EQ(messages(), "");
}

} // namespace
} // namespace tegula::lang
