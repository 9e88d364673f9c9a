// The names of a file, and the functions made of its definitions.
#include "sema/FileScope.h"

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

/// Replaces every function in `v`, at any depth; false if nothing changes.
template <typename Replace> static bool replaceFunctions(Value &v, const Replace &replace) {
  using FunctionPtr = std::shared_ptr<const Function>;
  if (v.is<FunctionPtr>()) {
    FunctionPtr old = v.get<FunctionPtr>(), f = replace(old);
    v = Value(f);
    return f != old;
  }
  if (!v.isTuple() && !v.isRecord())
    return false;
  std::vector<Value> items = v.isTuple() ? v.items() : v.record().fields;
  bool changed = false;
  for (Value &item : items)
    changed |= replaceFunctions(item, replace);
  if (changed && v.isTuple())
    v = Value::tuple(std::move(items));
  else if (changed)
    v = Value(std::make_shared<const lang::RecordValue>(v.record().cls, std::move(items)));
  return changed;
}

Value FileScope::detached(Value v) const {
  replaceFunctions(v, [&](const FunctionPtr &f) -> FunctionPtr {
    if (!isOurs(f))
      return f;
    auto copy = std::make_shared<Function>(*f);
    copy->scope = std::shared_ptr<const Scope>(std::shared_ptr<const void>(), this);
    for (Value &d : copy->defaults)
      d = detached(d);
    return copy;
  });
  return v;
}

Value FileScope::attached(Value v) const {
  replaceFunctions(v, [&](const FunctionPtr &f) { return attached(f); });
  return v;
}

FileScope::FunctionPtr FileScope::attached(const FunctionPtr &f) const {
  if (!isOurs(f))
    return f;
  // One function for one definition, as long as somebody holds it.
  auto it = functions_.find(f->name);
  if (it != functions_.end() && it->second.def == f->def)
    return make(it->second);
  auto copy = std::make_shared<Function>(*f);
  copy->scope = shared_from_this();
  for (Value &d : copy->defaults)
    d = attached(d);
  return copy;
}

void FileScope::bind(std::string_view name, Binding b) {
  b.value = detached(b.value);
  functions_.erase(std::string(name));
  aliases_.erase(std::string(name));
  names_.insert_or_assign(std::string(name), std::move(b));
}

void FileScope::bindFunction(std::string_view name, const Stmt *def, Function::Kind kind, std::vector<Value> defaults) {
  names_.erase(std::string(name));
  aliases_.erase(std::string(name));
  Def d;
  d.def = def;
  d.kind = kind;
  for (Value &v : defaults)
    d.defaults.push_back(detached(v));
  functions_.insert_or_assign(std::string(name), std::move(d));
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
  auto it = functions_.find(name);
  if (it == functions_.end())
    return std::nullopt;
  // Plain functions are found too: calling one has a message of its own.
  return Binding{Value(make(it->second)), true, it->second.def->nameLoc};
}

} // namespace tegula::sema
