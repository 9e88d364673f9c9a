// The encoding of values: {"none"}, {"bool"}, {"int": decimal text}, {"float": bits in hexadecimal} ...: one key, which
// is the kind. Functions, classes of aggregates and modules of a binding may refer to each other, so they are in a
// table and are referred to by number: {"ref": "f3"}.
#include "api/Closure.h"
#include "lang/Circle.h"
#include "lang/Descriptor.h"
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_map>

namespace tegula::api {

using lang::Value;
using nlohmann::json;
using sema::ParamSpec;
using FunctionPtr = std::shared_ptr<const lang::Function>;
using ModulePtr = std::shared_ptr<const lang::Module>;
using ClassPtr = std::shared_ptr<const lang::RecordClass>;

static std::string hexText(uint64_t v) {
  char buffer[20];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, v, 16).ptr};
}

// ---- writing

struct ClosureWriter::Impl {
  json objects = json::object();
  std::unordered_map<const void *, std::string> numbers; // "": it has no text
  std::vector<Value> alive;                             // so that no other object gets the address of one
  std::map<std::string, std::string> files;             // numbers of tables of files, by content
  std::string why;

  std::string fresh(char kind, const void *key, Value v) {
    std::string number = kind + std::to_string(numbers.size());
    numbers.emplace(key, number);
    alive.push_back(std::move(v));
    objects[number] = json::object(); // references made while it is written find it
    return number;
  }
  bool fail(const std::string &what) {
    if (why.empty()) why = what;
    return false;
  }

  bool list(const std::vector<Value> &items, json &out) {
    out = json::array();
    for (const Value &v : items) {
      json one;
      if (v.isError()) one = nullptr;
      else if (!value(v, one)) return false;
      out.push_back(std::move(one));
    }
    return true;
  }

  bool value(const Value &v, json &out) {
    if (v.isNone()) return out = {{"none", true}}, true;
    if (v.isBool()) return out = {{"bool", v.asBool()}}, true;
    if (v.member()) {
      json number, object;
      return value(v.withoutMember(), number) &&
             value(Value(std::make_shared<const lang::OpaqueValue>(*v.member())), object) &&
             (out = {{"member", {{"value", std::move(number)}, {"object", std::move(object)}}}}, true);
    }
    if (v.isInt()) return out = {{"int", lang::intToString(v.asInt())}}, true;
    if (v.isFloat()) return out = {{"float", hexText(std::bit_cast<uint64_t>(v.asFloat()))}}, true;
    if (v.isStr()) return out = {{"str", v.asStr()}}, true;
    if (v.isDtype()) return out = {{"dtype", lang::code(v.asDtype())}}, true;
    if (v.is<lang::EllipsisValue>()) return out = {{"ellipsis", true}}, true;
    if (v.is<const lang::Builtin *>()) return out = {{"builtin", v.get<const lang::Builtin *>()->name}}, true;
    if (v.isTuple()) {
      json items;
      return list(v.items(), items) && (out = {{"tuple", std::move(items)}}, true);
    }
    if (v.is<FunctionPtr>()) return function(v.get<FunctionPtr>(), out);
    if (v.is<ModulePtr>()) return module(v.get<ModulePtr>(), out);
    if (v.is<ClassPtr>()) return recordClass(v.get<ClassPtr>(), out);
    if (v.isRecord()) {
      json cls, fields;
      return recordClass(v.record().cls, cls) && list(v.record().fields, fields) &&
             (out = {{"record", {{"class", std::move(cls)}, {"fields", std::move(fields)}}}}, true);
    }
    using OpaquePtr = std::shared_ptr<const lang::OpaqueValue>;
    if (v.is<OpaquePtr>()) {
      const lang::OpaqueValue &o = *v.get<OpaquePtr>();
      json names = json::array(), values;
      std::vector<Value> held;
      for (const auto &[name, value] : o.attributes) names.push_back(name), held.push_back(value);
      return list(held, values) && (out = {{"opaque",
                                            {{"name", o.name},
                                             {"id", std::to_string(o.id)},
                                             {"names", std::move(names)},
                                             {"values", std::move(values)},
                                             {"bare", o.bare}}}},
                                    true);
    }
    using TypePtr = std::shared_ptr<const lang::TypeValue>;
    if (v.is<TypePtr>()) {
      const lang::TypeValue &t = *v.get<TypePtr>();
      json shape = json::array();
      for (unsigned i = 0; i < t.shape.rank(); ++i) shape.push_back(t.shape[i]);
      return out = {{"type", {{"dtype", lang::code(t.dtype)}, {"shape", std::move(shape)}, {"block", t.isBlock}}}},
             true;
    }
    return fail("a value `" + lang::repr(v) + "` has no text");
  }

  bool function(const FunctionPtr &f, json &out) {
    if (sema::libraryFunction(f->name) == f) return out = {{"library", f->name}}, true;
    if (auto it = numbers.find(f->def); it != numbers.end())
      return out = {{"ref", it->second}}, !it->second.empty() || fail("`" + f->name + "` has no text");
    const std::string number = fresh('f', f->def, Value(f));
    out = {{"ref", number}};
    const SourceFile &file = f->tree->file();
    json j = {{"function", f->name},
              {"file", file.name()},
              {"line", file.lineCol(f->def->loc.begin).line},
              {"text", std::string(f->def->loc.text())},
              {"kind", static_cast<int>(f->kind)},
              {"noinline", f->noinline_},
              {"exact", f->exact}};
    if (f->mustUse) j["must_use"] = f->mustUseHint;
    if (!f->annotations.empty()) j["annotations"] = f->annotations;
    if (!f->doNotSpecialize.empty()) j["do_not_specialize"] = f->doNotSpecialize;
    if (!f->doNotSpecializeOnAlignment.empty()) j["do_not_specialize_on_alignment"] = f->doNotSpecializeOnAlignment;
    std::vector<Value> defaults;
    for (size_t i = 0; i < f->defaults.size(); ++i) defaults.push_back(f->defaultOf(i));
    bool ok = list(defaults, j["defaults"]);
    json names = json::object();
    for (const std::string &name : sema::freeNames(*f)) {
      std::optional<lang::Scope::Binding> b = f->scope ? f->scope->lookup(name) : std::nullopt;
      if (!b) continue;
      json v;
      ok = ok && value(b->value, v);
      names[name] = {{"value", std::move(v)}, {"allowed", b->allowed}};
    }
    j["names"] = std::move(names);
    // For modules of the binding, the attributes that are read.
    for (const sema::BoundAttribute &a : sema::boundAttributes(*f)) {
      json unused, v;
      ok = ok && module(a.module, unused) && value(a.value, v);
      if (ok) objects[numbers[a.module.get()]]["attributes"][a.name] = std::move(v);
    }
    if (!ok) numbers[f->def].clear();
    objects[number] = std::move(j);
    return ok;
  }

  bool module(const ModulePtr &m, json &out) {
    if (!m->tree && sema::builtinModule(m->name)) return out = {{"module", m->name}}, true;
    if (m->tree) return fail("module `" + m->name + "` is a file");
    auto it = numbers.find(m.get());
    if (it == numbers.end()) {
      std::string number = fresh('m', m.get(), Value(m));
      objects[number] = {{"module", m->name}, {"attributes", json::object()}};
      it = numbers.find(m.get());
    }
    return out = {{"ref", it->second}}, true;
  }

  bool recordClass(const ClassPtr &c, json &out) {
    if (c == lang::descriptorClass()) return out = {{"descriptor", true}}, true;
    if (c->kind == lang::RecordClass::Kind::NamedTuple) {
      json defaults;
      return list(c->defaults, defaults) &&
             (out = {{"class", {{"name", c->name}, {"fields", c->fields}, {"defaults", std::move(defaults)}}}}, true);
    }
    if (!c->aggregate || !c->node) return fail("class `" + c->name + "` has no text");
    if (auto it = numbers.find(c->aggregate.get()); it != numbers.end())
      return out = {{"ref", it->second}}, !it->second.empty() || fail("class `" + c->name + "` has no text");
    const std::string number = fresh('c', c->aggregate.get(), Value(c));
    out = {{"ref", number}};
    const lang::Aggregate &a = *c->aggregate;
    json j = {{"aggregate", c->name}, {"identity", std::to_string(a.identity)}, {"fields", c->fields}};
    std::vector<Value> types, defaults, bases;
    for (const Value &t : a.types) types.push_back(lang::attached(t));
    for (size_t i = 0; i < c->fields.size(); ++i) defaults.push_back(lang::defaultOf(*c, i));
    for (size_t i = 0; i < a.bases.size(); ++i) bases.emplace_back(lang::baseOf(*c, i));
    bool ok = list(types, j["types"]) && list(defaults, j["defaults"]) && list(bases, j["bases"]);
    json members = json::array();
    for (const lang::Aggregate::Member &m : a.members) {
      json v;
      ok = ok && value(lang::attached(m.value), v);
      members.push_back({{"name", m.name}, {"role", static_cast<int>(m.role)}, {"value", std::move(v)}});
    }
    j["members"] = std::move(members);
    if (!ok) numbers[c->aggregate.get()].clear();
    objects[number] = std::move(j);
    return ok;
  }

  bool spec(const ParamSpec &s, json &out) {
    if (s.kind == ParamSpec::Kind::Runtime) {
      out = {{"type", lang::code(s.dtype)}, {"divisibility", s.divisibility}};
      if (s.sameAs >= 0) out["same_as"] = s.sameAs;
      if (s.overlap) out["overlap"] = s.overlap;
      return true;
    }
    json v;
    if (s.kind == ParamSpec::Kind::Constexpr) return value(s.value, v) && (out = {{"value", std::move(v)}}, true);
    json items = json::array(), cls;
    for (const ParamSpec &item : s.items) {
      json one;
      if (!spec(item, one)) return false;
      items.push_back(std::move(one));
    }
    out = {{"items", std::move(items)}};
    if (!s.recordClass) return true;
    return recordClass(s.recordClass, cls) && (out["class"] = std::move(cls), true);
  }
};

ClosureWriter::ClosureWriter() : impl_(std::make_unique<Impl>()) {}
ClosureWriter::~ClosureWriter() = default;
const json &ClosureWriter::objects() const { return impl_->objects; }

std::string ClosureWriter::add(const FunctionPtr &f, std::string &why) {
  json out;
  impl_->why.clear();
  if (impl_->function(f, out) && out.contains("ref")) return out["ref"].get<std::string>();
  why = impl_->why.empty() ? "`" + f->name + "` is the language's own" : impl_->why;
  return "";
}

std::string ClosureWriter::addFiles(const std::map<std::string, std::string> &texts) {
  json j = {{"files", texts}};
  auto [it, isNew] = impl_->files.try_emplace(j.dump(-1, ' ', false, json::error_handler_t::replace),
                                              "t" + std::to_string(impl_->files.size()));
  if (isNew) impl_->objects[it->second] = std::move(j);
  return it->second;
}

bool ClosureWriter::add(const ParamSpec &s, json &out, std::string &why) {
  impl_->why.clear();
  if (impl_->spec(s, out)) return true;
  why = impl_->why;
  return false;
}

// ---- reading

namespace {
/// Attributes of a module of the table; shared with the module, which outlives the reader.
struct ModuleAttributes {
  std::map<std::string, Ref<TegulaValue>, std::less<>> values;
};
Ref<TegulaValue> taken(TegulaValue *v) {
  Ref<TegulaValue> r(v);
  release(v);
  return r;
}
} // namespace

struct ClosureReader::Impl {
  TegulaContext &context;
  const json &objects;
  std::map<std::string, Ref<TegulaFunction>> functions;
  std::map<std::string, Ref<TegulaValue>> others; // modules and classes
  std::string why;
  unsigned depth = 0;

  bool fail(const std::string &what) {
    if (why.empty()) why = what;
    return false;
  }
  const json *member(const json &j, const char *name) {
    if (!j.is_object()) return nullptr;
    auto it = j.find(name);
    return it == j.end() ? nullptr : &*it;
  }
  std::string text(const json &j, const char *name) {
    const json *m = member(j, name);
    if (m && m->is_string()) return m->get<std::string>();
    fail(std::string("`") + name + "` is no text");
    return "";
  }
  int64_t number(const json &j, const char *name) {
    const json *m = member(j, name);
    if (m && m->is_number_integer()) return m->get<int64_t>();
    fail(std::string("`") + name + "` is no number");
    return 0;
  }
  bool flag(const json &j, const char *name) {
    const json *m = member(j, name);
    return m && m->is_boolean() && m->get<bool>();
  }
  std::vector<std::string> texts(const json &j, const char *name) {
    std::vector<std::string> out;
    const json *m = member(j, name);
    if (m && m->is_array())
      for (const json &item : *m)
        item.is_string() ? out.push_back(item.get<std::string>())
                         : (void)fail(std::string("`") + name + "` holds no texts");
    return out;
  }

  /// Null represents an Error value.
  bool list(const json *j, std::vector<Value> &out) {
    if (!j || !j->is_array()) return fail("a list is missing");
    for (const json &item : *j) {
      Value v;
      if (!item.is_null() && !value(item, v)) return false;
      out.push_back(std::move(v));
    }
    return true;
  }

  bool value(const json &j, Value &out) {
    constexpr unsigned deepest = 100;
    if (++depth > deepest) return fail("values nest too deep");
    bool ok = valueHere(j, out);
    --depth;
    return ok;
  }

  bool valueHere(const json &j, Value &out) {
    if (!j.is_object() || j.size() != 1) return fail("a value is no object with one key");
    const std::string &kind = j.begin().key();
    const json &v = j.begin().value();
    auto string = [&](std::string &s) {
      return v.is_string() ? (s = v.get<std::string>(), true) : fail("`" + kind + "` is no text");
    };
    std::string s;
    if (kind == "none") return out = Value::none(), true;
    if (kind == "ellipsis") return out = Value(lang::EllipsisValue{}), true;
    if (kind == "bool") return out = Value::boolean(v.is_boolean() && v.get<bool>()), true;
    if (kind == "descriptor") return out = Value(lang::descriptorClass()), true;
    if (kind == "tuple") {
      std::vector<Value> items;
      return list(&v, items) && (out = Value::tuple(std::move(items)), true);
    }
    if (kind == "record" || kind == "class" || kind == "opaque" || kind == "member" || kind == "type")
      return compound(kind, v, out);
    if (!string(s)) return false;
    if (kind == "int" || kind == "dtype") {
      TegulaValue *made = kind == "int" ? tegula_value_int_text(s.c_str()) : tegula_value_dtype(s.c_str());
      return made ? (out = taken(made)->value, true) : fail("`" + s + "` is no " + kind);
    }
    if (kind == "float") {
      uint64_t bits = 0;
      auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), bits, 16);
      return error == std::errc() && end == s.data() + s.size()
                 ? (out = Value::number(std::bit_cast<double>(bits)), true)
                 : fail("`" + s + "` are no bits of a float");
    }
    if (kind == "str") return out = Value::str(s), true;
    if (kind == "builtin") {
      const lang::Builtin *b = lang::findBuiltin(s);
      return b ? (out = Value(b), true) : fail("the language has no function `" + s + "`");
    }
    if (kind == "library") {
      FunctionPtr f = sema::libraryFunction(s);
      return f ? (out = Value(f), true) : fail("the library has no function `" + s + "`");
    }
    if (kind == "module") {
      ModulePtr m = sema::builtinModule(s);
      return m ? (out = Value(m), true) : fail("the language has no module `" + s + "`");
    }
    if (kind == "ref") return reference(s, out);
    return fail("there are no values of kind `" + kind + "`");
  }

  bool compound(const std::string &kind, const json &v, Value &out) {
    if (kind == "opaque") {
      auto o = std::make_shared<lang::OpaqueValue>();
      o->name = text(v, "name");
      o->id = std::strtoull(text(v, "id").c_str(), nullptr, 10);
      o->bare = flag(v, "bare");
      std::vector<Value> held;
      const std::vector<std::string> names = texts(v, "names");
      if (!list(member(v, "values"), held) || held.size() != names.size())
        return fail("an object has other values than names");
      for (size_t i = 0; i < names.size(); ++i) o->attributes.emplace_back(names[i], held[i]);
      return out = Value(std::shared_ptr<const lang::OpaqueValue>(std::move(o))), why.empty();
    }
    if (kind == "member") {
      Value number, object;
      const json *numberText = member(v, "value"), *objectText = member(v, "object");
      if (!numberText || !objectText || !value(*numberText, number) || !value(*objectText, object)) return false;
      using ObjectPtr = std::shared_ptr<const lang::OpaqueValue>;
      if (!object.is<ObjectPtr>() || !(number.isInt() || number.isStr()))
        return fail("a member of an enumeration is no int or string, or has no object");
      return out = number.asMember(object.get<ObjectPtr>()), true;
    }
    if (kind == "type") {
      auto t = std::make_shared<lang::TypeValue>();
      std::optional<lang::Dtype> d = lang::parseDtype(text(v, "dtype"));
      if (!d) return fail("a type has no dtype");
      t->dtype = *d;
      t->isBlock = flag(v, "block");
      const json *shape = member(v, "shape");
      for (size_t i = 0; shape && shape->is_array() && i < shape->size(); ++i) {
        if (!(*shape)[i].is_number_integer() || i == 5) return fail("a type has no shape");
        t->shape.push((*shape)[i].get<int64_t>());
      }
      return out = Value(std::shared_ptr<const lang::TypeValue>(std::move(t))), true;
    }
    if (kind == "class") {
      auto c = std::make_shared<lang::RecordClass>();
      c->name = text(v, "name");
      c->fields = texts(v, "fields");
      if (!list(member(v, "defaults"), c->defaults) || c->defaults.size() > c->fields.size())
        return fail("a class has other defaults than fields");
      for (const Value &d : c->defaults) c->summary.add(d);
      return out = Value(ClassPtr(std::move(c))), why.empty();
    }
    Value cls;
    const json *c = member(v, "class");
    std::vector<Value> fields;
    if (!c || !value(*c, cls) || !cls.is<ClassPtr>() || !list(member(v, "fields"), fields))
      return fail("a record has no class");
    if (fields.size() != cls.get<ClassPtr>()->fields.size()) return fail("a record has other fields than its class");
    return out = Value(std::make_shared<const lang::RecordValue>(cls.get<ClassPtr>(), std::move(fields))), true;
  }

  bool reference(const std::string &number, Value &out) {
    auto it = objects.find(number);
    if (it == objects.end() || !it->is_object()) return fail("there is no object `" + number + "`");
    if (it->contains("function")) {
      TegulaFunction *f = function(number);
      return f && (out = Value(FunctionPtr(f->fn)), true);
    }
    if (auto known = others.find(number); known != others.end()) return out = known->second->value, true;
    return it->contains("aggregate") ? aggregate(number, *it, out)
           : it->contains("module")  ? module(number, *it, out)
                                     : fail("`" + number + "` is no object");
  }

  bool module(const std::string &number, const json &j, Value &out) {
    auto *attributes = new ModuleAttributes;
    auto resolve = [](void *user, const char *name) -> TegulaValue * {
      auto &values = static_cast<ModuleAttributes *>(user)->values;
      auto it = values.find(name);
      if (it == values.end()) return nullptr;
      retain(it->second.get());
      return it->second.get();
    };
    auto destroy = [](void *user) { delete static_cast<ModuleAttributes *>(user); };
    Ref<TegulaValue> made = taken(tegula_value_dynamic_module(text(j, "module").c_str(), resolve, destroy, attributes));
    others.emplace(number, made);
    out = made->value;
    const json *all = member(j, "attributes");
    for (auto it = all && all->is_object() ? all->begin() : json::const_iterator();
         all && all->is_object() && it != all->end(); ++it) {
      Value v;
      if (!value(it.value(), v)) return false;
      attributes->values.emplace(it.key(), taken(new TegulaValue(std::move(v))));
    }
    return why.empty();
  }

  bool aggregate(const std::string &number, const json &j, Value &out) {
    std::vector<std::string> fields = texts(j, "fields");
    std::vector<Value> types, defaults, bases;
    if (!list(member(j, "types"), types) || !list(member(j, "defaults"), defaults) || !list(member(j, "bases"), bases))
      return false;
    if (types.size() != fields.size() || defaults.size() != fields.size())
      return fail("a class has other types than fields");
    std::vector<Ref<TegulaValue>> held;
    auto handles = [&](const std::vector<Value> &values, bool mayMiss) {
      std::vector<TegulaValue *> p;
      for (const Value &v : values) {
        if (v.isError() && mayMiss) p.push_back(nullptr);
        else held.push_back(taken(new TegulaValue(v))), p.push_back(held.back().get());
      }
      return p;
    };
    std::vector<const char *> names;
    for (const std::string &f : fields) names.push_back(f.c_str());
    std::vector<TegulaValue *> t = handles(types, false), d = handles(defaults, true), b = handles(bases, false);
    TegulaValue *made =
        tegula_value_aggregate(text(j, "aggregate").c_str(), std::strtoull(text(j, "identity").c_str(), nullptr, 10),
                               names.data(), t.data(), d.data(), fields.size(), b.data(), b.size());
    if (!made) return fail(tegula_last_error());
    Ref<TegulaValue> cls = taken(made);
    others.emplace(number, cls);
    out = cls->value;
    const json *members = member(j, "members");
    for (size_t i = 0; members && members->is_array() && i < members->size(); ++i) {
      const json &m = (*members)[i];
      Value v;
      const json *given = member(m, "value");
      if (!given || !value(*given, v)) return fail("a member of a class has no value");
      Ref<TegulaValue> handle = taken(new TegulaValue(std::move(v)));
      if (tegula_value_add_member(cls.get(), text(m, "name").c_str(), static_cast<int32_t>(this->number(m, "role")),
                                  handle.get()) != TEGULA_OK)
        return fail(tegula_last_error());
    }
    return why.empty();
  }
  int64_t number_(const json &j, const char *name) { return number(j, name); }

  TegulaFunction *function(const std::string &number) {
    if (auto it = functions.find(number); it != functions.end()) return it->second.get();
    auto found = objects.find(number);
    if (found == objects.end() || !found->is_object() || !found->contains("function"))
      return fail("there is no function `" + number + "`"), nullptr;
    const json &j = *found;
    const std::string file = text(j, "file"), source = text(j, "text"),
                      hint = j.contains("must_use") ? text(j, "must_use") : "";
    const std::vector<std::string> fixed = texts(j, "do_not_specialize"),
                                   unaligned = texts(j, "do_not_specialize_on_alignment"),
                                   annotations = texts(j, "annotations");
    auto pointers = [](const std::vector<std::string> &all) {
      std::vector<const char *> p;
      for (const std::string &s : all) p.push_back(s.c_str());
      return p;
    };
    std::vector<const char *> fixedNames = pointers(fixed), unalignedNames = pointers(unaligned),
                              annotationTexts = pointers(annotations);
    TegulaFunctionSource s{};
    s.size = sizeof s;
    s.file = file.c_str(), s.text = source.c_str(), s.length = source.size();
    s.first_line = static_cast<uint32_t>(std::clamp<int64_t>(this->number(j, "line"), 1, 1 << 30));
    s.kind = static_cast<int32_t>(this->number(j, "kind"));
    s.noinline_ = flag(j, "noinline"), s.exact = flag(j, "exact");
    s.must_use = j.contains("must_use") ? hint.c_str() : nullptr;
    s.do_not_specialize = fixedNames.data(), s.do_not_specialize_count = fixedNames.size();
    s.do_not_specialize_on_alignment = unalignedNames.data(),
    s.do_not_specialize_on_alignment_count = unalignedNames.size();
    s.annotations = annotationTexts.data(), s.annotation_count = annotationTexts.size();
    TegulaFunction *made = nullptr;
    if (!why.empty()) return nullptr;
    if (tegula_function_create(&context, &s, &made) != TEGULA_OK)
      return fail("`" + text(j, "function") + "`: " + tegula_last_error()), nullptr;
    Ref<TegulaFunction> f(made);
    release(made);
    functions.emplace(number, f); // it may refer to itself
    std::vector<Value> defaults;
    if (!list(member(j, "defaults"), defaults) || defaults.size() > f->fn->defaults.size())
      return fail("a function has other defaults than parameters"), nullptr;
    for (size_t i = 0; i < defaults.size(); ++i)
      if (!defaults[i].isError()) sema::setDefault(*f->mutableFn, i, defaults[i]);
    const json *names = member(j, "names");
    if (!names || !names->is_object()) return fail("a function has no names"), nullptr;
    for (auto it = names->begin(); it != names->end(); ++it) {
      Value v;
      const json *given = member(it.value(), "value");
      if (!given || !value(*given, v)) return fail("a name of a function has no value"), nullptr;
      sema::bindName(*f->mutableFn, it.key(), {v, flag(it.value(), "allowed"), {}});
    }
    return f.get();
  }

  bool spec(const json &j, ParamSpec &out) {
    constexpr unsigned deepest = 64;
    if (const json *v = member(j, "value")) {
      out = ParamSpec::constant(Value());
      return value(*v, out.value);
    }
    if (member(j, "type")) {
      std::optional<lang::Dtype> d = lang::parseDtype(text(j, "type"));
      int64_t divisibility = number(j, "divisibility");
      if (!d || d->isVoid() || divisibility < 1 || divisibility > 1 << 20) return fail("a specialization has no type");
      out = ParamSpec::runtime(*d, divisibility);
      out.sameAs =
          member(j, "same_as") ? static_cast<int32_t>(std::clamp<int64_t>(number(j, "same_as"), -1, INT32_MAX)) : -1;
      out.overlap =
          member(j, "overlap") ? static_cast<int32_t>(std::clamp<int64_t>(number(j, "overlap"), -1, INT32_MAX)) : 0;
      return true;
    }
    const json *items = member(j, "items");
    if (!items || !items->is_array() || depth > deepest) return fail("a specialization is of no kind");
    out.kind = ParamSpec::Kind::Tuple;
    ++depth;
    for (const json &item : *items)
      if (!spec(item, out.items.emplace_back())) return false;
    --depth;
    Value cls;
    if (const json *c = member(j, "class")) {
      if (!value(*c, cls) || !cls.is<ClassPtr>()) return fail("a tuple has no class");
      out.recordClass = cls.get<ClassPtr>();
    }
    return true;
  }
};

ClosureReader::ClosureReader(TegulaContext &context, const json &objects)
    : impl_(new Impl{context, objects, {}, {}, {}, 0}) {}
ClosureReader::~ClosureReader() = default;

bool ClosureReader::files(const std::string &number, std::map<std::string, std::string> &out, std::string &why) {
  const json *j = impl_->member(impl_->objects, number.c_str()), *files = j ? impl_->member(*j, "files") : nullptr;
  bool ok = files && files->is_object();
  for (auto it = ok ? files->begin() : json::const_iterator(); ok && it != files->end(); ++it)
    if (ok = it->is_string(); ok) out[it.key()] = it->get<std::string>();
  if (!ok) why = "there are no files `" + number + "`";
  return ok;
}

TegulaFunction *ClosureReader::function(const std::string &number, std::string &why) {
  impl_->why.clear();
  impl_->depth = 0;
  TegulaFunction *f = impl_->function(number);
  if (!impl_->why.empty()) return why = impl_->why, nullptr;
  return f;
}

bool ClosureReader::spec(const json &j, ParamSpec &out, std::string &why) {
  impl_->why.clear();
  impl_->depth = 0;
  if (impl_->spec(j, out)) return true;
  why = impl_->why;
  return false;
}

} // namespace tegula::api
