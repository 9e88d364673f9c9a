// Matrix multiplication of blocks (LANGUAGE 3.5).
#include "lang/builtins/Args.h"
#include "lang/builtins/Families.h"
#include <algorithm>

namespace tegula::lang {

namespace {

using ir::OpKind;
using ir::Shape;

struct Sizes {
  int64_t m, n, k;
};

bool checkDtypes(Args &a, Dtype x, Dtype y) {
  bool bothFp8 = x.isFp8() && y.isFp8();
  if (x != y && !bothFp8) {
    a.ctx()
        .diag()
        .report(diag::dotDtypes, a.loc(), spelling(x), spelling(y))
        .label(a.loc(0), "this is " + kindName(a[0]))
        .label(a.loc(1), "this is " + kindName(a[1]));
    return false;
  }
  if (x.isFloat() || x.scalar == Scalar::Int8)
    return true;
  a.fail(diag::dotUnsupported, a.loc(0), spelling(x));
  return false;
}

std::optional<Sizes> checkShapes(Args &a, const Shape &x, const Shape &y) {
  unsigned rank = x.rank();
  if (rank < 2 || y.rank() != rank) {
    a.fail(diag::dotScalar, a.loc(), kindName(a[0]), kindName(a[1]));
    return std::nullopt;
  }
  for (unsigned i = 0; i + 2 < rank; ++i)
    if (x[i] != y[i]) {
      a.fail(diag::dotBatch, a.loc(), kindName(a[0]), kindName(a[1]));
      return std::nullopt;
    }
  Sizes s{x[rank - 2], y[rank - 1], x[rank - 1]};
  if (s.k != y[rank - 2]) {
    a.ctx()
        .diag()
        .report(diag::dotInner, a.loc(), s.k, y[rank - 2], kindName(a[0]), kindName(a[1]))
        .label(a.loc(0), "shape " + shapeText(x))
        .label(a.loc(1), "shape " + shapeText(y));
    return std::nullopt;
  }
  return s;
}

std::string join(const std::vector<std::string> &items) {
  std::string s;
  for (const std::string &i : items)
    s += (s.empty() ? "" : ", ") + i;
  return s;
}

/// Of float32 operands; others are exact anyway.
std::optional<std::string> precision(Args &a, Dtype operand) {
  const TargetInfo &t = a.ctx().target();
  if (!a[3].isNone() && !a[4].isNone()) {
    a.fail(diag::dotPrecisionTwice, a.loc(4));
    return std::nullopt;
  }
  std::string chosen = t.defaultDotPrecision;
  if (!a[4].isNone()) {
    auto allow = a.flag(4, "allow_tf32");
    if (!allow)
      return std::nullopt;
    bool hasTf32 = std::find(t.dotPrecisions.begin(), t.dotPrecisions.end(), "tf32") != t.dotPrecisions.end();
    chosen = *allow && hasTf32 ? "tf32" : "ieee";
  } else if (!a[3].isNone()) {
    auto text = a.text(3, "input_precision");
    if (!text)
      return std::nullopt;
    chosen = *text;
    std::transform(chosen.begin(), chosen.end(), chosen.begin(), [](unsigned char ch) { return std::tolower(ch); });
    if (std::find(t.dotPrecisions.begin(), t.dotPrecisions.end(), chosen) == t.dotPrecisions.end()) {
      a.fail(diag::dotPrecision, a.loc(3), join(t.dotPrecisions), *text);
      return std::nullopt;
    }
  }
  return operand.scalar == Scalar::Fp32 ? chosen : "ieee";
}

std::optional<Dtype> resultDtype(Args &a, Dtype operand) {
  std::optional<Dtype> out = dtype(Scalar::Fp32);
  if (!a[6].isNone())
    out = a.type(6, "out_dtype");
  else if (a[2].isTensor())
    out = a[2].asTensor().dtype;
  if (!out)
    return std::nullopt;
  if (!a[6].isNone() && out->scalar == Scalar::Bf16) {
    a.fail(diag::dotOutDtype, a.loc(6), spelling(*out), spelling(operand),
           "use out_dtype=tl.float32 and cast the result with .to(tl.bfloat16)");
    return std::nullopt;
  }
  switch (operand.scalar) {
  case Scalar::Int8:
    return dtype(Scalar::Int32);
  case Scalar::Fp32:
  case Scalar::Bf16:
    return dtype(Scalar::Fp32);
  case Scalar::Fp64:
    return dtype(Scalar::Fp64);
  default:
    return dtype(out->scalar == Scalar::Fp16 ? Scalar::Fp16 : Scalar::Fp32);
  }
}

/// How many products may be summed in fewer bits than float32's before they are added to the accumulator: all, those of
/// this dot, none. A number below K counts as K: parts of a dot would have to wait for each other, and 128 products of
/// fp8 lose little.
enum class Sums { Narrow, Apart, Wide };

std::optional<Sums> impreciseAcc(Args &a, Dtype operand, Dtype result, int64_t k) {
  if (a[5].isNone())
    return Sums::Narrow;
  auto n = a.integer(5, "max_num_imprecise_acc");
  if (!n)
    return std::nullopt;
  bool applies = operand.isFp8() && result.scalar == Scalar::Fp32;
  if (applies && *n > k) {
    a.fail(diag::impreciseAcc, a.loc(5), *n, k);
    return std::nullopt;
  }
  return !applies ? Sums::Narrow : *n ? Sums::Apart : Sums::Wide;
}

/// The accumulator, or zeros.
std::optional<ir::Value *> accumulator(Args &a, Dtype d, const Shape &shape) {
  if (a[2].isNone())
    return d.isFloat() ? a.b().constFloat(irType(d, shape), 0.0) : a.b().constInt(irType(d, shape), 0);
  std::string needed = spelling(d) + shapeText(shape);
  if (a[2].isTensor() && a[2].asTensor().dtype == d && a[2].asTensor().shape() == shape)
    return a[2].asTensor().value;
  a.ctx().diag().report(diag::dotAcc, a.loc(2), a[2].isTensor() ? typeName(a[2].asTensor()) : kindName(a[2]), needed);
  return std::nullopt;
}

/// Batch dimensions as one: [B, rows, columns].
ir::Value *flatten(Args &a, ir::Value *x) {
  const Shape &s = x->type.shape;
  if (s.rank() <= 3)
    return x;
  int64_t rows = s[s.rank() - 2], columns = s[s.rank() - 1];
  return a.b().reshape(x, Shape{s.numel() / (rows * columns), rows, columns});
}

Value dot(BuiltinCall &call) {
  Args a(call, "dot");
  if (!a[0].isTensor() || !a[1].isTensor() || a[0].asTensor().dtype.isPtr || a[1].asTensor().dtype.isPtr)
    return a.fail(diag::dotScalar, a.loc(), kindName(a[0]), kindName(a[1]));
  const Tensor &x = a[0].asTensor(), &y = a[1].asTensor();
  auto sizes = checkShapes(a, x.shape(), y.shape());
  if (!sizes || !checkDtypes(a, x.dtype, y.dtype))
    return Value::error();
  auto mode = precision(a, x.dtype);
  auto result = mode ? resultDtype(a, x.dtype) : std::nullopt;
  auto sums = result ? impreciseAcc(a, x.dtype, *result, sizes->k) : std::nullopt;
  if (!sums)
    return Value::error();
  Shape shape = x.shape();
  shape.set(shape.rank() - 1, sizes->n);
  auto acc = accumulator(a, *result, shape);
  if (!acc)
    return Value::error();
  ir::Value *flat = flatten(a, *acc);
  ir::Value *to = *sums == Sums::Apart ? a.b().constFloat(flat->type, 0.0) : flat;
  const std::string precision = *sums == Sums::Wide ? "wide" : *mode; // targets/nvidia/WidenDots.h
  ir::Value *r = a.b().create1(OpKind::Dot, {flatten(a, x.value), flatten(a, y.value), to}, flat->type,
                               {{ir::attr::precision, precision}});
  if (*sums == Sums::Apart)
    r = a.b().binary(OpKind::FAdd, flat, r);
  return tensor(*result, a.b().reshape(r, shape));
}

constexpr Builtin rows[] = {
    {"dot", "input, other, acc=None, input_precision=None, allow_tf32=None, max_num_imprecise_acc=None, out_dtype=None",
     dot, 0, "The matrix product of two blocks, added to `acc`."},
};

} // namespace

std::span<const Builtin> dotBuiltins() { return rows; }

} // namespace tegula::lang
