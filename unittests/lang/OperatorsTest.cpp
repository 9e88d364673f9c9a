// Literals, casts, broadcasting, operators and attributes of tensors, by the operations they make.
#include "Fixture.h"
#include <limits>

namespace tegula::lang {
namespace {

TEST_F(LangTest, Literals) {
  struct Row {
    Value v;
    const char *code;
  };
  const Row rows[] = {
      {Value::boolean(true), "i1"},
      {num(0), "i32"},
      {num(INT32_MAX), "i32"},
      {num(1ll << 31), "u32"},
      {num((1ll << 32) - 1), "u32"},
      {num(1ll << 32), "i64"},
      {num(-(1ll << 31)), "i32"},
      {num(-(1ll << 31) - 1), "i64"},
      {num(INT64_MAX), "i64"},
      {Value::integer(static_cast<Int>(1) << 63), "u64"},
      {real(0.1), "fp32"},
      {real(1e38), "fp32"},
      {real(1e39), "fp64"},
      {real(1e-40), "fp64"},
      {real(0), "fp32"},
      {real(std::numeric_limits<double>::infinity()), "fp32"},
  };
  for (const Row &r : rows)
    EXPECT_EQ(code(*literalDtype(r.v)), r.code) << repr(r.v);
  EXPECT_FALSE(literalDtype(Value::integer(static_cast<Int>(1) << 64)));
  EXPECT_EQ(typeName(toTensor(c, num(3), at()).asTensor()), "int32");
  EXPECT_EQ(*ir::constantInt(constant(c, num(255), dtype(Scalar::UInt8), at()).asTensor().value) & 255, 255);
}

TEST_F(LangTest, Casts) {
  struct Row {
    const char *from, *to, *ops;
  };
  const Row rows[] = {
      {"fp32", "fp16", "fptrunc"},
      {"fp16", "fp32", "fpext"},
      {"fp16", "bf16", "fpext fptrunc"},
      {"bf16", "fp64", "fpext fpext"},
      {"fp64", "fp16", "fptrunc"},
      {"fp64", "fp8e5", "fptrunc fptrunc"},
      {"i32", "bf16", "sitofp fptrunc"},
      {"fp32", "fp8e5", "fptrunc"},
      {"fp8e5", "fp8e4nv", "fpext fptrunc"},
      {"fp8e4nv", "fp16", "fpext fptrunc"},
      {"i32", "i8", "trunc"},
      {"i8", "i64", "sext"},
      {"u8", "i64", "zext"},
      {"i1", "i32", "zext"},
      {"i32", "u32", ""},
      {"i32", "i1", "cmpi"},
      {"fp32", "i1", "cmpf"},
      {"*fp32", "i1", "ptrtoint cmpi"},
      {"*fp32", "i64", "ptrtoint"},
      {"fp32", "i32", "fptosi"},
      {"fp32", "u8", "fptoui"},
      {"fp16", "i32", "fpext fptosi"},
      {"i32", "fp32", "sitofp"},
      {"u32", "fp64", "uitofp"},
      {"i1", "fp32", "uitofp"},
      {"i32", "fp8e5", "sitofp fptrunc"},
      {"i64", "*fp16", "inttoptr"},
      {"i32", "*fp16", "sext inttoptr"},
      {"*fp16", "*fp32", "bitcast"},
      {"*fp16", "*kfp16", ""},
      {"fp32", "fp32", ""},
  };
  for (const Row &r : rows) {
    Value v = cast(c, var(*parseDtype(r.from), {64}), *parseDtype(r.to), at());
    ASSERT_TRUE(v.isTensor()) << messages();
    EXPECT_EQ(code(v.asTensor().dtype), r.to);
    EXPECT_EQ(v.asTensor().value->type, irType(*parseDtype(r.to), {64}));
    EXPECT_EQ(ops(), r.ops) << r.from << " to " << r.to;
  }
  cast(c, var(Scalar::Fp32), dtype(Scalar::Int32), at(), Value::none(), true);
  EXPECT_EQ(ops(), "bitcast");
  cast(c, var(Scalar::UInt32), dtype(Scalar::Int32), at(), Value::none(), true);
  EXPECT_EQ(ops(), "");
  Value rtz = cast(c, var(Scalar::Fp32), dtype(Scalar::Bf16), at(), Value::str("rtz"));
  EXPECT_EQ(rtz.asTensor().value->def->rtz(), 1);
  EXPECT_EQ(messages(), "");
}

TEST_F(LangTest, Arithmetic) {
  struct Row {
    BinOp op;
    Value a, b;
    const char *type, *ops;
  };
  Value i32 = var(Scalar::Int32), u32 = var(Scalar::UInt32), f16 = var(Scalar::Fp16), f32 = var(Scalar::Fp32),
        b1 = var(Scalar::Int1);
  Value block = var(Scalar::Int32, {64}), row = var(Scalar::Fp32, {1, 32}), column = var(Scalar::Fp32, {16, 1});
  Value p = ptr(Scalar::Fp32), ps = ptr(Scalar::Fp32, {64}), i8 = var(Scalar::Int8), u8 = var(Scalar::UInt8),
        i64 = var(Scalar::Int64);
  const Row rows[] = {
      {BinOp::Add, i32, block, "int32[64]", "splat add"},
      {BinOp::Add, column, row, "float32[16, 32]", "broadcast broadcast fadd"},
      {BinOp::Add, f16, real(0.5), "float16", "fadd"},
      {BinOp::Mul, num(2), u32, "uint32", "mul"},
      {BinOp::Sub, i32, f16, "float16", "sitofp fptrunc fsub"},
      {BinOp::Div, i32, i32, "float32", "sitofp sitofp fdiv"},
      {BinOp::Div, f16, f16, "float32", "fpext fpext fdiv"},
      {BinOp::FloorDiv, i32, num(4), "int32", "sdiv"},
      {BinOp::FloorDiv, u32, u32, "uint32", "udiv"},
      {BinOp::Mod, i32, i32, "int32", "srem"},
      {BinOp::Mod, f32, real(2), "float32", "frem"},
      {BinOp::RShift, i32, num(3), "int32", "ashr"},
      {BinOp::RShift, u32, i32, "uint32", "lshr"},
      {BinOp::RShift, i32, u32, "uint32", "ashr"},
      {BinOp::LShift, num(1), i32, "int32", "shl"},
      {BinOp::And, b1, var(Scalar::Int1), "int1", "and"},
      {BinOp::Or, i32, b1, "int32", "zext or"},
      {BinOp::Add, p, block, "pointer<float32>[64]", "splat addptr"},
      {BinOp::Add, block, p, "pointer<float32>[64]", "splat addptr"},
      {BinOp::Add, ps, i8, "pointer<float32>[64]", "sext splat addptr"},
      {BinOp::Add, ps, u8, "pointer<float32>[64]", "zext splat addptr"},
      {BinOp::Sub, p, i64, "pointer<float32>", "sub addptr"},
      {BinOp::Add, p, num(4), "pointer<float32>", "addptr"},
  };
  for (const Row &r : rows) {
    Value v = op(r.op, r.a, r.b);
    ASSERT_TRUE(v.isTensor()) << messages();
    EXPECT_EQ(typeName(v.asTensor()), r.type);
    EXPECT_EQ(ops(), r.ops) << repr(r.a) << spelling(r.op) << repr(r.b);
  }
  EXPECT_EQ(messages(), "");
}

TEST_F(LangTest, ComparisonsAndUnary) {
  Value i = var(Scalar::Int32), u = var(Scalar::UInt32), f = var(Scalar::Fp32), b = var(Scalar::Int1);
  auto pred = [&](Value v) { return std::string(ir::name(v.asTensor().value->def->pred())); };
  EXPECT_EQ(pred(cmp(Cmp::Lt, i, num(3))), "slt");
  EXPECT_EQ(pred(cmp(Cmp::Lt, i, u)), "ult");
  EXPECT_EQ(pred(cmp(Cmp::Ne, f, f)), "une");
  EXPECT_EQ(pred(cmp(Cmp::Eq, f, num(0))), "oeq");
  EXPECT_EQ(typeName(cmp(Cmp::Ge, num(3), i).asTensor()), "int1");
  ops();
  negate(c, f, at());
  negate(c, i, at());
  invert(c, i, at());
  logicalNot(c, b, at());
  EXPECT_EQ(ops(), "fneg sub xor xor");
  logicalAndOr(c, true, b, var(Scalar::Int1), at());
  truth(c, f, at());
  truth(c, ptr(Scalar::Fp32), at());
  EXPECT_EQ(ops(), "and cmpf ptrtoint cmpi");
  EXPECT_EQ(messages(), "");
}

TEST_F(LangTest, OverflowChecksOfDebugBuilds) {
  target.debug = true;
  op(BinOp::Add, var(Scalar::Int32), var(Scalar::Int32));
  EXPECT_EQ(ops(), "sext sext add cmpi cmpi and assert add");
  op(BinOp::Add, var(Scalar::Int64), var(Scalar::Int64));
  EXPECT_EQ(ops(), "add");
  run("add", {var(Scalar::Int32), var(Scalar::Int32)}, {{"sanitize_overflow", Value::boolean(false)}});
  EXPECT_EQ(ops(), "add");
  run("reduce", {var(Scalar::Int32, {8}), num(0), fn("add")});
  EXPECT_EQ(ops(), "reduce{add yield}");
}

TEST_F(LangTest, Subscripts) {
  Value x = var(Scalar::Fp32, {8});
  EXPECT_EQ(typeName(subscript(c, x, Value::tuple({Value::none(), slice()}), at()).asTensor()), "float32[1, 8]");
  EXPECT_EQ(typeName(subscript(c, x, Value::tuple({slice(), Value::none(), Value::none()}), at()).asTensor()),
            "float32[8, 1, 1]");
  EXPECT_EQ(typeName(subscript(c, var(Scalar::Int8), Value::none(), at()).asTensor()), "int8[1]");
  EXPECT_EQ(typeName(broadcastTo(c, x, {4, 8}, at()).asTensor()), "float32[4, 8]");
}

TEST_F(LangTest, Attributes) {
  Value x = var(Scalar::Fp16, {16, 32}), p = ptr(Scalar::Int8);
  EXPECT_EQ(repr(attr(x, "shape")), "(16, 32)");
  EXPECT_EQ(repr(attr(x, "dtype")), "float16");
  EXPECT_EQ(repr(attr(x, "type")), "float16[16, 32]");
  EXPECT_EQ(repr(attr(attr(x, "type"), "scalar")), "float16");
  EXPECT_EQ(repr(attr(x, "numel")), "512");
  EXPECT_EQ(typeName(attr(x, "T").asTensor()), "float16[32, 16]");
  EXPECT_EQ(repr(attr(attr(p, "dtype"), "element_ty")), "int8");
  EXPECT_EQ(repr(attr(attr(x, "dtype"), "primitive_bitwidth")), "16");
  EXPECT_EQ(repr(method(attr(x, "dtype"), "is_fp16")), "True");
  EXPECT_EQ(repr(method(attr(p, "dtype"), "is_ptr")), "True");
  EXPECT_EQ(repr(method(Value::type(dtype(Scalar::UInt8)), "get_int_max_value")), "255");
  EXPECT_EQ(repr(method(Value::type(dtype(Scalar::Int8)), "get_int_min_value")), "-128");
  EXPECT_EQ(typeName(method(x, "to", {Value::type(dtype(Scalar::Fp32))}).asTensor()), "float32[16, 32]");
  ops();
  EXPECT_EQ(typeName(method(var(Scalar::Fp32, {16, 32}), "exp").asTensor()), "float32[16, 32]");
  EXPECT_EQ(ops(), "exp");
  EXPECT_TRUE(attribute(c, x, "softmax", at()));
  for (const char *no : {"load", "dot", "sort", "where", "squeeze", "nope"})
    EXPECT_FALSE(attribute(c, x, no, at())) << no;
  EXPECT_FALSE(attribute(c, num(3), "dtype", at()));
}

} // namespace
} // namespace tegula::lang
