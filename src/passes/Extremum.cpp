#include "passes/Extremum.h"
#include "ir/Scalar.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

namespace tegula {

using namespace ir;

namespace {

using Sample = std::array<uint64_t, 4>; // bits of value, index, value, index

/// Only comparisons of two values or of two indices (also of one with itself), logic on their results, and choices.
bool dependsOnOrderAlone(const Block &body) {
  auto isArgument = [&](const Value *v, uint32_t index) {
    return !v->def && v->block == &body && v->index % 2 == index;
  };
  return std::all_of(body.ops.begin(), body.ops.end() - 1, [&](const Op *op) {
    switch (op->kind) {
    case OpKind::CmpF:
      return isArgument(op->operands[0], 0) && isArgument(op->operands[1], 0);
    case OpKind::CmpI:
      return (isArgument(op->operands[0], 0) && isArgument(op->operands[1], 0)) ||
             (isArgument(op->operands[0], 1) && isArgument(op->operands[1], 1));
    case OpKind::And:
    case OpKind::Or:
    case OpKind::Xor:
      return op->result()->type.elem == Elem::I1;
    case OpKind::Const:
      return op->result()->type.elem == Elem::I1 && op->result()->type.isScalar();
    default:
      return op->kind == OpKind::Select;
    }
  });
}

/// The region's result for a sample: (value, index).
std::optional<std::pair<uint64_t, uint64_t>> evaluate(const Block &body, const Sample &sample) {
  std::unordered_map<const Value *, uint64_t> bits;
  for (size_t i = 0; i < sample.size(); ++i)
    bits[body.args[i]] = sample[i];
  auto of = [&](const Value *v) -> std::optional<uint64_t> {
    auto it = bits.find(v);
    return it == bits.end() ? std::nullopt : std::optional(it->second);
  };
  for (const Op *op : body.ops) {
    if (op->kind == OpKind::Yield)
      break;
    if (op->kind == OpKind::Const) {
      bits[op->result()] = constantBits(Elem::I1, *op->value());
      continue;
    }
    std::vector<uint64_t> args;
    for (const Value *o : op->operands) {
      std::optional<uint64_t> v = of(o);
      if (!v)
        return std::nullopt;
      args.push_back(*v);
    }
    std::optional<uint64_t> result = evalScalar(scalarOp(op->kind, op->operands, op->result()->type, op->attrs), args);
    if (!result)
      return std::nullopt;
    bits[op->result()] = *result;
  }
  std::optional<uint64_t> value = of(body.terminator()->operands[0]), index = of(body.terminator()->operands[1]);
  return value && index ? std::optional(std::pair(*value, *index)) : std::nullopt;
}

/// Whether the region selects as `x` describes, for all orders of values and indices.
bool chooses(const Block &body, Elem value, Elem index, const ArgExtremum &x) {
  // Numbers of both signs tell signed from unsigned comparisons; a second NaN tells which of two was taken.
  std::vector<uint64_t> values;
  if (isFloat(value))
    values = {encodeFloat(value, 1.0L), encodeFloat(value, -2.0L), encodeFloat(value, 0.0L),
              encodeFloat(value, std::nan(""))};
  else
    values = {1, 2, elemMask(value)};
  const std::vector<uint64_t> indices = {0, 1, elemMask(index)};
  auto isNan = [&](uint64_t v) { return isFloat(value) && std::isnan(decodeFloat(value, v)); };
  auto less = [&](uint64_t a, uint64_t b) {
    return isFloat(value) ? decodeFloat(value, a) < decodeFloat(value, b)
           : x.isSigned   ? signExtend(value, a) < signExtend(value, b)
                          : a < b;
  };
  auto beats = [&](uint64_t a, uint64_t b) {
    return isNan(b) ? !isNan(a) : !isNan(a) && (x.isMax ? less(b, a) : less(a, b));
  };
  for (uint64_t a : values)
    for (uint64_t b : values) {
      std::optional<bool> tie; // which side wins a tie, regardless of indices
      for (uint64_t i : indices)
        for (uint64_t j : indices) {
          std::optional<std::pair<uint64_t, uint64_t>> got = evaluate(body, {a, i, b, j});
          if (!got)
            return false;
          std::pair first(a, i), second(b, j);
          bool isFirst = *got == first, isSecond = *got == second;
          const bool isEither = isFirst || isSecond;
          bool isRight = beats(a, b)                                   ? isFirst
                         : beats(b, a)                                 ? isSecond
                         : i == j                                      ? isEither
                         : x.anyIndex                                  ? isEither && tie.value_or(isFirst) == isFirst
                         : signExtend(index, i) < signExtend(index, j) ? isFirst
                                                                       : isSecond;
          if (!isRight)
            return false;
          if (i != j)
            tie = isFirst;
        }
    }
  return true;
}

} // namespace

bool choosesByOrder(const Op &reduce) {
  return reduce.kind == OpKind::Reduce && reduce.operands.size() == 2 && dependsOnOrderAlone(*reduce.region(0));
}

std::optional<ArgExtremum> argExtremum(const Op &reduce) {
  if (reduce.kind != OpKind::Reduce || reduce.operands.size() != 2)
    return std::nullopt;
  const Block &body = *reduce.region(0);
  Elem value = reduce.operands[0]->type.elem, index = reduce.operands[1]->type.elem;
  if (reduce.operands[0]->type.isPtr || reduce.operands[1]->type.isPtr || (index != Elem::I32 && index != Elem::I64) ||
      value == Elem::I1 || isFp8(value) || !dependsOnOrderAlone(body))
    return std::nullopt;
  for (bool anyIndex : {false, true})
    for (bool isMax : {true, false})
      for (bool isSigned : {true, false})
        if (ArgExtremum x{isMax, isSigned, anyIndex}; chooses(body, value, index, x))
          return x;
  return std::nullopt;
}

std::optional<OpKind> onlyOperation(const Op &reduce) {
  const Block &body = *reduce.region(0);
  if (reduce.operands.size() != 1 || body.ops.size() != 2)
    return std::nullopt;
  const Op &op = *body.ops[0];
  bool isOfBoth =
      op.operands.size() == 2 && op.operands[0] != op.operands[1] && !op.operands[0]->def && !op.operands[1]->def;
  return isOfBoth && op.results.size() == 1 && body.terminator()->operands[0] == op.result() ? std::optional(op.kind)
                                                                                             : std::nullopt;
}

} // namespace tegula
