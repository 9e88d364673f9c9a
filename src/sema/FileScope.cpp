// The names of a file, and the functions made of its definitions.
#include "sema/FileScope.h"

namespace tegula::sema {

using lang::Function;
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

void FileScope::bind(std::string_view name, Binding b) {
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
  d.defaults = std::move(defaults);
  functions_.insert_or_assign(std::string(name), std::move(d));
}

std::optional<lang::Scope::Binding> FileScope::lookup(std::string_view name) const {
  auto a = aliases_.find(name);
  if (a != aliases_.end())
    return a->second == name ? std::nullopt : lookup(a->second);
  auto n = names_.find(name);
  if (n != names_.end())
    return n->second;
  auto it = functions_.find(name);
  if (it == functions_.end())
    return std::nullopt;
  const Def &d = it->second;
  std::lock_guard lock(mutex_);
  std::shared_ptr<const Function> f = d.made.lock();
  if (!f) {
    auto made = std::make_shared<Function>();
    made->kind = d.kind;
    made->name = std::string(d.def->name);
    made->tree = tree;
    made->def = d.def;
    made->scope = shared_from_this();
    made->defaults = d.defaults;
    applyDecorators(*made);
    f = made;
    d.made = f;
  }
  // Plain functions are found too: calling one has a message of its own.
  return Binding{Value(f), true, d.def->nameLoc};
}

} // namespace tegula::sema
