// The names of a file, and the functions made of its definitions.
#include "sema/FileScope.h"
#include <algorithm>

namespace tegula::sema {

using lang::Function;
using lang::Value;
using syntax::Stmt;

const Stmt *FileScope::functionDef(std::string_view name) const {
  auto a = aliases_.find(name);
  auto it = functions_.find(a == aliases_.end() ? name : std::string_view(a->second));
  return it == functions_.end() ? nullptr : it->second.def;
}

void FileScope::setJit(std::string_view name) {
  auto it = functions_.find(name);
  if (it != functions_.end())
    it->second.kind = Function::Kind::Jit;
}

bool FileScope::isClass(std::string_view name) const {
  auto a = aliases_.find(name);
  return classes_.contains(a == aliases_.end() ? name : std::string_view(a->second));
}

using ClassPtr = std::shared_ptr<const lang::RecordClass>;

/// Replaces every function and class of aggregates in `v`, at any depth; false if nothing changes.
template <typename Replace> static bool replaceFunctions(Value &v, const Replace &replace) {
  using FunctionPtr = std::shared_ptr<const Function>;
  auto exchange = [&](const auto &old) {
    auto now = replace(old);
    bool changed = now != old;
    v = Value(std::move(now));
    return changed;
  };
  if (v.is<FunctionPtr>())
    return exchange(FunctionPtr(v.get<FunctionPtr>()));
  if (v.is<ClassPtr>() && v.get<ClassPtr>()->aggregate)
    return exchange(ClassPtr(v.get<ClassPtr>()));
  if (!v.isTuple() && !v.isRecord())
    return false;
  std::vector<Value> items = v.isTuple() ? v.items() : v.record().fields;
  ClassPtr cls = v.isTuple() ? nullptr : v.record().cls;
  bool changed = false;
  for (Value &item : items)
    changed |= replaceFunctions(item, replace);
  if (cls && cls->aggregate) {
    ClassPtr now = replace(cls);
    changed |= now != cls;
    cls = std::move(now);
  }
  if (changed && v.isTuple())
    v = Value::tuple(std::move(items));
  else if (changed)
    v = Value(std::make_shared<const lang::RecordValue>(std::move(cls), std::move(items)));
  return changed;
}

namespace {

/// One function object with overloads for functions and classes.
template <typename... F> struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F> Overloaded(F...) -> Overloaded<F...>;

} // namespace

Value FileScope::detached(Value v) const {
  auto function = [&](const FunctionPtr &f) -> FunctionPtr {
    if (!isOurs(f))
      return f;
    auto copy = std::make_shared<Function>(*f);
    copy->scope = std::shared_ptr<const Scope>(std::shared_ptr<const void>(), this);
    for (Value &d : copy->defaults)
      d = detached(d);
    return copy;
  };
  auto cls = [&](const ClassPtr &c) -> ClassPtr {
    bool isOurClass = std::any_of(classes_.begin(), classes_.end(),
                                  [&](const auto &d) { return d.second.def == c->aggregate->definition; });
    if (!isOurClass || c->aggregate->detached)
      return c;
    auto copy = std::make_shared<lang::RecordClass>();
    copy->kind = c->kind;
    copy->name = c->name;
    copy->fields = c->fields;
    copy->aggregate = std::make_shared<lang::Aggregate>();
    copy->aggregate->definition = c->aggregate->definition;
    copy->aggregate->detached = true;
    return copy;
  };
  replaceFunctions(v, Overloaded{function, cls});
  return v;
}

Value FileScope::attached(Value v) const {
  replaceFunctions(v, [&](const auto &x) { return attached(x); });
  return v;
}

FileScope::FunctionPtr FileScope::attached(const FunctionPtr &f) const {
  if (!isOurs(f))
    return f;
  // One function object per definition while there is a reference to it.
  auto it = functions_.find(f->name);
  if (it != functions_.end() && it->second.def == f->def)
    return make(it->second);
  auto copy = std::make_shared<Function>(*f);
  copy->scope = shared_from_this();
  for (Value &d : copy->defaults)
    d = attached(d);
  return copy;
}

FileScope::ClassPtr FileScope::attached(const ClassPtr &c) const {
  if (!c->aggregate->detached)
    return c;
  for (const auto &[name, d] : classes_)
    if (d.def == c->aggregate->definition)
      if (ClassPtr made = makeClass(d))
        return made;
  return c;
}

void FileScope::bind(std::string_view name, Binding b) {
  b.value = detached(b.value);
  functions_.erase(std::string(name));
  classes_.erase(std::string(name));
  aliases_.erase(std::string(name));
  names_.insert_or_assign(std::string(name), std::move(b));
}

void FileScope::bindFunction(std::string_view name, const Stmt *def, Function::Kind kind, std::vector<Value> defaults) {
  names_.erase(std::string(name));
  aliases_.erase(std::string(name));
  classes_.erase(std::string(name));
  Def d;
  d.def = def;
  d.kind = kind;
  for (Value &v : defaults)
    d.defaults.push_back(detached(v));
  functions_.insert_or_assign(std::string(name), std::move(d));
}

void FileScope::bindClass(std::string_view name, ClassDef c) {
  names_.erase(std::string(name));
  aliases_.erase(std::string(name));
  functions_.erase(std::string(name));
  for (Value &d : c.defaults)
    d = detached(d);
  for (MethodDef &m : c.methods)
    for (Value &d : m.defaults)
      d = detached(d);
  for (auto &[constant, v] : c.constants)
    v = detached(v);
  classes_.insert_or_assign(std::string(name), std::move(c));
}

/// The value that an annotation or a base names: a (dotted) name, in quotes or not. Error if it is unknown.
Value FileScope::typeOf(const syntax::Expr &e) const {
  if (e.kind == syntax::ExprKind::Str) {
    std::optional<Value> v;
    std::string_view rest = e.text;
    for (bool first = true; first || !rest.empty(); first = false) {
      std::string_view word = rest.substr(0, rest.find('.'));
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
      std::optional<Binding> b = first ? lookup(word) : std::nullopt;
      if (first)
        v = b ? std::optional(b->value) : std::nullopt;
      else
        v = v && v->is<std::shared_ptr<const lang::Module>>()
                ? v->get<std::shared_ptr<const lang::Module>>()->attribute(word)
                : std::nullopt;
      if (!v)
        return Value::error();
    }
    return *v;
  }
  if (e.kind == syntax::ExprKind::Name) {
    std::optional<Binding> b = lookup(e.name);
    return b ? b->value : Value::error();
  }
  if (e.kind != syntax::ExprKind::Attribute)
    return Value::error();
  Value object = typeOf(*e.operands[0]);
  if (!object.is<std::shared_ptr<const lang::Module>>())
    return Value::error();
  return object.get<std::shared_ptr<const lang::Module>>()->attribute(e.name).value_or(Value::error());
}

/// Bases and their fields: all ancestors, each once and after those that derive from it.
void FileScope::addBases(const ClassDef &d, lang::RecordClass &cls) const {
  lang::Aggregate &a = *cls.aggregate;
  for (const syntax::Expr *e : d.bases) {
    Value v = typeOf(*e);
    if (!v.is<ClassPtr>() || !v.get<ClassPtr>()->aggregate) {
      a.badBase = a.badBase.empty() ? std::string(e->loc.text()) : a.badBase;
      continue;
    }
    ClassPtr base = v.get<ClassPtr>();
    std::vector<ClassPtr> chain = base->aggregate->bases;
    chain.insert(chain.begin(), base);
    for (const ClassPtr &c : chain) {
      std::erase_if(a.bases, [&](const ClassPtr &have) { return lang::isSameClass(*have, *c); });
      a.bases.push_back(c);
    }
  }
  for (size_t i = a.bases.size(); i-- > 0;)
    for (size_t f = 0; f < a.bases[i]->fields.size(); ++f)
      if (std::find(cls.fields.begin(), cls.fields.end(), a.bases[i]->fields[f]) == cls.fields.end()) {
        cls.fields.push_back(a.bases[i]->fields[f]);
        a.types.push_back(a.bases[i]->aggregate->types[f]);
        cls.defaults.push_back(a.bases[i]->defaults[f]);
      }
}

ClassPtr FileScope::makeClass(const ClassDef &d) const {
  if (ClassPtr c = d.made.lock())
    return c;
  if (d.isBeingMade)
    return nullptr;
  d.isBeingMade = true;
  auto made = std::make_shared<lang::RecordClass>();
  made->kind = lang::RecordClass::Kind::Aggregate;
  made->name = std::string(d.def->name);
  made->aggregate = std::make_shared<lang::Aggregate>();
  lang::Aggregate &a = *made->aggregate;
  a.definition = d.def;
  addBases(d, *made);
  for (size_t i = 0; i < d.fields.size(); ++i) {
    auto &[name, annotation] = d.fields[i];
    Value type = typeOf(*annotation), otherwise = attached(d.defaults[i]);
    auto it = std::find(made->fields.begin(), made->fields.end(), name);
    if (it != made->fields.end()) {
      a.types[static_cast<size_t>(it - made->fields.begin())] = type;
      made->defaults[static_cast<size_t>(it - made->fields.begin())] = otherwise;
      continue;
    }
    made->fields.push_back(name);
    a.types.push_back(type);
    made->defaults.push_back(otherwise);
  }
  d.made = made;
  d.isBeingMade = false;
  for (const MethodDef &m : d.methods) {
    auto f = std::make_shared<Function>();
    f->name = std::string(m.def->name);
    f->tree = tree;
    f->def = m.def;
    f->scope = shared_from_this();
    for (const Value &v : m.defaults)
      f->defaults.push_back(attached(v));
    applyDecorators(*f);
    f->kind = m.kind;
    a.members.push_back({f->name, Value(std::shared_ptr<const Function>(f)), m.role});
  }
  for (const auto &[name, v] : d.constants)
    a.members.push_back({name, attached(v), lang::Aggregate::Member::Role::Plain});
  return made;
}

FileScope::FunctionPtr FileScope::make(const Def &d) const {
  if (FunctionPtr f = d.made.lock())
    return f;
  auto made = std::make_shared<Function>();
  made->kind = d.kind;
  made->name = std::string(d.def->name);
  made->tree = tree;
  made->def = d.def;
  made->scope = shared_from_this();
  for (const Value &v : d.defaults)
    made->defaults.push_back(attached(v));
  applyDecorators(*made);
  d.made = made;
  return made;
}

std::optional<lang::Scope::Binding> FileScope::lookup(std::string_view name) const {
  auto a = aliases_.find(name);
  if (a != aliases_.end())
    return a->second == name ? std::nullopt : lookup(a->second);
  std::lock_guard lock(mutex_);
  auto n = names_.find(name);
  if (n != names_.end())
    return Binding{attached(n->second.value), n->second.allowed, n->second.declared};
  if (auto c = classes_.find(name); c != classes_.end()) {
    ClassPtr made = makeClass(c->second);
    return made ? std::optional(Binding{Value(made), true, c->second.def->nameLoc}) : std::nullopt;
  }
  auto it = functions_.find(name);
  if (it == functions_.end())
    return std::nullopt;
  // Plain functions are found, too: a call of one has its own message.
  return Binding{Value(make(it->second)), true, it->second.def->nameLoc};
}

} // namespace tegula::sema
