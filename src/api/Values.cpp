// Compile-time objects of the C interface: thin boxes around lang::Value.
#include "api/Handles.h"
#include "lang/Containers.h"
#include "support/Hash.h"
#include <cctype>
#include <cmath>
#include <cstring>

using namespace tegula;
using namespace tegula::api;
using lang::Value;

static TegulaValue *box(Value v, TegulaValue::Tiles tiles = {}) {
  return new TegulaValue(std::move(v), std::move(tiles));
}
static TegulaValue *bad(std::string text) {
  fail(TEGULA_INVALID_ARGUMENT, std::move(text));
  return nullptr;
}

/// Publishes `fresh` for readers, unless another thread was first; returns the published object.
template <typename T> static const T *publish(std::atomic<const T *> &place, std::unique_ptr<const T> fresh) {
  const T *there = nullptr;
  if (place.compare_exchange_strong(there, fresh.get(), std::memory_order_acq_rel)) return fresh.release();
  return there;
}

const uint64_t *TegulaValue::makeKey() {
  GateSection section;
  auto digest = Hasher().update(lang::key(value)).digest();
  Key k;
  std::memcpy(k.words, digest.data(), sizeof k.words);
  return publish(key_, std::make_unique<const Key>(k))->words;
}

const char *TegulaValue::reprText() {
  const std::string *r = repr_.load(std::memory_order_acquire);
  if (!r) r = publish(repr_, std::make_unique<const std::string>(lang::repr(value)));
  return r->c_str();
}

TegulaValue::~TegulaValue() {
  delete key_.load();
  delete repr_.load();
}

TegulaValue *tegula_value_none(void) { return box(Value::none()); }
TegulaValue *tegula_value_bool(int32_t v) { return box(Value::boolean(v != 0)); }
TegulaValue *tegula_value_int(int64_t v) { return box(Value::integer(v)); }
TegulaValue *tegula_value_float(double v) { return box(Value::number(v)); }

/// Digits with an optional sign, all of the text; nullopt if malformed or above 127 bits.
static std::optional<lang::Int> parseInt(std::string_view s) {
  bool negative = !s.empty() && s[0] == '-';
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) s.remove_prefix(1);
  int base = 10;
  if (s.size() > 2 && s[0] == '0') {
    char c = static_cast<char>(std::tolower(static_cast<unsigned char>(s[1])));
    base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
    if (base != 10) s.remove_prefix(2);
  }
  if (s.empty()) return std::nullopt;
  lang::Int v = 0;
  for (char c : s) {
    if (c == '_') continue;
    int digit = c >= '0' && c <= '9'                          ? c - '0'
                : std::isalpha(static_cast<unsigned char>(c)) ? std::tolower(c) - 'a' + 10
                                                              : 99;
    if (digit >= base || __builtin_mul_overflow(v, lang::Int(base), &v) ||
        __builtin_add_overflow(v, lang::Int(digit), &v))
      return std::nullopt;
  }
  return negative ? -v : v;
}

TegulaValue *tegula_value_int_text(const char *decimal) {
  auto v = decimal ? parseInt(decimal) : std::nullopt;
  return v ? box(Value::integer(*v)) : bad("not an integer of at most 127 bits");
}

TegulaValue *tegula_value_str(const char *text, size_t length) {
  return text || length == 0 ? box(Value::str(std::string(text ? text : "", length)))
                             : bad("tegula_value_str: null text");
}

TegulaValue *tegula_value_dtype(const char *spelling) {
  auto d = spelling ? lang::parseDtype(spelling) : std::nullopt;
  return d ? box(Value::type(*d)) : bad(std::string("`") + (spelling ? spelling : "") + "` is not a data type");
}

/// What is wrong with a value; empty if nothing. Every traversal of a value (keys, repr, destruction) is recursive, and
/// visits shared parts once per reference.
static std::string overLimits(const lang::Summary &s) {
  if (s.depth > s.maxDepth) return "values nest more than " + std::to_string(s.maxDepth) + " deep";
  return s.weight > s.maxWeight ? "a value of more than " + std::to_string(s.maxWeight) + " parts" : "";
}

/// The value, if it is within the limits.
static TegulaValue *boxBounded(Value v, TegulaValue::Tiles tiles = {}) {
  std::string wrong = overLimits(v.summary());
  return wrong.empty() ? box(std::move(v), std::move(tiles)) : bad(std::move(wrong));
}

/// Copies of the values behind handles, and the tiles of their tensors; false if one is null.
static bool unbox(TegulaValue *const *items, size_t count, std::vector<Value> &out,
                  TegulaValue::Tiles *tiles = nullptr) {
  if (count && !items) return false;
  for (size_t i = 0; i < count; ++i) {
    if (!items[i]) return false;
    out.push_back(items[i]->value);
    if (tiles) tiles->insert(tiles->end(), items[i]->tiles.begin(), items[i]->tiles.end());
  }
  return true;
}

TegulaValue *tegula_value_tuple(TegulaValue *const *items, size_t count) {
  std::vector<Value> v;
  TegulaValue::Tiles tiles;
  if (!unbox(items, count, v, &tiles)) return bad("tegula_value_tuple: null item");
  return boxBounded(Value::tuple(std::move(v)), std::move(tiles));
}

TegulaValue *tegula_value_dict(TegulaValue *const *keys, TegulaValue *const *values, size_t count) {
  std::vector<Value> k, v;
  if (!unbox(keys, count, k) || !unbox(values, count, v)) return bad("tegula_value_dict: null key or value");
  return boxBounded(lang::dictOf(std::move(k), std::move(v)));
}

TegulaValue *tegula_value_set(TegulaValue *const *items, size_t count) {
  std::vector<Value> v;
  return unbox(items, count, v) ? boxBounded(lang::setOf(std::move(v))) : bad("tegula_value_set: null item");
}

TegulaValue *tegula_value_class(const char *name, const char *const *fields, size_t fieldCount,
                                TegulaValue *const *defaults, size_t defaultCount) {
  auto c = std::make_shared<lang::RecordClass>();
  if (!name || (fieldCount && !fields) || defaultCount > fieldCount || !unbox(defaults, defaultCount, c->defaults))
    return bad("tegula_value_class: null or too many arguments");
  for (const Value &d : c->defaults) c->summary.add(d);
  c->name = name;
  for (size_t i = 0; i < fieldCount; ++i) {
    if (!fields[i]) return bad("tegula_value_class: null field name");
    c->fields.push_back(fields[i]);
  }
  return boxBounded(Value(std::shared_ptr<const lang::RecordClass>(std::move(c))));
}

TegulaValue *tegula_value_record(TegulaValue *cls, TegulaValue *const *items, size_t count) {
  using ClassPtr = std::shared_ptr<const lang::RecordClass>;
  if (!cls || !cls->value.is<ClassPtr>()) return bad("tegula_value_record: not a class");
  const ClassPtr &c = cls->value.get<ClassPtr>();
  std::vector<Value> fields;
  TegulaValue::Tiles tiles;
  if (count != c->fields.size() || !unbox(items, count, fields, &tiles))
    return bad("`" + c->name + "` has " + std::to_string(c->fields.size()) + " fields");
  return boxBounded(Value(std::make_shared<const lang::RecordValue>(c, std::move(fields))), std::move(tiles));
}

TegulaValue *tegula_value_aggregate(const char *name, uint64_t identity, const char *const *fields,
                                    TegulaValue *const *types, TegulaValue *const *defaults, size_t fieldCount,
                                    TegulaValue *const *bases, size_t baseCount) {
  using ClassPtr = std::shared_ptr<const lang::RecordClass>;
  std::vector<Value> typeValues, baseValues, defaultValues;
  if (!name || (fieldCount && (!fields || !defaults)) || !unbox(types, fieldCount, typeValues) ||
      !unbox(bases, baseCount, baseValues))
    return bad("tegula_value_aggregate: null argument");
  for (size_t i = 0; i < fieldCount; ++i) {
    if (!fields[i]) return bad("tegula_value_aggregate: null field name");
    defaultValues.push_back(defaults[i] ? defaults[i]->value : Value::error());
  }
  for (const Value &b : baseValues)
    if (!b.is<ClassPtr>() || !b.get<ClassPtr>()->aggregate)
      return bad("tegula_value_aggregate: a base is no class of aggregates");
  std::shared_ptr<lang::RecordClass> c = lang::makeNode<lang::RecordClass>();
  for (const Value &d : defaultValues) c->summary.add(d);
  if (std::string wrong = overLimits(c->summary); !wrong.empty()) return bad(std::move(wrong));
  c->kind = lang::RecordClass::Kind::Aggregate;
  c->aggregate = std::make_shared<lang::Aggregate>();
  c->name = name;
  c->aggregate->identity = identity;
  c->fields.assign(fields, fields + fieldCount);
  for (const Value &t : typeValues) c->aggregate->types.push_back(lang::held(*c->node, t));
  for (const Value &d : defaultValues) c->defaults.push_back(lang::held(*c->node, d));
  for (const Value &b : baseValues) c->aggregate->bases.push_back(lang::held(*c->node, b).get<ClassPtr>());
  return box(Value(ClassPtr(std::move(c))));
}

TegulaStatus tegula_value_add_member(TegulaValue *cls, const char *name, int32_t role, TegulaValue *member) {
  using ClassPtr = std::shared_ptr<const lang::RecordClass>;
  if (!cls || !name || !member || !cls->value.is<ClassPtr>() || !cls->value.get<ClassPtr>()->node)
    return fail(TEGULA_INVALID_ARGUMENT,
                "tegula_value_add_member: null argument, or not a class that tegula_value_aggregate made");
  if (role < TEGULA_MEMBER_PLAIN || role > TEGULA_MEMBER_PROPERTY)
    return fail(TEGULA_INVALID_ARGUMENT,
                "tegula_value_add_member: there is no role of members " + std::to_string(role));
  const lang::RecordClass &c = *cls->value.get<ClassPtr>();
  c.aggregate->members.push_back(
      {name, lang::held(*c.node, member->value), static_cast<lang::Aggregate::Member::Role>(role)});
  return TEGULA_OK;
}

TegulaValue *tegula_value_function(TegulaFunction *f) {
  return f ? box(Value(std::shared_ptr<const lang::Function>(f->fn))) : bad("tegula_value_function: null function");
}

TegulaValue *tegula_value_module(const char *dotted) {
  GateSection section;
  auto m = dotted ? sema::builtinModule(dotted) : nullptr;
  if (!m) return bad(std::string("the language has no module `") + (dotted ? dotted : "") + "`");
  return box(Value(std::shared_ptr<const lang::Module>(std::move(m))));
}

namespace {
/// A module that a binding resolves; the first answer for a name is kept.
class DynamicScope : public lang::Scope {
public:
  DynamicScope(lang::Node &node, TegulaResolveFn resolve, void (*destroy)(void *), void *user)
      : node_(node), resolve_(resolve), destroy_(destroy), user_(user) {}
  ~DynamicScope() override {
    GatePause pause;
    if (destroy_) destroy_(user_);
  }
  std::optional<Binding> lookup(std::string_view name) const override {
    GateSection section;
    {
      std::lock_guard lock(mutex_);
      if (auto it = known_.find(name); it != known_.end()) return given(it->second);
    }
    std::string key(name);
    std::optional<Binding> b;
    {
      GatePause pause; // and without the lock: the answer may take locks of the user's
      if (TegulaValue *v = resolve_(user_, key.c_str())) {
        b = Binding{lang::held(node_, v->value), true, {}};
        release(v);
      }
    }
    std::lock_guard lock(mutex_);
    return given(known_.emplace(std::move(key), std::move(b)).first->second);
  }

private:
  static std::optional<Binding> given(const std::optional<Binding> &b) {
    return b ? std::optional(Binding{lang::attached(b->value), b->allowed, b->declared}) : std::nullopt;
  }
  lang::Node &node_; // of the module, which stores `known_`
  TegulaResolveFn resolve_;
  void (*destroy_)(void *);
  void *user_;
  mutable std::mutex mutex_; // only in a GateSection
  mutable std::map<std::string, std::optional<Binding>, std::less<>> known_;
};
} // namespace

TegulaValue *tegula_value_dynamic_module(const char *name, TegulaResolveFn resolve, void (*destroy)(void *),
                                         void *user) {
  if (!name || !resolve) return bad("tegula_value_dynamic_module: null argument");
  std::shared_ptr<lang::Module> m = lang::makeNode<lang::Module>();
  m->name = name;
  m->scope = std::make_shared<DynamicScope>(*m->node, resolve, destroy, user);
  return box(Value(std::shared_ptr<const lang::Module>(std::move(m))));
}

TegulaValue *tegula_value_attribute(TegulaValue *module, const char *name) {
  using ModulePtr = std::shared_ptr<const lang::Module>;
  if (!module || !name || !module->value.is<ModulePtr>()) return bad("tegula_value_attribute: not a module");
  GateSection section;
  auto v = module->value.get<ModulePtr>()->attribute(name);
  if (!v || v->isError()) return bad("`" + module->value.get<ModulePtr>()->name + "` has no attribute `" + name + "`");
  return box(*v);
}

TegulaStatus tegula_module_names(const char *dotted, char **names) {
  if (!dotted || !names) return fail(TEGULA_INVALID_ARGUMENT, "tegula_module_names: null argument");
  GateSection section;
  auto m = sema::builtinModule(dotted);
  if (!m) return fail(TEGULA_NOT_FOUND, std::string("the language has no module `") + dotted + "`");
  std::string text;
  for (const std::string &n : m->scope->publicNames())
    (text += n) += '\n';
  *names = strdup(text.c_str());
  return TEGULA_OK;
}

TegulaValue *tegula_value_opaque(const char *name, uint64_t id) {
  return tegula_value_object(name, id, nullptr, nullptr, 0, 0);
}

TegulaValue *tegula_value_object(const char *name, uint64_t id, const char *const *names, TegulaValue *const *values,
                                 size_t n, int32_t bare) {
  auto o = std::make_shared<lang::OpaqueValue>();
  o->bare = bare;
  o->name = name ? name : "object";
  o->id = id;
  for (size_t i = 0; i < n; ++i) {
    if (!names || !values || !names[i] || !values[i]) return bad("tegula_value_object: null argument");
    o->attributes.emplace_back(names[i], values[i]->value);
  }
  return box(Value(std::shared_ptr<const lang::OpaqueValue>(std::move(o))));
}

TegulaValue *tegula_value_member(TegulaValue *value, TegulaValue *object) {
  using Object = std::shared_ptr<const lang::OpaqueValue>;
  if (!value || !object || !(value->value.isInt() || value->value.isStr()) || !object->value.is<Object>())
    return bad("tegula_value_member: an int or string and an object are wanted");
  return box(value->value.asMember(object->value.get<Object>()));
}

/// Text between matching quotes with \n \t \\ \' \" unescaped; nullopt if it is not a quoted string.
static std::optional<std::string> parseQuoted(std::string_view s) {
  if (s.size() < 2 || (s[0] != '"' && s[0] != '\'') || s.back() != s[0]) return std::nullopt;
  std::string out;
  for (size_t i = 1; i + 1 < s.size(); ++i) {
    if (s[i] == s[0]) return std::nullopt;
    if (s[i] != '\\') {
      out += s[i];
      continue;
    }
    if (++i + 1 >= s.size()) return std::nullopt;
    out += s[i] == 'n' ? '\n' : s[i] == 't' ? '\t' : s[i] == 'r' ? '\r' : s[i];
  }
  return out;
}

TegulaValue *tegula_value_parse(const char *text) {
  if (!text) return bad("tegula_value_parse: null text");
  std::string_view s = text;
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  if (s == "None" || s == "none") return box(Value::none());
  if (s == "True" || s == "true") return box(Value::boolean(true));
  if (s == "False" || s == "false") return box(Value::boolean(false));
  if (auto i = parseInt(s)) return box(Value::integer(*i));
  if (auto q = parseQuoted(s)) return box(Value::str(std::move(*q)));
  if (auto d = lang::parseDtype(s)) return box(Value::type(*d));
  std::string number(s);
  char *end = nullptr;
  double v = std::strtod(number.c_str(), &end);
  // Digits alone that did not fit an integer are not a float either.
  if (!number.empty() && *end == 0 && number.find_first_not_of("+-0123456789_") != number.npos)
    return box(Value::number(v));
  return bad("`" + std::string(s) +
             "` is not a constant; write a number, true, false, none, a data type or a quoted string");
}

void tegula_value_retain(TegulaValue *v) { retain(v); }
void tegula_value_release(TegulaValue *v) { release(v); }

int32_t tegula_value_kind(const TegulaValue *v) {
  if (!v) return TEGULA_VALUE_OTHER;
  const Value &x = v->value;
  if (x.isNone()) return TEGULA_VALUE_NONE;
  if (x.isBool()) return TEGULA_VALUE_BOOL;
  if (x.isInt()) return TEGULA_VALUE_INT;
  if (x.isFloat()) return TEGULA_VALUE_FLOAT;
  if (x.isStr()) return TEGULA_VALUE_STR;
  if (x.isDtype()) return TEGULA_VALUE_DTYPE;
  if (x.isTuple()) return TEGULA_VALUE_TUPLE;
  if (x.isRecord()) return TEGULA_VALUE_RECORD;
  if (x.is<std::shared_ptr<const lang::RecordClass>>()) return TEGULA_VALUE_CLASS;
  if (x.is<std::shared_ptr<const lang::Function>>()) return TEGULA_VALUE_FUNCTION;
  if (x.is<const lang::Builtin *>()) return TEGULA_VALUE_BUILTIN;
  if (x.is<std::shared_ptr<const lang::Module>>()) return TEGULA_VALUE_MODULE;
  if (x.is<std::shared_ptr<const lang::OpaqueValue>>()) return TEGULA_VALUE_OPAQUE;
  if (x.isTensor()) return TEGULA_VALUE_TENSOR;
  if (x.is<std::shared_ptr<const lang::BoundMethod>>()) return TEGULA_VALUE_METHOD;
  return TEGULA_VALUE_OTHER;
}

const char *tegula_value_repr(TegulaValue *v) { return v ? v->reprText() : ""; }

TegulaStatus tegula_value_as_int(const TegulaValue *v, int64_t *out) {
  if (!v || !out || (!v->value.isInt() && !v->value.isBool()) ||
      v->value.asInt() != static_cast<int64_t>(v->value.asInt()))
    return fail(TEGULA_INVALID_ARGUMENT, "the value is not an integer of 64 bits");
  *out = static_cast<int64_t>(v->value.asInt());
  return TEGULA_OK;
}

TegulaStatus tegula_value_as_float(const TegulaValue *v, double *out) {
  if (!v || !out || !v->value.isNumber()) return fail(TEGULA_INVALID_ARGUMENT, "the value is not a number");
  *out = v->value.asFloat();
  return TEGULA_OK;
}
