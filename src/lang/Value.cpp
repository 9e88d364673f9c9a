// Text, equality and keys of values.
#include "lang/Builtin.h"
#include "lang/Circle.h"
#include "lang/Containers.h"
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

namespace tegula::lang {

template <typename T> using Ref = std::shared_ptr<const T>;

// Fallbacks, see Value.h.
[[gnu::weak]] std::string nameOf(const Function &) { return "function"; }
[[gnu::weak]] std::string keyOf(const Function &f) { return "@" + std::to_string(reinterpret_cast<uintptr_t>(&f)); }
[[gnu::weak]] std::string keyOf(const RecordClass &c) { return "@" + std::to_string(reinterpret_cast<uintptr_t>(&c)); }
[[gnu::weak]] std::string nameOf(const Module &) { return "module"; }

namespace {

std::string quote(const std::string &s) {
  char q = s.find('\'') != std::string::npos && s.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, q);
  for (char ch : s) {
    if (ch == q || ch == '\\')
      (out += '\\') += ch;
    else if (ch == '\n')
      out += "\\n";
    else if (ch == '\t')
      out += "\\t";
    else if (ch == '\r')
      out += "\\r";
    else
      out += ch;
  }
  return out += q;
}

template <typename Fn, typename... Ts> std::string visitAs(const Fn &text, const Value &v, TypeList<Ts...>) {
  using Case = std::string (*)(const Fn &, const Value &);
  static constexpr Case cases[] = {[](const Fn &f, const Value &x) -> std::string { return f(x.get<Ts>()); }...};
  return cases[v.kind()](text, v);
}
/// text(x) for what `v` holds.
template <typename Fn> std::string visit(const Fn &text, const Value &v) { return visitAs(text, v, Value::Kinds()); }

template <typename Fn> std::string join(const std::vector<Value> &items, Fn &&text) {
  std::string s;
  for (const Value &v : items)
    (s += s.empty() ? "" : ", ") += text(v);
  return s;
}

std::string recordText(const Value &v) {
  if (isDict(v) || isSet(v))
    return containerText(v);
  const RecordValue &r = v.record();
  std::string s = r.cls->name + "(";
  for (size_t i = 0; i < r.fields.size(); ++i)
    s += (i ? ", " : "") + r.cls->fields[i] + "=" + repr(r.fields[i]);
  return s + ")";
}

std::string sliceText(const SliceValue &s) {
  std::string t;
  for (size_t i = 0; i < s.parts.size(); ++i) {
    // The second colon is written only if there is a step.
    if (i == 1 || (i == 2 && !s.parts[2].isNone()))
      t += ":";
    if (!s.parts[i].isNone())
      t += repr(s.parts[i]);
  }
  return t;
}

std::string shapeText(const ir::Shape &s) {
  std::string t = "[";
  for (unsigned i = 0; i < s.rank(); ++i)
    t += (i ? ", " : "") + std::to_string(s[i]);
  return t + "]";
}

/// str() of a dtype in the language: float types by code, ints by name.
std::string dtypeStr(Dtype d) {
  if (d.isPtr)
    return (d.isConst ? "pointer<const " : "pointer<") + dtypeStr(d.pointee()) + ">";
  return d.isFloat() ? code(d) : spelling(d);
}

struct Repr {
  std::string operator()(const ErrorValue &) const { return "<error>"; }
  std::string operator()(const NoneValue &) const { return "None"; }
  std::string operator()(const EllipsisValue &) const { return "Ellipsis"; }
  std::string operator()(bool b) const { return b ? "True" : "False"; }
  std::string operator()(const Int &i) const { return intToString(i); }
  std::string operator()(double d) const { return floatToString(d); }
  std::string operator()(const Ref<std::string> &s) const { return quote(*s); }
  std::string operator()(const Dtype &d) const { return spelling(d); }
  std::string operator()(const Ref<TypeValue> &t) const {
    if (t->isBlockPtr())
      return "pointer<" + spelling(t->dtype.pointee()) + shapeText(t->shape) + ">";
    return spelling(t->dtype) + (t->isBlock ? shapeText(t->shape) : "");
  }
  std::string operator()(const Tensor &t) const { return typeName(t); }
  std::string operator()(const Ref<TupleValue> &t) const {
    return "(" + join(t->items, repr) + (t->items.size() == 1 ? ",)" : ")");
  }
  std::string operator()(const Ref<RecordValue> &r) const { return recordText(Value(r)); }
  std::string operator()(const Ref<RecordClass> &c) const { return "<class '" + c->name + "'>"; }
  std::string operator()(const Ref<SliceValue> &s) const { return sliceText(*s); }
  std::string operator()(const Ref<BoundMethod> &m) const { return "<method of " + kindName(*m->self) + ">"; }
  std::string operator()(const Ref<RangeValue> &r) const { return "range(" + join(r->args, repr) + ")"; }
  std::string operator()(const Builtin *b) const { return std::string("<function ") + b->name + ">"; }
  std::string operator()(const Ref<Function> &f) const { return "<function " + nameOf(*f) + ">"; }
  std::string operator()(const Ref<Module> &m) const { return "<module '" + nameOf(*m) + "'>"; }
  std::string operator()(const Ref<OpaqueValue> &o) const { return o->name; }
};

struct KindName {
  std::string operator()(const ErrorValue &) const { return "erroneous value"; }
  std::string operator()(const NoneValue &) const { return "None"; }
  std::string operator()(const EllipsisValue &) const { return "Ellipsis"; }
  std::string operator()(bool) const { return "bool"; }
  std::string operator()(const Int &) const { return "int"; }
  std::string operator()(double) const { return "float"; }
  std::string operator()(const Ref<std::string> &) const { return "str"; }
  std::string operator()(const Dtype &) const { return "dtype"; }
  std::string operator()(const Ref<TypeValue> &) const { return "type"; }
  std::string operator()(const Tensor &t) const {
    if (!t.isScalar())
      return "tensor " + typeName(t);
    return t.dtype.isPtr ? typeName(t) : "scalar " + typeName(t);
  }
  std::string operator()(const Ref<TupleValue> &) const { return "tuple"; }
  std::string operator()(const Ref<RecordValue> &r) const {
    return r->cls->kind == RecordClass::Kind::BlockPtr     ? "block pointer"
           : r->cls->kind == RecordClass::Kind::Descriptor ? "tensor descriptor"
                                                           : r->cls->name;
  }
  std::string operator()(const Ref<RecordClass> &c) const { return "class " + c->name; }
  std::string operator()(const Ref<SliceValue> &) const { return "slice"; }
  std::string operator()(const Ref<BoundMethod> &) const { return "method"; }
  std::string operator()(const Ref<RangeValue> &) const { return "range"; }
  std::string operator()(const Builtin *b) const { return std::string("function ") + b->name; }
  std::string operator()(const Ref<Function> &f) const { return "function " + nameOf(*f); }
  std::string operator()(const Ref<Module> &m) const { return "module " + nameOf(*m); }
  std::string operator()(const Ref<OpaqueValue> &o) const { return o->name; }
};

std::string hex(uint64_t v) {
  char buf[20];
  auto r = std::to_chars(buf, buf + sizeof buf, v, 16);
  return std::string(buf, r.ptr);
}

/// Each alternative begins with its own letter, strings carry their length, so no two objects share a key.
struct Key {
  std::string list(char open, const std::vector<Value> &items) const {
    std::string s(1, open);
    for (const Value &v : items)
      (s += key(v)) += ',';
    return s += ')';
  }
  std::string operator()(const ErrorValue &) const { return "E"; }
  std::string operator()(const NoneValue &) const { return "N"; }
  std::string operator()(const EllipsisValue &) const { return "L"; }
  std::string operator()(bool b) const { return b ? "b1" : "b0"; }
  std::string operator()(const Int &i) const { return "i" + intToString(i); }
  std::string operator()(double d) const {
    uint64_t bits;
    std::memcpy(&bits, &d, sizeof bits);
    return "f" + hex(bits);
  }
  std::string operator()(const Ref<std::string> &s) const { return "s" + std::to_string(s->size()) + ":" + *s; }
  std::string operator()(const Dtype &d) const { return "d" + code(d); }
  std::string operator()(const Ref<TypeValue> &t) const {
    return (t->isBlock ? "y" : "Y") + code(t->dtype) + shapeText(t->shape);
  }
  std::string operator()(const Tensor &t) const { return "t" + code(t.dtype) + shapeText(t.shape()); }
  std::string operator()(const Ref<TupleValue> &t) const { return list('(', t->items); }
  std::string operator()(const Ref<RecordValue> &r) const { return (*this)(r->cls) + list('{', r->fields); }
  std::string operator()(const Ref<RecordClass> &c) const {
    std::string s = "c" + std::to_string(static_cast<int>(c->kind)) + c->name + "[";
    for (const std::string &f : c->fields)
      s += f + ",";
    return s + "]" + (c->aggregate ? keyOf(*c) : "");
  }
  std::string operator()(const Ref<SliceValue> &s) const { return list(':', s->parts); }
  std::string operator()(const Ref<BoundMethod> &m) const { return "m" + key(*m->self) + "." + key(*m->callee); }
  std::string operator()(const Ref<RangeValue> &r) const {
    std::string s = list('r', r->args) + std::to_string(static_cast<int>(r->kind));
    for (const auto &[name, v] : r->options)
      s += name + "=" + key(v) + ",";
    return s;
  }
  std::string operator()(const Builtin *b) const { return std::string("B") + b->name; }
  std::string operator()(const Ref<Function> &f) const { return "F" + keyOf(*f); }
  std::string operator()(const Ref<Module> &m) const { return "M" + nameOf(*m); }
  std::string operator()(const Ref<OpaqueValue> &o) const {
    std::string text = "o" + std::to_string(o->id) + o->name;
    for (const auto &[name, v] : o->attributes)
      text += "." + name + "=" + key(v);
    return text;
  }
};

bool equalLists(const std::vector<Value> &a, const std::vector<Value> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Value &x, const Value &y) { return equal(x, y); });
}

/// Exact: 2**53 + 1 is not equal to 2.0**53.
bool equalNumbers(const Value &a, const Value &b) {
  if (a.isFloat() == b.isFloat())
    return a.isFloat() ? a.asFloat() == b.asFloat() : a.asInt() == b.asInt();
  double d = a.isFloat() ? a.asFloat() : b.asFloat();
  Int i = a.isFloat() ? b.asInt() : a.asInt();
  return std::abs(d) < 0x1p126 && d == std::floor(d) && static_cast<Int>(d) == i;
}

std::optional<TypeValue> asType(const Value &v) {
  if (v.isDtype())
    return TypeValue{v.asDtype(), {}, false};
  if (v.is<Ref<TypeValue>>())
    return *v.get<Ref<TypeValue>>();
  return std::nullopt;
}

} // namespace

const std::vector<Value> *sequenceItems(const Value &v) {
  if (v.isTuple())
    return &v.items();
  if (v.isRecord() && v.record().cls->kind == RecordClass::Kind::NamedTuple)
    return &v.record().fields;
  return nullptr;
}

std::optional<Aggregate::Member> ownMember(const RecordClass &cls, std::string_view name) {
  for (const Aggregate::Member &m : cls.aggregate->members)
    if (m.name == name)
      return Aggregate::Member{m.name, attached(m.value), m.role};
  return std::nullopt;
}

std::optional<Aggregate::Member> findMember(const RecordClass &cls, std::string_view name) {
  if (!cls.aggregate)
    return std::nullopt;
  std::optional<Aggregate::Member> m = ownMember(cls, name);
  for (size_t i = 0; !m && i < cls.aggregate->bases.size(); ++i)
    m = ownMember(*cls.aggregate->bases[i], name);
  return m;
}

std::shared_ptr<const RecordClass> baseOf(const RecordClass &cls, size_t i) {
  return attached(Value(cls.aggregate->bases[i])).get<std::shared_ptr<const RecordClass>>();
}

Value defaultOf(const RecordClass &cls, size_t field) { return attached(cls.defaults[field]); }

bool isSameClass(const RecordClass &a, const RecordClass &b) {
  if (&a == &b)
    return true;
  if (!a.aggregate || !b.aggregate)
    return !a.aggregate && !b.aggregate && a.name == b.name && a.fields == b.fields;
  return a.aggregate == b.aggregate || (a.aggregate->identity && a.aggregate->identity == b.aggregate->identity);
}

bool derivesFrom(const RecordClass &cls, const RecordClass &base) {
  if (isSameClass(cls, base))
    return true;
  return cls.aggregate && std::any_of(cls.aggregate->bases.begin(), cls.aggregate->bases.end(),
                                      [&](const auto &b) { return isSameClass(*b, base); });
}

bool isAggregate(const Value &v) { return v.isRecord() && v.record().cls->aggregate; }

void Summary::add(const Value &item) {
  Summary s = item.summary();
  weight = weight + s.weight < weight ? UINT64_MAX : weight + s.weight;
  depth = std::max(depth, s.depth + 1);
  isConstexpr = isConstexpr && s.isConstexpr;
}

TupleValue::TupleValue(std::vector<Value> i) : items(std::move(i)) {
  for (const Value &v : items)
    summary.add(v);
}

RecordValue::RecordValue(std::shared_ptr<const RecordClass> c, std::vector<Value> f)
    : cls(std::move(c)), fields(std::move(f)) {
  summary.depth = cls->summary.depth;
  for (const Value &v : fields)
    summary.add(v);
}

namespace {

/// How values of one kind are copied, moved and destroyed; all null: as bytes.
struct Handling {
  void (*copy)(void *to, const void *from) = nullptr;
  void (*move)(void *to, void *from) = nullptr;
  void (*destroy)(void *at) = nullptr;
};
template <typename T> constexpr Handling handlingOf() {
  if constexpr (std::is_trivially_copyable_v<T>)
    return {};
  else
    return {[](void *to, const void *from) { ::new (to) T(*static_cast<const T *>(from)); },
            [](void *to, void *from) { ::new (to) T(std::move(*static_cast<T *>(from))); },
            [](void *at) { static_cast<T *>(at)->~T(); }};
}
template <typename... Ts> constexpr std::array<Handling, sizeof...(Ts)> handlingsOf(TypeList<Ts...>) {
  return {handlingOf<Ts>()...};
}
constexpr auto handlings = handlingsOf(Value::Kinds());

} // namespace

Value::Value(const Value &v) : kind_(v.kind_) {
  if (v.member_)
    member_ = std::make_unique<const Member>(*v.member_);
  if (const Handling &h = handlings[kind_]; h.copy)
    h.copy(bytes_, v.bytes_);
  else
    std::memcpy(bytes_, v.bytes_, sizeof bytes_);
}
Value::Value(Value &&v) noexcept : kind_(v.kind_), member_(std::move(v.member_)) {
  if (const Handling &h = handlings[kind_]; h.move)
    h.move(bytes_, v.bytes_);
  else
    std::memcpy(bytes_, v.bytes_, sizeof bytes_);
}
Value::~Value() {
  if (const Handling &h = handlings[kind_]; h.destroy)
    h.destroy(bytes_);
}
// What is assigned may be a part of what this value holds: it is taken first.
Value &Value::operator=(const Value &v) { return *this = Value(v); }
Value &Value::operator=(Value &&v) noexcept {
  Value taken(std::move(v));
  this->~Value();
  return *::new (static_cast<void *>(this)) Value(std::move(taken));
}

Value Value::asMember(std::shared_ptr<const OpaqueValue> object) const {
  Value v = *this;
  v.member_ = object ? std::make_unique<const Member>(std::move(object)) : nullptr;
  return v;
}

Summary Value::summary() const {
  constexpr uint64_t bytesPerUnit = 16;
  Summary s;
  if (isTuple())
    return get<Ref<TupleValue>>()->summary;
  if (isRecord())
    return record().summary;
  if (is<Ref<RecordClass>>()) {
    const Summary &defaults = get<Ref<RecordClass>>()->summary;
    s.weight = defaults.weight, s.depth = defaults.depth;
  }
  if (isStr())
    s.weight += asStr().size() / bytesPerUnit;
  if (isTensor())
    s.isConstexpr = false;
  if (is<Ref<BoundMethod>>())
    s.add(*get<Ref<BoundMethod>>()->self);
  if (is<Ref<RangeValue>>())
    for (const Value &v : get<Ref<RangeValue>>()->args)
      s.add(v);
  return s;
}

Value Value::appended(Value item) && {
  Tuple t = std::move(const_cast<Tuple &>(get<Tuple>()));
  if (t.use_count() == 1) {
    // Created by tuple() as a mutable object, with no other references.
    TupleValue &own = const_cast<TupleValue &>(*t);
    own.summary.add(item);
    own.items.push_back(std::move(item));
    return Value(std::move(t));
  }
  std::vector<Value> items = t->items;
  items.push_back(std::move(item));
  return tuple(std::move(items));
}

std::string intToString(Int v) {
  if (v == 0)
    return "0";
  bool negative = v < 0;
  // Through unsigned: the magnitude of the least value does not fit Int.
  unsigned __int128 u = negative ? -static_cast<unsigned __int128>(v) : static_cast<unsigned __int128>(v);
  std::string s;
  for (; u; u /= 10)
    s += static_cast<char>('0' + static_cast<int>(u % 10));
  if (negative)
    s += '-';
  return {s.rbegin(), s.rend()};
}

std::string floatToString(double v) {
  if (std::isnan(v))
    return "nan";
  if (std::isinf(v))
    return v < 0 ? "-inf" : "inf";
  char buf[40];
  auto r = std::to_chars(buf, buf + sizeof buf, v, std::chars_format::scientific);
  std::string s(buf, r.ptr);
  int exponent = std::atoi(s.c_str() + s.find('e') + 1);
  if (exponent >= -4 && exponent < 16) {
    r = std::to_chars(buf, buf + sizeof buf, v, std::chars_format::fixed);
    s.assign(buf, r.ptr);
    return s.find('.') == std::string::npos ? s + ".0" : s;
  }
  return s;
}

std::optional<Value> memberAttribute(const Value &v, std::string_view name) {
  if (const OpaqueValue *m = v.member())
    for (const auto &[n, attribute] : m->attributes)
      if (n == name)
        return attribute;
  return std::nullopt;
}

std::string repr(const Value &v) {
  if (std::optional<Value> text = memberAttribute(v, memberRepr))
    return text->asStr();
  return visit(Repr{}, v);
}

std::string str(const Value &v) {
  if (std::optional<Value> text = memberAttribute(v, memberStr))
    return text->asStr();
  if (v.isStr())
    return v.asStr();
  if (v.isDtype())
    return dtypeStr(v.asDtype());
  if (!v.isTensor())
    return repr(v);
  const Tensor &t = v.asTensor();
  std::string s = dtypeStr(t.dtype) + "[";
  for (unsigned i = 0; i < t.shape().rank(); ++i)
    s += (i ? ", " : "") + ("constexpr[" + std::to_string(t.shape()[i]) + "]");
  return s + "]";
}

std::string kindName(const Value &v) { return visit(KindName{}, v); }

std::string typeName(const Tensor &t) { return spelling(t.dtype) + (t.isScalar() ? "" : shapeText(t.shape())); }

bool samePayload(const Value &a, const Value &b) {
  if (a.isTuple() && b.isTuple())
    return a.get<Ref<TupleValue>>() == b.get<Ref<TupleValue>>();
  return a.isRecord() && b.isRecord() && a.get<Ref<RecordValue>>() == b.get<Ref<RecordValue>>();
}

bool equal(const Value &a, const Value &b) {
  if (a.isNumber() && b.isNumber())
    return equalNumbers(a, b);
  if (const auto *x = sequenceItems(a))
    if (const auto *y = sequenceItems(b))
      return equalLists(*x, *y);
  if (auto x = asType(a))
    if (auto y = asType(b))
      return x->dtype == y->dtype && x->isBlock == y->isBlock && x->shape == y->shape;
  if (a.kind() != b.kind())
    return false;
  if (a.isStr())
    return a.asStr() == b.asStr();
  if (a.isTensor())
    return a.asTensor().value == b.asTensor().value;
  if (a.isRecord() && a.record().cls == b.record().cls && (isDict(a) || isSet(a)))
    return equalContainers(a, b);
  if (a.isRecord())
    return isSameClass(*a.record().cls, *b.record().cls) && equalLists(a.record().fields, b.record().fields);
  if (a.is<Ref<Function>>())
    return a.get<Ref<Function>>() == b.get<Ref<Function>>();
  if (a.is<Ref<Module>>())
    return a.get<Ref<Module>>() == b.get<Ref<Module>>();
  if (a.is<Ref<RecordClass>>())
    return isSameClass(*a.get<Ref<RecordClass>>(), *b.get<Ref<RecordClass>>());
  return key(a) == key(b);
}

std::string key(const Value &v) {
  std::string text = visit(Key{}, v);
  return v.member() ? text + "@" + Key{}(std::make_shared<const OpaqueValue>(*v.member())) : text;
}

} // namespace tegula::lang
