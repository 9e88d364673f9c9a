// Text, keys and equality of values, spellings of dtypes, the tables of builtins.
#include "Fixture.h"
#include <cmath>
#include <limits>
#include <set>

namespace tegula::lang {
namespace {

TEST(Dtype, Spellings) {
  struct Row {
    const char *text, *code, *spelling;
  };
  const Row rows[] = {
      {"fp32", "fp32", "float32"},
      {"f32", "fp32", "float32"},
      {"tl.float32", "fp32", "float32"},
      {"float", "fp32", "float32"},
      {"i32", "i32", "int32"},
      {"int", "i32", "int32"},
      {"u8", "u8", "uint8"},
      {"bool", "i1", "int1"},
      {"u1", "i1", "int1"},
      {"half", "fp16", "float16"},
      {"double", "fp64", "float64"},
      {"bfloat16", "bf16", "bfloat16"},
      {"int64_t", "i64", "int64"},
      {"float8_e4m3fn", "fp8e4nv", "float8e4nv"},
      {"f8e4m3fn", "fp8e4nv", "float8e4nv"},
      {"float8_e5m2fnuz", "fp8e5b16", "float8e5b16"},
      {"*fp16", "*fp16", "pointer<float16>"},
      {"*kfp16", "*kfp16", "pointer<const float16>"},
      {"const tl.float16*", "*kfp16", "pointer<const float16>"},
      {"fp16 *", "*fp16", "pointer<float16>"},
      {"*i1", "*i1", "pointer<int1>"},
  };
  for (const Row &r : rows) {
    auto d = parseDtype(r.text);
    ASSERT_TRUE(d) << r.text;
    EXPECT_EQ(code(*d), r.code);
    EXPECT_EQ(spelling(*d), r.spelling);
    EXPECT_EQ(parseDtype(code(*d)), d);
  }
  for (const char *bad : {"", "fp33", "*", "**fp16", "const fp16", "float32[3]"})
    EXPECT_FALSE(parseDtype(bad)) << bad;
  EXPECT_EQ(irType(Dtype::ptr(Scalar::Int1)), ir::Type::ptr(ir::Elem::I8));
}

TEST(Value, CopiesMovesAndAssigns) {
  auto opaque = std::make_shared<const OpaqueValue>(OpaqueValue{"mode", 7});
  const Value all[] = {Value(),
                       Value::none(),
                       Value::boolean(true),
                       Value::integer(-5),
                       Value::number(0.5),
                       Value::str("a text that has memory of its own"),
                       Value::type(dtype(Scalar::Fp32)),
                       Value::tuple({Value::integer(1), Value(opaque)}),
                       Value(opaque)};
  for (const Value &from : all)
    for (const Value &to : all) {
      Value v = to;
      v = from;
      EXPECT_EQ(key(v), key(from));
      Value moved = std::move(v);
      EXPECT_EQ(key(moved), key(from));
      v = to;
      v = std::move(moved);
      EXPECT_EQ(key(v), key(from));
      EXPECT_EQ(v.kind(), from.kind());
    }
  EXPECT_EQ(opaque.use_count(), 3); // this one, and twice in `all`

  Value v = Value::str("a text");
  const Value &same = v;
  v = same;
  EXPECT_EQ(v.asStr(), "a text");
  // What is assigned is kept alive by the value that is overwritten alone.
  v = Value::tuple({Value::tuple({Value::str("within")})});
  v = v.items()[0];
  EXPECT_EQ(repr(v), "('within',)");
  v = v.items()[0];
  EXPECT_EQ(v.asStr(), "within");
}

TEST(Value, TextOfNumbers) {
  EXPECT_EQ(floatToString(0.1), "0.1");
  EXPECT_EQ(floatToString(2), "2.0");
  EXPECT_EQ(floatToString(-0.0), "-0.0");
  EXPECT_EQ(floatToString(1e16), "1e+16");
  EXPECT_EQ(floatToString(123456789012345.0), "123456789012345.0");
  EXPECT_EQ(floatToString(1e-5), "1e-05");
  EXPECT_EQ(floatToString(0.0001), "0.0001");
  EXPECT_EQ(floatToString(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(intToString(0), "0");
  EXPECT_EQ(intToString(-(static_cast<Int>(1) << 100)), "-1267650600228229401496703205376");
}

TEST_F(LangTest, Texts) {
  Value x = var(Scalar::Int32, {128});
  EXPECT_EQ(repr(x), "int32[128]");
  EXPECT_EQ(str(x), "int32[constexpr[128]]");
  EXPECT_EQ(kindName(x), "tensor int32[128]");
  EXPECT_EQ(kindName(var(Scalar::Fp32)), "scalar float32");
  EXPECT_EQ(repr(Value::tuple({num(1)})), "(1,)");
  EXPECT_EQ(repr(Value::tuple({num(1), Value::str("a'b"), Value::none()})), "(1, \"a'b\", None)");
  EXPECT_EQ(str(Value::type(dtype(Scalar::Fp16))), "fp16");
  EXPECT_EQ(repr(Value::type(dtype(Scalar::Fp16))), "float16");
  EXPECT_EQ(repr(Value::boolean(true)), "True");
}

TEST_F(LangTest, KeysDiffer) {
  std::vector<Value> all = {num(1),
                            Value::boolean(true),
                            real(1),
                            real(0.0),
                            real(-0.0),
                            Value::str("1"),
                            Value::none(),
                            Value::tuple({}),
                            list({1}),
                            list({1, 2}),
                            list({12}),
                            Value::str("i1"),
                            Value::type(dtype(Scalar::Int32)),
                            Value::type(Dtype::ptr(Scalar::Int32)),
                            Value::type(Dtype::ptr(Scalar::Int32, true)),
                            Value::tuple({list({1}), num(2)}),
                            real(std::nan(""))};
  std::set<std::string> keys;
  for (const Value &v : all)
    EXPECT_TRUE(keys.insert(key(v)).second) << repr(v);
}

TEST_F(LangTest, Equality) {
  EXPECT_TRUE(equal(num(1), Value::boolean(true)));
  EXPECT_TRUE(equal(num(1), real(1)));
  EXPECT_FALSE(equal(num((1ll << 53) + 1), real(0x1p53)));
  EXPECT_TRUE(equal(list({1, 2}), list({1, 2})));
  EXPECT_FALSE(equal(list({1, 2}), list({1})));
  EXPECT_FALSE(equal(real(std::nan("")), real(std::nan(""))));
  EXPECT_FALSE(equal(Value::none(), num(0)));
  Value x = var(Scalar::Int32);
  EXPECT_TRUE(equal(x, x));
  EXPECT_FALSE(equal(x, var(Scalar::Int32)));
  EXPECT_FALSE(x.isConstexpr());
  EXPECT_FALSE(Value::tuple({num(1), x}).isConstexpr());
}

TEST(Builtins, TablesAreSound) {
  for (const Builtin *b : allBuiltins()) {
    const Signature &s = signatureOf(*b);
    EXPECT_TRUE(*b->doc) << b->name;
    EXPECT_EQ(std::string_view(b->doc).back(), '.') << b->name;
    for (const auto &p : s.params)
      EXPECT_FALSE(p.name.empty()) << b->name;
  }
  EXPECT_EQ(findBuiltin("math.exp"), findBuiltin("exp"));
  EXPECT_EQ(findBuiltin("extra.cuda.libdevice.tanh"), findBuiltin("extra.libdevice.tanh"));
  EXPECT_EQ(findBuiltin("math.load"), nullptr);
  EXPECT_EQ(findBuiltin("nope"), nullptr);
  EXPECT_NE(findMethod("exp"), findBuiltin("exp"));
  EXPECT_NE(findMethod("to"), nullptr);
  EXPECT_EQ(findMethod("load"), nullptr);
  EXPECT_EQ(findMethod("dot"), nullptr);
  EXPECT_TRUE(findConstant("float32")->isDtype());
  EXPECT_FALSE(findConstant("fp32"));
  const Signature &s = signatureOf(*findBuiltin("reshape"));
  ASSERT_EQ(s.params.size(), 3u);
  EXPECT_TRUE(s.params[1].variadic);
  EXPECT_TRUE(s.params[2].keywordOnly);
}

} // namespace
} // namespace tegula::lang
