// load and store (LANGUAGE 3.3).
#include "lang/builtins/BlockPtr.h"
#include "lang/builtins/Families.h"
#include "lang/builtins/Pointers.h"
#include <limits>

namespace tegula::lang {

namespace {

using ir::OpKind;

/// cache_modifier and eviction_policy, and volatile if the call has it (index 0: none).
std::optional<std::vector<ir::Attr>> modifiers(Args &a, size_t cache, std::string_view caches, size_t evict,
                                               size_t isVolatile) {
  auto c = a.choice(cache, "cache_modifier", "Cache modifier", caches, '.');
  auto e = a.choice(evict, "eviction_policy", "Eviction policy", "evict_first evict_last evict_normal");
  std::optional<bool> v = isVolatile ? a.flag(isVolatile, "volatile") : std::optional<bool>(false);
  if (!c || !e || !v)
    return std::nullopt;
  std::vector<ir::Attr> attrs;
  if (!c->empty() && *c != "none")
    attrs.push_back({ir::attr::cache, *c});
  if (!e->empty())
    attrs.push_back({ir::attr::evict, *e});
  if (*v || *c == ".cv") // "don't cache and fetch again" (PTX ISA, Cache Operators): loops wait by such loads
    attrs.push_back({ir::attr::isVolatile, true});
  return attrs;
}

/// Of what Triton tests by `if boundary_check or padding_option`: `(0)` is the number 0, and nothing either.
bool isEmpty(const Value &v) {
  if (v.isNone() || (v.isStr() && v.asStr().empty()) || (v.isInt() && v.asInt() == 0))
    return true;
  const auto *items = sequenceItems(v);
  return items && items->empty();
}

/// Loads through pointers with an optional mask and padding; all of one shape. bool comes back normalized.
Value emitLoad(Args &a, Dtype pointer, ir::Value *ptrs, ir::Value *mask, ir::Value *other,
               std::vector<ir::Attr> attrs) {
  std::vector<ir::Value *> operands{ptrs};
  if (mask)
    operands.push_back(mask);
  if (other)
    operands.push_back(other);
  Dtype inMemory = memoryDtype(pointer.pointee());
  const ir::Type types[] = {irType(inMemory, ptrs->type.shape)};
  ir::Op *op = a.b().create(OpKind::Load, operands, types, std::move(attrs));
  return tensor(convert(a.ctx(), {inMemory, op->result()}, pointer.pointee()));
}

Value loadBlock(Args &a, std::vector<ir::Attr> attrs) {
  if (!a[1].isNone() || !a[2].isNone())
    return a.fail(diag::maskOnBlockPtr, a.loc(a[1].isNone() ? 2 : 1), "loading");
  auto padding = a.choice(4, "padding_option", "Padding option", "zero nan");
  auto access = padding ? expandBlockPtr(a, a[0], a[3], a.loc(3)) : std::nullopt;
  if (!access)
    return Value::error();
  Dtype element = access->pointer.pointee();
  if (*padding == "nan" && !element.isFloat())
    return a.fail(diag::nanPadding, a.loc(4), spelling(element));
  ir::Value *other = nullptr;
  if (access->mask && !padding->empty()) {
    Value fill = *padding == "nan" ? Value::number(std::numeric_limits<double>::quiet_NaN()) : Value::integer(0);
    Value v = constant(a.ctx(), fill, memoryDtype(element), a.loc(4), access->pointers->type.shape);
    if (v.isError())
      return v;
    other = v.asTensor().value;
  }
  return emitLoad(a, access->pointer, access->pointers, access->mask, other, std::move(attrs));
}

/// Scalar pointers take scalar masks and values only.
bool scalarsOnly(Args &a, const Tensor &pointer, size_t i, const char *name) {
  if (!pointer.isScalar() || !a[i].isTensor() || a[i].asTensor().isScalar())
    return true;
  a.fail(diag::blockForScalar, a.loc(i), a.function(), name, kindName(a[i]));
  return false;
}

Value loadTensor(Args &a, std::vector<ir::Attr> attrs) {
  if (!isEmpty(a[3]) || !isEmpty(a[4]))
    return a.fail(diag::boundaryOnTensor, a.loc(isEmpty(a[3]) ? 4 : 3));
  if (a[1].isNone() && !a[2].isNone())
    return a.fail(diag::otherWithoutMask, a.loc(2));
  std::optional<Tensor> p = pointerOperand(a, 0);
  if (!p || !scalarsOnly(a, *p, 1, "mask") || !scalarsOnly(a, *p, 2, "other"))
    return Value::error();
  if (a[1].isNone())
    return emitLoad(a, p->dtype, p->value, nullptr, nullptr, std::move(attrs));
  std::optional<Tensor> mask = maskOperand(a, 1);
  auto shape = mask ? commonShape(a.ctx(), p->shape(), mask->shape(), a.loc(), a.loc(0), a.loc(1)) : std::nullopt;
  if (!shape)
    return Value::error();
  std::optional<Tensor> other;
  if (!a[2].isNone()) {
    Value v = cast(a.ctx(), a[2], p->dtype.pointee(), a.loc(2));
    if (v.isError())
      return v;
    other = convert(a.ctx(), v.asTensor(), memoryDtype(p->dtype.pointee()));
    shape = commonShape(a.ctx(), *shape, other->shape(), a.loc(), a.loc(0), a.loc(2));
    if (!shape)
      return Value::error();
  }
  Context &c = a.ctx();
  return emitLoad(a, p->dtype, spread(c, *p, *shape).value, spread(c, *mask, *shape).value,
                  other ? spread(c, *other, *shape).value : nullptr, std::move(attrs));
}

Value load(BuiltinCall &call) {
  Args a(call, "load");
  auto attrs = modifiers(a, 5, "none .ca .cg .cs .cv", 6, 7);
  if (!attrs)
    return Value::error();
  return isBlockPtr(a[0]) ? loadBlock(a, std::move(*attrs)) : loadTensor(a, std::move(*attrs));
}

void emitStore(Args &a, ir::Value *ptrs, ir::Value *value, ir::Value *mask, std::vector<ir::Attr> attrs) {
  std::vector<ir::Value *> operands{ptrs, value};
  if (mask)
    operands.push_back(mask);
  a.b().create(OpKind::Store, operands, {}, std::move(attrs));
}

/// The value to store: cast to the element type, broadcast up to the pointer's shape.
std::optional<Tensor> storedValue(Args &a, Dtype pointer, const ir::Shape &shape) {
  Value v = cast(a.ctx(), a[1], pointer.pointee(), a.loc(1));
  if (v.isError())
    return std::nullopt;
  return upTo(a, convert(a.ctx(), v.asTensor(), memoryDtype(pointer.pointee())), shape, 1);
}

Value storeBlock(Args &a, std::vector<ir::Attr> attrs) {
  if (!a[2].isNone())
    return a.fail(diag::maskOnBlockPtr, a.loc(2), "storing");
  auto access = expandBlockPtr(a, a[0], a[3], a.loc(3));
  if (!access)
    return Value::error();
  if (access->pointer.isConst)
    return a.fail(diag::storeToConst, a.loc(0), spelling(access->pointer));
  auto value = storedValue(a, access->pointer, access->pointers->type.shape);
  if (!value)
    return Value::error();
  emitStore(a, access->pointers, value->value, access->mask, std::move(attrs));
  return Value::none();
}

Value storeTensor(Args &a, std::vector<ir::Attr> attrs) {
  if (!isEmpty(a[3]))
    return a.fail(diag::boundaryOnTensor, a.loc(3));
  std::optional<Tensor> p = pointerOperand(a, 0);
  if (!p || !scalarsOnly(a, *p, 1, "value") || !scalarsOnly(a, *p, 2, "mask"))
    return Value::error();
  if (p->dtype.isConst)
    return a.fail(diag::storeToConst, a.loc(0), spelling(p->dtype));
  auto value = storedValue(a, p->dtype, p->shape());
  if (!value)
    return Value::error();
  ir::Value *mask = nullptr;
  if (!a[2].isNone()) {
    std::optional<Tensor> m = maskOperand(a, 2);
    m = m ? upTo(a, *m, p->shape(), 2) : std::nullopt;
    if (!m)
      return Value::error();
    mask = m->value;
  }
  emitStore(a, p->value, value->value, mask, std::move(attrs));
  return Value::none();
}

Value store(BuiltinCall &call) {
  Args a(call, "store");
  auto attrs = modifiers(a, 4, "none .wb .cg .cs .wt", 5, 0);
  if (!attrs)
    return Value::error();
  return isBlockPtr(a[0]) ? storeBlock(a, std::move(*attrs)) : storeTensor(a, std::move(*attrs));
}

constexpr Builtin rows[] = {
    {"load",
     "pointer, mask=None, other=None, boundary_check=(), padding_option=\"\", cache_modifier=\"\", "
     "eviction_policy=\"\", "
     "volatile=False",
     load, 0, "The values at pointers; lanes whose mask is false are not touched and give `other`."},
    {"store", "pointer, value, mask=None, boundary_check=(), cache_modifier=\"\", eviction_policy=\"\"", store,
     Builtin::Method,
     "Writes values, cast to the element type, to pointers; lanes whose mask is false are not touched."},
};

} // namespace

std::span<const Builtin> memoryBuiltins() { return rows; }

} // namespace tegula::lang
