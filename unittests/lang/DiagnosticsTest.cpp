// Every message of the language layer, provoked once; the fragments that LANGUAGE quotes are checked word for word.
#include "Fixture.h"
#include <cmath>
#include <set>

namespace tegula::lang {
namespace {

class DiagnosticsTest : public LangTest {
protected:
  std::set<const DiagKind *> seen;

  /// Runs one mistake: exactly this kind is reported, at the right place, with `fragment` in its text.
  void wrong(const DiagKind &kind, const char *fragment, const std::function<Value()> &mistake) {
    madeErrors = true;
    size_t before = diags.all().size();
    Value v = mistake();
    ASSERT_GT(diags.all().size(), before) << kind.name << ": nothing reported";
    const Diagnostic &d = diags.all().back();
    EXPECT_EQ(d.kind, &kind) << d.kind->name << ": " << d.message();
    EXPECT_NE(d.message().find(fragment), std::string::npos) << d.message();
    for (size_t at = d.message().find('{'); at != std::string::npos; at = d.message().find('{', at + 1))
      EXPECT_NE(d.message().find('}', at), at + 2) << "a placeholder is left: " << d.message();
    EXPECT_TRUE(d.loc) << kind.name;
    EXPECT_EQ(v.isError(), kind.severity == Severity::Error) << kind.name;
    seen.insert(d.kind);
    diags = DiagEngine();
  }
  /// A call of a builtin as the mistake.
  void wrongCall(const DiagKind &kind, const char *fragment, const char *name, std::vector<Value> args,
                 FakeContext::Keywords kw = {}) {
    wrong(kind, fragment, [&] { return run(name, args, kw); });
  }
  Value dt(Scalar s) { return Value::type(dtype(s)); }

  void operators();
  void compileTime();
  void casts();
  void shapes();
  void creation();
  void memory();
  void descriptors();
  void atomics();
  void dot();
  void elementwise();
  void reductions();
  void debugging();
  void aggregates();
};

void DiagnosticsTest::operators() {
  Value f = var(Scalar::Fp32), i = var(Scalar::Int32), u = var(Scalar::UInt32), p = ptr(Scalar::Fp32),
        b = var(Scalar::Int32, {8});
  wrong(diag::invalidOperands, "invalid operands of type pointer<float32> and float32",
        [&] { return op(BinOp::Add, p, f); });
  wrong(diag::invalidOperands, "`&`", [&] { return op(BinOp::And, f, f); });
  wrong(diag::invalidOperands, "`<`", [&] { return cmp(Cmp::Lt, p, p); });
  wrong(diag::invalidOperands, "`+`", [&] { return op(BinOp::Add, f, Value::none()); });
  wrong(diag::invalidOperands, "`@`", [&] { return op(BinOp::MatMul, f, f); });
  wrong(diag::invalidOperands, "float8e5", [&] { return op(BinOp::Add, var(Scalar::Fp8e5), i); });
  wrongCall(diag::invalidOperand, "abs", "abs", {p});
  wrong(diag::addPointers, "cannot add pointers together", [&] { return op(BinOp::Add, p, p); });
  wrong(diag::signedness, "Cannot use /, #, or % with int32 and uint32 because they have different signedness",
        [&] { return op(BinOp::Mod, i, u); });
  wrong(diag::scalarOutOfRange, "Scalar 300 is out of range for type int8",
        [&] { return op(BinOp::Add, var(Scalar::Int8), num(300)); });
  wrong(diag::negativeScalar, "unsigned tensor and a negative scalar", [&] { return op(BinOp::Add, u, num(-1)); });
  wrong(diag::floatFloorDiv, "`//`", [&] { return op(BinOp::FloorDiv, f, num(2)); });
  wrong(diag::constexprOnly, "`**`", [&] { return op(BinOp::Pow, f, num(2)); });
  wrong(diag::constexprOnly, "+x", [&] { return plus(c, f, at()); });
  wrong(diag::wrongUnary, "wrong type argument to unary minus", [&] { return negate(c, p, at()); });
  wrong(diag::wrongUnary, "invert", [&] { return invert(c, f, at()); });
  wrong(diag::needsBool, "Cannot bitcast data-type of size 32", [&] { return logicalNot(c, i, at()); });
  wrong(diag::needsBool, "`and`", [&] { return logicalAndOr(c, true, i, i, at()); });
  wrong(diag::cannotConvert, "cannot convert 'a' of type str to tensor",
        [&] { return toTensor(c, Value::str("a"), at()); });
  wrong(diag::nonrepresentable, "Nonrepresentable integer",
        [&] { return toTensor(c, Value::integer(static_cast<Int>(1) << 64), at()); });
  wrong(diag::ambiguousTruth, "Boolean value of Tensor", [&] { return truth(c, b, at()); });
  wrong(diag::blockCondition, ".item()", [&] { return truth(c, var(Scalar::Int32, {1}), at()); });
  wrong(diag::shiftTooFar, "32", [&] { return op(BinOp::LShift, i, num(32)); });
  wrongCall(diag::typesMismatch, "join", "join", {f, i});
}

void DiagnosticsTest::compileTime() {
  wrong(diag::unsupportedOperands, "str and int", [&] { return op(BinOp::Add, Value::str("a"), num(1)); });
  wrong(diag::unsupportedOperands, "`<`", [&] { return cmp(Cmp::Lt, Value::none(), num(1)); });
  wrong(diag::unsupportedOperand, "tuple", [&] { return negate(c, list({1}), at()); });
  wrong(diag::divisionByZero, "division by zero", [&] { return op(BinOp::FloorDiv, num(1), num(0)); });
  wrong(diag::intOverflow, "127 bits", [&] { return op(BinOp::Pow, num(10), num(90)); });
  wrong(diag::intOverflow, "`<<`", [&] { return op(BinOp::LShift, num(3), num(126)); });
  wrong(diag::negativeShift, "-1", [&] { return op(BinOp::LShift, num(3), num(-1)); });
  wrong(diag::complexResult, "not a real number", [&] { return op(BinOp::Pow, real(-2), real(0.5)); });
  wrong(diag::sequenceTooLong, "limit", [&] { return op(BinOp::Mul, list({1}), num(1ll << 40)); });
  wrongCall(diag::valueError, "math domain error", "python.math.sqrt", {num(-1)});
  wrongCall(diag::noLength, "len()", "python.len", {num(3)});
  wrongCall(diag::notStatic, "is not a constexpr", "static_range", {var(Scalar::Int32)});
  wrongCall(diag::zeroStep, "zero", "range", {num(0), num(4), num(0)});
  wrongCall(diag::rangeArgument, "For loop bounds and step must all be ints", "python.range", {real(2)});
  wrongCall(diag::rangeScalar, "must be a scalar", "python.range", {var(Scalar::Int32, {4})});
  wrongCall(diag::rangeOption, "`num_stages` has no effect", "python.range",
            {num(4), Value::none(), Value::none(), Value::tuple({Value::tuple({Value::str("num_stages"), num(2)})})});
  wrongCall(diag::noAttributeOfName, "`foo`", "python.getattr", {num(3), Value::str("foo")});
  wrongCall(diag::blockExtremum, "max", "python.max", {var(Scalar::Int32, {4}), num(1)});
  wrongCall(diag::minMaxNan, "nan", "python.max", {real(std::nan("")), num(1)});
}

void DiagnosticsTest::casts() {
  Value f = var(Scalar::Fp32), p = ptr(Scalar::Fp32);
  wrong(diag::bitcastWidth, "Cannot bitcast data-type of size 32 to data-type of size 16",
        [&] { return cast(c, f, dtype(Scalar::Fp16), at(), Value::none(), true); });
  wrong(diag::roundingNotAllowed, "should be set only for truncating fp conversions",
        [&] { return cast(c, f, dtype(Scalar::Fp64), at(), Value::str("rtz")); });
  wrong(diag::unknownRounding, "'up'", [&] { return cast(c, f, dtype(Scalar::Fp16), at(), Value::str("up")); });
  wrong(diag::pointerCast, "int64", [&] { return cast(c, p, dtype(Scalar::Int32), at()); });
  wrong(diag::badCast, "pointer<float32>", [&] { return cast(c, f, Dtype::ptr(Scalar::Fp32), at()); });
}

void DiagnosticsTest::shapes() {
  Value x = var(Scalar::Fp32, {4, 8}), v = var(Scalar::Fp32, {8}), s = var(Scalar::Fp32);
  wrong(diag::incompatibleShapes, "Cannot make_shape_compatible: incompatible dimensions at index 0: 4 and 8",
        [&] { return op(BinOp::Add, var(Scalar::Fp32, {4}), v); });
  wrongCall(diag::rankMismatch, "rank mismatch", "broadcast_to", {v, num(4), num(8)});
  wrongCall(diag::notPowerOfTwo, "Shape element 1 must be a power of 2", "full",
            {list({4, 0}), num(0), dt(Scalar::Int32)});
  wrongCall(diag::tooManyElements, "exceeds triton maximum tensor numel", "full",
            {list({1 << 20, 2}), num(0), dt(Scalar::Int32)});
  wrongCall(diag::rankTooHigh, "24", "full", {op(BinOp::Mul, list({1}), num(25)), num(0), dt(Scalar::Int32)});
  wrongCall(diag::notIntList, "float", "reshape", {x, real(2)});
  wrongCall(diag::runtimeInShape, "constexpr", "full", {Value::tuple({var(Scalar::Int32)}), num(0), dt(Scalar::Int32)});
  target.strict = true;
  wrong(diag::badIndex, "unsupported tensor index `0`", [&] { return subscript(c, v, num(0), at()); });
  const Value all(std::make_shared<const SliceValue>(SliceValue{{Value::none(), Value::none(), Value::none()}}));
  wrong(diag::tooManyIndices, "too many indices for a tensor of rank", [&] {
    return subscript(c, v, Value::tuple({all, all, all, all, all, all, all, all, Value::none()}), at());
  });
  wrong(diag::badIndex, "`0:4`", [&] {
    return subscript(c, v, Value(std::make_shared<const SliceValue>(SliceValue{{num(0), num(4), Value::none()}})),
                     at());
  });
  target.strict = false;
  auto cut = [&](Value a, Value b, Value step) {
    return subscript(
        c, v, Value(std::make_shared<const SliceValue>(SliceValue{{std::move(a), std::move(b), std::move(step)}})),
        at());
  };
  wrong(diag::wrongIndex, "unsupported tensor index 1.5", [&] { return subscript(c, v, real(1.5), at()); });
  wrong(diag::sliceBounds, "`0:4:0`", [&] { return cut(num(0), num(4), num(0)); });
  wrong(diag::emptySlice, "is empty", [&] { return cut(num(2), num(2), Value::none()); });
  wrong(diag::itemOutOfRange, "index -1000", [&] { return subscript(c, v, num(-1000), at()); });
  wrong(diag::twoEllipses, "single ellipsis", [&] {
    return subscript(c, v, Value::tuple({Value(EllipsisValue{}), Value(EllipsisValue{})}), at());
  });
  ASSERT_FALSE(subscript(c, v, num(-1), at()).isError());
  ASSERT_EQ(c.extensions().all().size(), 1u);
  EXPECT_EQ(c.extensions().all()[0].kind, &diag::cutsBlock);
  seen.insert(&diag::cutsBlock);
  wrongCall(diag::invalidAxis, "invalid axis 3", "expand_dims", {v, num(3)});
  wrongCall(diag::duplicateAxes, "duplicate axes, normalized axes = [0, 0]", "expand_dims", {v, list({0, -3})});
  wrongCall(diag::changesElements, "reshape() cannot change total number of elements in tensor", "reshape",
            {x, num(16)});
  wrongCall(diag::badPermutation, "permutation", "permute", {x, list({0, 0})});
  wrongCall(diag::rankTooLow, "trans", "trans", {v});
  wrongCall(diag::squeezeExtent, "extent is 8", "squeeze", {x, num(1)});
  wrongCall(diag::splitExtent, "last dimension of 2", "split", {x});
  wrongCall(diag::catRanks, "equal rank", "cat", {x, v});
  wrongCall(diag::catShapes, "tl.cat requires tensors of the same shape", "cat", {x, var(Scalar::Fp32, {4, 4})});
  wrongCall(diag::notOneElement, "item()", "item", {v});
  wrongCall(diag::deprecatedView, "reshape", "view", {x, num(32)});
  wrong(diag::wrongShape, "[4, 8]", [&] { return broadcastTo(c, x, {8}, at()); });
}

void DiagnosticsTest::creation() {
  wrongCall(diag::notConstexpr, "annotate", "program_id", {var(Scalar::Int32)});
  wrongCall(diag::badArgument, "an integer", "program_id", {Value::str("x")});
  wrongCall(diag::badProgramAxis, "program_id axis must be 0, 1, or 2 but got 3", "program_id", {num(3)});
  wrongCall(diag::arangeConstexpr, "arange's arguments must be of type tl.constexpr", "arange",
            {num(0), var(Scalar::Int32)});
  wrongCall(diag::arangeEmpty, "greater", "arange", {num(4), num(4)});
  Value odd = run("arange", {num(0), num(100)});
  ASSERT_FALSE(odd.isError());
  ASSERT_EQ(c.extensions().all().back().kind, &diag::oddExtent);
  EXPECT_NE(c.extensions().all().back().message().find("portable: 128 elements and a mask `index < 100`"),
            std::string::npos);
  seen.insert(&diag::oddExtent);
  wrongCall(diag::needsPowers, "device_print takes blocks whose extents are powers of 2, found [100]", "device_print",
            {Value::str("x"), odd});
  target.strict = true;
  wrongCall(diag::arangeRange, "arange's range must be a power of 2", "arange", {num(0), num(100)});
  wrongCall(diag::notPowerOfTwo, "must be a power of 2, found 3", "full", {list({3}), num(0), dt(Scalar::Int32)});
  target.strict = false;
  wrongCall(diag::arangeInt32, "int32", "arange", {num(0), num(1ll << 32)});
  wrongCall(diag::fullValue, "tensor int32[4]", "full", {list({4}), var(Scalar::Int32, {4}), dt(Scalar::Int32)});
}

void DiagnosticsTest::memory() {
  Value p = ptr(Scalar::Fp32, {8}), m = var(Scalar::Int1, {8}), x = var(Scalar::Fp32, {8}), n = var(Scalar::Int32);
  wrongCall(diag::notPointer, "pointer", "load", {x});
  wrongCall(diag::otherWithoutMask, "`other` cannot be provided without `mask`", "load", {p}, {{"other", num(0)}});
  wrongCall(diag::maskNotBool, "Mask must have boolean scalar type", "store", {p, x, x});
  wrongCall(diag::blockForScalar, "cannot be a block", "load", {ptr(Scalar::Fp32), m});
  wrongCall(diag::pointerShape, "Expected pointer argument to have shape", "store", {ptr(Scalar::Fp32, {1}), x});
  wrongCall(diag::storeToConst, "Cannot store to a constant pointer", "store",
            {var(Dtype::ptr(Scalar::Fp32, true)), num(0)});
  wrongCall(diag::boundaryOnTensor, "boundary_check", "load", {p}, {{"boundary_check", list({0})}});
  wrongCall(diag::unknownOption, "Cache modifier .xx not supported", "load", {p},
            {{"cache_modifier", Value::str(".xx")}});
  auto block = [&](Value order) {
    return std::vector<Value>{ptr(Scalar::Int8), Value::tuple({n}), list({1}), list({0}), list({16}), std::move(order)};
  };
  wrongCall(diag::deprecatedBlockPtr, "deprecated", "make_block_ptr", block(list({0})));
  Value b = run("make_block_ptr", block(list({0})));
  wrongCall(diag::maskOnBlockPtr, "cannot be specified for loading block pointers", "load", {b, m});
  wrongCall(diag::badBoundaryDim, "1", "load", {b}, {{"boundary_check", list({1})}});
  wrongCall(diag::duplicateBoundaryDim, "duplicate", "load", {b}, {{"boundary_check", list({0, 0})}});
  wrongCall(diag::nanPadding, "int8", "load", {b},
            {{"boundary_check", list({0})}, {"padding_option", Value::str("nan")}});
  wrongCall(diag::blockPtrLengths, "1, 1, 1, 1, 2", "make_block_ptr", block(list({0, 1})));
  wrongCall(diag::blockPtrOrder, "permutation", "make_block_ptr", block(list({1})));
  wrongCall(diag::advanceLength, "2", "advance", {b, list({1, 2})});
}

void DiagnosticsTest::descriptors() {
  const char *make = "make_tensor_descriptor";
  Value p = ptr(Scalar::Fp32), one = list({1}), n = list({100}), block = list({16});
  wrongCall(diag::descriptorRank, "1 to 5", make, {p, list({}), list({}), list({})});
  wrongCall(diag::descriptorRank, "6", make,
            {p, list({8, 8, 8, 8, 8, 8}), list({1, 1, 1, 1, 1, 1}), list({1, 1, 1, 1, 1, 16})});
  wrongCall(diag::descriptorLengths, "1 strides and 2 block", make, {p, n, one, list({1, 16})});
  wrongCall(diag::descriptorLastStride, "Tensor descriptor last dim must be 1", make, {p, n, list({2}), block});
  wrongCall(diag::descriptorLastStride, "int32", make, {p, n, Value::tuple({var(Scalar::Int32)}), block});
  wrongCall(diag::descriptorBlockBytes, "Descriptor block shape must have at least 16 bytes", make,
            {p, n, one, list({2})});
  wrongCall(diag::nanPadding, "int32", make, {ptr(Scalar::Int32), n, one, block},
            {{"padding_option", Value::str("nan")}});
  wrongCall(diag::unknownOption, "Padding option", make, {p, n, one, block}, {{"padding_option", Value::str("one")}});
  Value d = run(make, {p, n, one, block}), constant = run(make, {var(Dtype::ptr(Scalar::Fp32, true)), n, one, block});
  wrongCall(diag::badArgument, "a tensor descriptor", "load_tensor_descriptor", {p, list({0})});
  wrongCall(diag::descriptorOffsets, "expected 1 offsets", "descriptor.load", {d, list({0, 0})});
  wrongCall(diag::descriptorWideOffset, "int64", "descriptor.load", {d, Value::tuple({var(Scalar::Int64)})});
  wrongCall(diag::wrongShape, "[16]", "descriptor.store", {d, list({0}), var(Scalar::Fp32, {32})});
  wrongCall(diag::wrongShape, "scalar", "store_tensor_descriptor", {d, list({0}), real(1)});
  wrongCall(diag::storeToConst, "constant", "descriptor.store", {constant, list({0}), var(Scalar::Fp32, {16})});
  wrongCall(diag::descriptorReduceDtype, "Unsupported dtype", "descriptor.atomic_xor",
            {d, list({0}), var(Scalar::Fp32, {16})});
  wrongCall(diag::descriptorReduceValue, "int32", "descriptor.atomic_add", {d, list({0}), var(Scalar::Int32, {16})});
  Value x = var(Scalar::Int32, {8}), row = run(make, {p, list({9, 9}), list({16, 1}), list({1, 8})});
  wrongCall(diag::descriptorGatherBlock, "[16]", "descriptor.gather", {d, x, num(0)});
  wrongCall(diag::descriptorGatherColumns, "8", "descriptor.gather",
            {run(make, {p, list({9, 9}), list({16, 1}), list({1, 4})}), x, num(0)});
  wrongCall(diag::descriptorGatherRows, "found 4", "descriptor.gather", {row, var(Scalar::Int32, {4}), num(0)});
  wrongCall(diag::badArgument, "int16 or int32", "descriptor.gather", {row, var(Scalar::Int64, {8}), num(0)});
}

void DiagnosticsTest::atomics() {
  wrongCall(diag::atomicDtype, "atomic_max does not support fp16", "atomic_max", {ptr(Scalar::Fp16), real(1)});
  wrongCall(diag::atomicDtype, "does not support int16", "atomic_add", {ptr(Scalar::Int16), num(1)});
  wrongCall(diag::storeToConst, "constant", "atomic_add", {var(Dtype::ptr(Scalar::Int32, true)), num(1)});
  wrongCall(diag::badSemantics, "Memory semantic weak not supported", "atomic_add", {ptr(Scalar::Int32), num(1)},
            {{"sem", Value::str("weak")}});
  wrongCall(diag::badScope, "world", "atomic_add", {ptr(Scalar::Int32), num(1)}, {{"scope", Value::str("world")}});
  wrongCall(diag::casTypes, "int64", "atomic_cas", {ptr(Scalar::Int64), num(0), num(1)});
  wrongCall(diag::plainSemantics, "atomic_load only supports acquire and relaxed", "atomic_load", {ptr(Scalar::Int32)},
            {{"sem", Value::str("release")}});
  wrongCall(diag::pollDtype, "found float32", "atomic_poll", {ptr(Scalar::Fp32), num(1)});
  wrongCall(diag::pollNegative, "-5", "atomic_poll", {ptr(Scalar::Int32), num(1)}, {{"timeout_ns", num(-5)}});
  wrongCall(diag::pollTimeout, "float", "atomic_poll", {ptr(Scalar::Int32), num(1)}, {{"timeout_ns", real(1)}});
}

void DiagnosticsTest::dot() {
  Value a = var(Scalar::Fp16, {16, 32}), b = var(Scalar::Fp16, {32, 8}), f = var(Scalar::Fp32, {16, 16}),
        e = var(Scalar::Fp8e5, {16, 16});
  wrongCall(diag::dotScalar, "2 or more", "dot", {a, var(Scalar::Fp16, {32})});
  wrongCall(diag::dotDtypes, "Both operands must be same dtype", "dot", {a, var(Scalar::Fp32, {32, 8})});
  wrongCall(diag::dotUnsupported, "only int8 supported!", "dot",
            {var(Scalar::UInt8, {16, 16}), var(Scalar::UInt8, {16, 16})});
  wrongCall(diag::dotInner, "32", "dot", {a, f});
  wrongCall(diag::dotBatch, "batch", "dot", {var(Scalar::Fp16, {2, 16, 32}), var(Scalar::Fp16, {4, 32, 8})});
  wrongCall(diag::dotPrecision, "input_precision must be one of", "dot", {f, f},
            {{"input_precision", Value::str("best")}});
  wrongCall(diag::dotPrecisionTwice, "allow_tf32", "dot", {f, f},
            {{"input_precision", Value::str("ieee")}, {"allow_tf32", Value::boolean(true)}});
  wrongCall(diag::dotOutDtype, "out_dtype=bfloat16", "dot", {a, b}, {{"out_dtype", dt(Scalar::Bf16)}});
  wrongCall(diag::dotAcc, "out_dtype=", "dot", {a, b, f});
  wrongCall(diag::impreciseAcc, "max_num_imprecise_acc (32) must be <= K (16)", "dot", {e, e},
            {{"max_num_imprecise_acc", num(32)}});
}

void DiagnosticsTest::elementwise() {
  Value h = var(Scalar::Fp16, {8}), f = var(Scalar::Fp32, {8}), i = var(Scalar::Int32, {8});
  wrongCall(diag::expectedDtype, "Expected dtype ['fp32', 'fp64'] but got fp16", "exp", {h});
  wrongCall(diag::expectedDtypes, "umulhi", "umulhi", {var(Scalar::Int8), var(Scalar::Int8)});
  wrongCall(diag::fdivNoFloat, "fdiv requires floating-point operands", "fdiv", {i, num(2)});
  wrongCall(diag::fdivRounding, "cannot both be True", "fdiv", {f, f},
            {{"ieee_rounding", Value::boolean(true)}, {"approx", Value::boolean(true)}});
  wrongCall(diag::fdivApprox, "requires float32 operands, found float64", "fdiv", {var(Scalar::Fp64), f},
            {{"approx", Value::boolean(true)}});
  wrongCall(diag::whereCondition, "where", "where", {i, f, f});
  wrongCall(diag::hintNotConstexpr, "constexpr", "multiple_of", {i, i});
  wrongCall(diag::hintLength, "does not match", "max_contiguous", {i, list({1, 2})});
}

void DiagnosticsTest::reductions() {
  Value x = var(Scalar::Fp32, {8});
  c.functions["compare"] = [this](std::span<const Value> a) { return cmp(Cmp::Lt, a[0], a[1]); };
  wrongCall(diag::combineResults, "combine_fn must return one scalar (float32)", "reduce", {x, num(0), fn("compare")});
  c.functions["first"] = [](std::span<const Value> a) { return a[0]; };
  c.functions["nested"] = [](std::span<const Value> a) { return Value::tuple({Value::tuple({a[0]})}); };
  c.functions["mixed"] = [this](std::span<const Value> a) {
    return Value::tuple({a[0], cast(c, a[1], dtype(Scalar::Fp64), at())});
  };
  c.functions["prints"] = [this](std::span<const Value> a) {
    return run("device_print", {Value::str("a"), a[0]}), a[0];
  };
  wrongCall(diag::mapResult, "found tuple", "map_elementwise", {fn("nested"), x});
  wrongCall(diag::mapCount, "found 1 values", "map_elementwise", {fn("first"), x}, {{"pack", num(2)}});
  wrongCall(diag::mapTypes, "float32 and float64", "map_elementwise", {fn("mixed"), x}, {{"pack", num(2)}});
  wrongCall(diag::mapOperation, "`print`", "map_elementwise", {fn("prints"), x});
  auto assembly = [&](const DiagKind &kind, const char *fragment, const char *code, const char *constraints,
                      const char *type) {
    wrongCall(
        kind, fragment, "inline_asm_elementwise",
        {Value::str(code), Value::str(constraints), Value::tuple({x}), Value::str(type), Value::boolean(true), num(1)});
  };
  assembly(diag::asmCount, "have 2 outputs, but the results take 1 registers", "mov.b32 $0, $1;", "=r,=r,r", "fp32");
  assembly(diag::asmCount, "have 0 inputs, but the arguments take 1 registers", "mov.b32 $0, 1;", "=r", "fp32");
  assembly(diag::asmOperand, "`$2` in the text names none of the 2 operands", "mov.b32 $0, $2;", "=r,r", "fp32");
  target.name = "cuda"; // where registers are those of PTX
  assembly(diag::asmConstraint, "`h` names a register of 16 bits, but float32 needs 32 bits", "mov.b32 $0, $1;", "=r,h",
           "fp32");
  target.name = "cpu";
  wrongCall(diag::inputShapes, "one shape", "reduce", {Value::tuple({x, var(Scalar::Fp32, {4})}), num(0), fn("add")});
  wrongCall(diag::reduceScalar, "block", "reduce", {var(Scalar::Fp32), num(0), fn("add")});
  wrongCall(diag::invalidAxis, "invalid axis", "reduce", {x, num(1), fn("add")});
  wrongCall(diag::histogramInput, "1D", "histogram", {x, num(8)});
  wrongCall(diag::gatherIndex, "integer index", "gather", {x, x, num(0)});
  wrongCall(diag::gatherExtent, "dimension 0", "gather",
            {var(Scalar::Fp32, {4, 8}), var(Scalar::Int32, {8, 8}), num(1)});
}

void DiagnosticsTest::debugging() {
  wrongCall(diag::prefixAscii, "is not an ascii string", "device_print", {Value::str("\xc3\xa4")});
  wrongCall(diag::staticAssertFailed, "static assertion failed: why", "static_assert",
            {Value::boolean(false), Value::str("why")});
  wrongCall(diag::staticAssertUnknown, "Assertion condition could not be determined at compile-time", "static_assert",
            {var(Scalar::Int1)});
}

void DiagnosticsTest::aggregates() {
  auto cls = std::make_shared<RecordClass>();
  cls->kind = RecordClass::Kind::Aggregate;
  cls->name = "Pair";
  cls->fields = {"a", "b"};
  cls->aggregate = std::make_shared<Aggregate>();
  cls->aggregate->types = {*findConstant("tensor"), Value::error()};
  Value x = var(Scalar::Fp32), pair(std::make_shared<const RecordValue>(cls, std::vector<Value>{x, x}));
  auto change = [](const char *name, Value v) { return Value::tuple({Value::tuple({Value::str(name), v})}); };
  wrongCall(diag::notAnAggregate, "expects an aggregate instance", "aggregate_replace", {x, Value::tuple({})});
  wrongCall(diag::noSuchField, "has no field `c`", "aggregate_replace", {pair, change("c", x)});
  wrongCall(diag::fieldType, "Expected tl.tensor for attribute 'a', got int", "aggregate_replace",
            {pair, change("a", num(1))});
  wrongCall(diag::fieldAnnotation, "no type of values", "aggregate_replace", {pair, change("b", x)});
}

TEST_F(DiagnosticsTest, EveryKind) {
  operators();
  compileTime();
  casts();
  shapes();
  creation();
  memory();
  descriptors();
  atomics();
  dot();
  elementwise();
  reductions();
  debugging();
  aggregates();
#define LANG_DIAG(name, severity, format) EXPECT_TRUE(seen.count(&diag::name)) << #name " is never provoked";
#include "lang/Diagnostics.def"
}

TEST_F(DiagnosticsTest, ErrorsAreReportedOnce) {
  Value e = Value::error(), x = var(Scalar::Fp32);
  EXPECT_TRUE(op(BinOp::Add, e, x).isError());
  EXPECT_TRUE(cmp(Cmp::Lt, x, e).isError());
  EXPECT_TRUE(run("exp", {e}).isError());
  EXPECT_TRUE(run("reshape", {x, e}).isError());
  EXPECT_TRUE(negate(c, e, at()).isError());
  EXPECT_EQ(messages(), "");
}

} // namespace
} // namespace tegula::lang
