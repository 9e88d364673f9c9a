// Python arithmetic on compile-time objects. Integers hold 127 bits; a larger result is reported, never wrapped.
#include "lang/CompileTime.h"
#include "lang/Containers.h"
#include "lang/Diagnostics.h"
#include "lang/Format.h"
#include <cmath>

namespace tegula::lang {

namespace {

constexpr int64_t maxSequence = 1 << 20;
constexpr int64_t maxString = 1 << 20;

struct Fold {
  Context &c;
  BinOp op;
  const Value &a, &b;
  Loc loc, aLoc, bLoc;

  Value unsupported() {
    c.diag()
        .report(diag::unsupportedOperands, loc, spelling(op), kindName(a), kindName(b))
        .label(aLoc, "this is " + kindName(a))
        .label(bLoc, "this is " + kindName(b));
    return Value::error();
  }
  Value overflow() {
    c.diag().report(diag::intOverflow, loc, spelling(op));
    return Value::error();
  }
  /// `at`: the operand that is 0.
  Value zero(Loc at) {
    c.diag().report(diag::divisionByZero, loc, spelling(op)).label(at, "this is 0");
    return Value::error();
  }
  Value zero() { return zero(bLoc); }

  /// The least Int has no negation; the range is kept symmetric.
  Value integer(Int r) {
    return r == static_cast<Int>(static_cast<unsigned __int128>(1) << 127) ? overflow() : Value::integer(r);
  }

  Value shift(Int x, Int n) {
    if (n < 0) {
      c.diag().report(diag::negativeShift, bLoc, intToString(n));
      return Value::error();
    }
    if (op == BinOp::RShift)
      return Value::integer(n > 126 ? (x < 0 ? -1 : 0) : x >> static_cast<int>(n));
    Int r = 0;
    bool tooFar = x != 0 && (n > 126 || __builtin_mul_overflow(x, static_cast<Int>(1) << static_cast<int>(n), &r));
    return tooFar ? overflow() : integer(r);
  }

  Value power(Int x, Int n) {
    if (n < 0)
      return x == 0 ? zero(aLoc) : Value::number(std::pow(static_cast<double>(x), static_cast<double>(n)));
    if (x == 0 || x == 1 || (x == -1))
      return Value::integer(n == 0 ? 1 : x == -1 ? (n % 2 ? -1 : 1) : x);
    if (n > 127)
      return overflow();
    Int r = 1;
    for (; n > 0; --n)
      if (__builtin_mul_overflow(r, x, &r))
        return overflow();
    return integer(r);
  }

  Value ints(Int x, Int y) {
    Int r = 0;
    switch (op) {
    case BinOp::Add:
      return __builtin_add_overflow(x, y, &r) ? overflow() : integer(r);
    case BinOp::Sub:
      return __builtin_sub_overflow(x, y, &r) ? overflow() : integer(r);
    case BinOp::Mul:
      return __builtin_mul_overflow(x, y, &r) ? overflow() : integer(r);
    case BinOp::Div:
      return y == 0 ? zero()
                    : Value::number(static_cast<double>(static_cast<long double>(x) / static_cast<long double>(y)));
    case BinOp::FloorDiv:
      if (y == 0)
        return zero();
      return Value::integer(x / y - (x % y != 0 && (x < 0) != (y < 0)));
    case BinOp::Mod:
      if (y == 0)
        return zero();
      r = x % y;
      return Value::integer(r != 0 && (r < 0) != (y < 0) ? r + y : r);
    case BinOp::Pow:
      return power(x, y);
    case BinOp::LShift:
    case BinOp::RShift:
      return shift(x, y);
    case BinOp::And:
      return bits(x & y);
    case BinOp::Or:
      return bits(x | y);
    case BinOp::Xor:
      return bits(x ^ y);
    case BinOp::MatMul:
      break;
    }
    return unsupported();
  }
  Value bits(Int r) { return a.isBool() && b.isBool() ? Value::boolean(r != 0) : Value::integer(r); }

  Value floats(double x, double y) {
    switch (op) {
    case BinOp::Add:
      return Value::number(x + y);
    case BinOp::Sub:
      return Value::number(x - y);
    case BinOp::Mul:
      return Value::number(x * y);
    case BinOp::Div:
      return y == 0 ? zero() : Value::number(x / y);
    case BinOp::FloorDiv:
      return y == 0 ? zero() : Value::number(std::floor((x - modulo(x, y)) / y + 0.5));
    case BinOp::Mod:
      return y == 0 ? zero() : Value::number(modulo(x, y));
    case BinOp::Pow:
      return floatPower(x, y);
    default:
      return unsupported();
    }
  }
  static double modulo(double x, double y) {
    double r = std::fmod(x, y);
    if (r != 0 ? (r < 0) != (y < 0) : false)
      r += y;
    return r == 0 ? std::copysign(0.0, y) : r;
  }
  Value floatPower(double x, double y) {
    if (x == 0 && y < 0)
      return zero(aLoc);
    if (x < 0 && std::isfinite(x) && std::isfinite(y) && y != std::floor(y)) {
      c.diag().report(diag::complexResult, loc, floatToString(x), floatToString(y));
      return Value::error();
    }
    return Value::number(std::pow(x, y));
  }

  Value repeat(const Value &seq, Int n) {
    if (n < 0)
      n = 0;
    Int length = seq.isStr() ? static_cast<Int>(seq.asStr().size()) : static_cast<Int>(sequenceItems(seq)->size());
    int64_t limit = seq.isStr() ? maxString : maxSequence;
    if (length == 0)
      n = 0;
    // n is compared before the product is made, so that the product cannot overflow.
    if (n > limit || length * n > limit) {
      c.diag().report(diag::sequenceTooLong, loc, "*", intToString(n > limit ? n : length * n), limit);
      return Value::error();
    }
    std::string s;
    std::vector<Value> items;
    for (Int i = 0; i < n; ++i) {
      if (seq.isStr())
        s += seq.asStr();
      else
        items.insert(items.end(), sequenceItems(seq)->begin(), sequenceItems(seq)->end());
    }
    return seq.isStr() ? Value::str(std::move(s)) : Value::tuple(std::move(items));
  }

  Value concat() {
    bool strings = a.isStr();
    size_t n = strings ? a.asStr().size() + b.asStr().size() : sequenceItems(a)->size() + sequenceItems(b)->size();
    int64_t limit = strings ? maxString : maxSequence;
    if (n > static_cast<size_t>(limit)) {
      c.diag().report(diag::sequenceTooLong, loc, "+", static_cast<uint64_t>(n), limit);
      return Value::error();
    }
    if (strings)
      return Value::str(a.asStr() + b.asStr());
    std::vector<Value> items = *sequenceItems(a);
    items.insert(items.end(), sequenceItems(b)->begin(), sequenceItems(b)->end());
    return Value::tuple(std::move(items));
  }

  Value run() {
    if (a.isNumber() && b.isNumber())
      return a.isFloat() || b.isFloat() ? floats(a.asFloat(), b.asFloat()) : ints(a.asInt(), b.asInt());
    auto isSequence = [](const Value &v) { return v.isStr() || sequenceItems(v); };
    if (op == BinOp::Mod && a.isStr())
      return formatPercent(c, a.asStr(), b, loc);
    if (op == BinOp::Add && ((a.isStr() && b.isStr()) || (sequenceItems(a) && sequenceItems(b))))
      return concat();
    if (op == BinOp::Mul && isSequence(a) && (b.isInt() || b.isBool()))
      return repeat(a, b.asInt());
    if (op == BinOp::Mul && isSequence(b) && (a.isInt() || a.isBool()))
      return repeat(b, a.asInt());
    return unsupported();
  }
};

/// Lexicographic order; `ok` turns false where two items have no order.
std::optional<int> order(const Value &a, const Value &b, bool &ok) {
  if (a.isNumber() && b.isNumber())
    return compareNumbers(a, b);
  if (a.isStr() && b.isStr())
    return a.asStr().compare(b.asStr());
  const auto *x = sequenceItems(a), *y = sequenceItems(b);
  if (!x || !y) {
    ok = false;
    return std::nullopt;
  }
  for (size_t i = 0; i < x->size() && i < y->size(); ++i)
    if (!equal((*x)[i], (*y)[i]))
      return order((*x)[i], (*y)[i], ok);
  return x->size() < y->size() ? -1 : x->size() > y->size() ? 1 : 0;
}

bool holds(Cmp op, int order) {
  switch (op) {
  case Cmp::Lt:
    return order < 0;
  case Cmp::Le:
    return order <= 0;
  case Cmp::Gt:
    return order > 0;
  case Cmp::Ge:
    return order >= 0;
  case Cmp::Eq:
    return order == 0;
  case Cmp::Ne:
    return order != 0;
  }
  return false;
}

Value badUnary(Context &c, const char *op, const Value &a, Loc loc) {
  c.diag().report(diag::unsupportedOperand, loc, op, kindName(a));
  return Value::error();
}

} // namespace

std::optional<int> compareNumbers(const Value &a, const Value &b) {
  auto sign = [](auto x, auto y) { return x < y ? -1 : x > y ? 1 : 0; };
  if (!a.isFloat() && !b.isFloat())
    return sign(a.asInt(), b.asInt());
  if (std::isnan(a.asFloat()) || std::isnan(b.asFloat()))
    return std::nullopt;
  if (equal(a, b))
    return 0;
  if (a.isFloat() && b.isFloat())
    return sign(a.asFloat(), b.asFloat());
  // An int beside a float, not equal: compare whole parts exactly where doubles could round.
  double d = a.isFloat() ? a.asFloat() : b.asFloat();
  Int i = a.isFloat() ? b.asInt() : a.asInt();
  int r = std::abs(d) >= 0x1p126 ? (d > 0 ? -1 : 1) : sign(i, static_cast<Int>(std::floor(d)));
  if (r == 0)
    r = -1; // d has a fraction above i
  return a.isFloat() ? -r : r;
}

std::optional<int> orderOf(const Value &a, const Value &b) {
  bool ok = true;
  std::optional<int> r = order(a, b, ok);
  return ok ? r : std::nullopt;
}

Value foldBinary(Context &c, BinOp op, const Value &a, const Value &b, Loc loc, Loc aLoc, Loc bLoc) {
  return Fold{c, op, a, b, loc, aLoc, bLoc}.run();
}

Value foldCompare(Context &c, Cmp op, const Value &a, const Value &b, Loc loc, Loc aLoc, Loc bLoc) {
  if (op == Cmp::Eq || op == Cmp::Ne)
    return Value::boolean(equal(a, b) == (op == Cmp::Eq));
  bool ok = true;
  std::optional<int> r = order(a, b, ok);
  if (!ok) {
    c.diag()
        .report(diag::unsupportedOperands, loc, spelling(op), kindName(a), kindName(b))
        .label(aLoc, "this is " + kindName(a))
        .label(bLoc, "this is " + kindName(b));
    return Value::error();
  }
  return Value::boolean(r && holds(op, *r));
}

Value foldNegate(Context &c, const Value &a, Loc loc) {
  if (a.isFloat())
    return Value::number(-a.asFloat());
  return a.isNumber() ? Value::integer(-a.asInt()) : badUnary(c, "-", a, loc);
}

Value foldInvert(Context &c, const Value &a, Loc loc) {
  return a.isInt() || a.isBool() ? Value::integer(~a.asInt()) : badUnary(c, "~", a, loc);
}

Value foldPlus(Context &c, const Value &a, Loc loc) {
  if (a.isBool())
    return Value::integer(a.asInt());
  return a.isNumber() ? a.withoutMember() : badUnary(c, "+", a, loc);
}

bool constexprTruth(const Value &v) {
  if (v.isNumber())
    return v.isFloat() ? v.asFloat() != 0 : v.asInt() != 0;
  if (v.isStr())
    return !v.asStr().empty();
  if (const auto *items = sequenceItems(v))
    return !items->empty();
  if (isDict(v))
    return !keysOf(v).empty();
  if (isSet(v))
    return !membersOf(v).empty();
  return !v.isNone() && !v.isError();
}

} // namespace tegula::lang
