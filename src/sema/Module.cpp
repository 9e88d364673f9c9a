// Functions: properties of their definitions, free names, content hashes.
#include "sema/Module.h"
#include "sema/Diagnostics.h"
#include "sema/FileScope.h"
#include "sema/Syntactic.h"
#include "support/Hash.h"
#include "syntax/Parser.h"
#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>

namespace tegula::lang {

using syntax::Expr;
using syntax::ExprKind;
using syntax::Stmt;

bool Function::isConstexprParam(size_t i) const {
  if (!annotations.empty())
    return i < annotations.size() && annotations[i] == "constexpr";
  return i < def->params.size() && sema::isConstexprAnnotation(def->params[i].annotation);
}

std::optional<Dtype> Function::annotatedDtype(size_t i) const {
  if (!annotations.empty())
    return i < annotations.size() ? parseDtype(annotations[i]) : std::nullopt;
  const Expr *a = i < def->params.size() ? def->params[i].annotation : nullptr;
  if (!a)
    return std::nullopt;
  return a->kind == ExprKind::Str ? parseDtype(a->text) : parseDtype(sema::lastName(a));
}

bool Function::isConstParam(size_t i) const {
  if (!annotations.empty())
    return i < annotations.size() && annotations[i] == "const";
  const Expr *a = i < def->params.size() ? def->params[i].annotation : nullptr;
  return a && a->kind != ExprKind::Str && sema::lastName(a) == "const";
}

std::optional<Value> Module::attribute(std::string_view attr) const {
  std::optional<Scope::Binding> b = scope->lookup(attr);
  return b ? std::optional(b->value) : std::nullopt;
}

std::string nameOf(const Function &f) { return f.name; }
std::string keyOf(const Function &f) { return f.contentHash(); }
std::string nameOf(const Module &m) { return m.name; }
Node *nodeOf(const Function &f) { return f.node; }
Node *nodeOf(const Module &m) { return m.node; }

Value Function::defaultOf(size_t i) const { return attached(defaults[i]); }

namespace {

/// Hashes a function and what it reaches. Functions and modules are numbered in the order in which they are reached.
/// Each is hashed once, by its content, which refers to others by number, so the work is linear in what is reached,
/// however often.
class ContentHasher {
public:
  /// `places`: are files and lines hashed?
  explicit ContentHasher(bool places = true) : places_(places) {}
  std::string hash(const Function &f) {
    functionNumbers_.emplace(identity(f), 0);
    function(f);
    return rest();
  }
  std::string hash(const RecordClass &c) {
    classNumbers_.emplace(c.aggregate.get(), 0);
    aggregate(c);
    return rest();
  }

private:
  std::string rest() {
    for (size_t done = 0; done < met_.size(); ++done) {
      const Value v = met_[done];
      if (v.is<FunctionPtr>())
        function(*v.get<FunctionPtr>());
      else if (v.is<ClassPtr>())
        aggregate(*v.get<ClassPtr>());
      else
        module(*v.get<ModulePtr>());
    }
    return h_.hex();
  }

  static const void *identity(const Function &f) { return f.captures ? static_cast<const void *>(&f) : f.def; }

  using FunctionPtr = std::shared_ptr<const Function>;
  using ClassPtr = std::shared_ptr<const RecordClass>;
  using ModulePtr = std::shared_ptr<const Module>;

  void function(const Function &f) {
    std::string_view source = f.def->loc.text();
    // A file may continue after the last line; a separate text ends there.
    source = source.substr(0, source.find_last_not_of(" \t\n\r") + 1);
    h_.field(f.name).field(source);
    if (places_)
      place(f.def->loc);
    h_.field(static_cast<uint64_t>(f.kind)).field(uint64_t{f.noinline_} | uint64_t{f.exact} << 1);
    for (const Value &d : f.defaults)
      h_.field(text(d));
    // The meaning of annotations: a binding evaluates them, a file has their text.
    for (size_t i = 0; i < f.def->params.size(); ++i) {
      const std::optional<Dtype> d = f.annotatedDtype(i);
      h_.field(uint64_t{f.isConstexprParam(i)} | uint64_t{f.isConstParam(i)} << 1).field(d ? code(*d) : std::string());
    }
    for (const std::string &name : sema::freeNames(f)) {
      std::optional<Scope::Binding> b = f.scope ? f.scope->lookup(name) : std::nullopt;
      h_.field(name).field(b ? text(b->value) : "?");
    }
    attributes(f);
  }

  void place(Loc l) {
    h_.field(l.file->name()).field(l.file->lineCol(l.begin).line);
    for (const Origin &o : l.file->origins())
      h_.field(uint64_t{o.begin} << 32 | o.end)
          .field(o.file->name())
          .field(o.file->lineCol(o.at).line)
          .field(o.file->lineCol(o.at).col);
  }

  void attributes(const Function &f) {
    for (const sema::BoundAttribute &a : sema::boundAttributes(f))
      h_.field(a.name).field(text(a.value));
  }

  void aggregate(const RecordClass &c) {
    const Aggregate &a = *c.aggregate;
    h_.field(c.name).field(uint64_t{c.fields.size()});
    for (size_t i = 0; i < c.fields.size(); ++i)
      h_.field(c.fields[i]).field(text(a.types[i])).field(text(c.defaults[i]));
    for (const Aggregate::Member &m : a.members)
      h_.field(m.name).field(static_cast<uint64_t>(m.role)).field(text(m.value));
    for (const ClassPtr &b : a.bases)
      h_.field(text(Value(b)));
  }

  /// A module is hashed by its whole text and that of the modules it reaches: any of its names may be used.
  void module(const Module &m) {
    h_.field(m.name).field(m.tree->file().text());
    for (std::string_view n : sema::assignedNames(m.tree->body)) {
      std::optional<Value> v = m.attribute(n);
      if (v && (v->is<ModulePtr>() || v->is<FunctionPtr>() || v->is<ClassPtr>()))
        h_.field(text(*v));
    }
  }

  std::string text(const Value &v) {
    if (v.is<FunctionPtr>())
      return "F" + number(functionNumbers_, identity(*v.get<FunctionPtr>()), v);
    if (v.is<ModulePtr>()) {
      const Module &m = *v.get<ModulePtr>();
      if (m.tree)
        return "M" + number(moduleNumbers_, m.tree.get(), v);
      // One module under two names.
      constexpr std::string_view ours = "tegula", theirs = "triton";
      return m.name.starts_with(ours) ? std::string(theirs) + m.name.substr(ours.size()) : m.name;
    }
    if (v.is<ClassPtr>() && v.get<ClassPtr>()->aggregate)
      return "C" + number(classNumbers_, v.get<ClassPtr>()->aggregate.get(), v);
    // Containers of values are hashed by their texts: a function in one may reach the container.
    if (v.isRecord())
      return text(Value(v.record().cls)) + texts(v.record().fields);
    if (v.isTuple())
      return texts(v.items());
    if (v.is<std::shared_ptr<const SliceValue>>())
      return "slice" + texts(v.get<std::shared_ptr<const SliceValue>>()->parts);
    if (v.is<std::shared_ptr<const BoundMethod>>())
      return "method" + texts({*v.get<std::shared_ptr<const BoundMethod>>()->self,
                               *v.get<std::shared_ptr<const BoundMethod>>()->callee});
    if (v.is<std::shared_ptr<const RangeValue>>()) {
      const RangeValue &r = *v.get<std::shared_ptr<const RangeValue>>();
      std::string s = "range" + std::to_string(static_cast<int>(r.kind)) + texts(r.args);
      for (const auto &[name, option] : r.options)
        s += name + "=" + text(option) + ",";
      return s;
    }
    return v.isConstexpr() ? key(v) : std::string("?");
  }

  std::string texts(const std::vector<Value> &items) {
    std::string s = "(";
    for (const Value &i : items)
      s += text(i) + ",";
    return s + ")";
  }

  /// The number of a function or module; assigns one to a new one.
  template <typename Key>
  std::string number(std::unordered_map<const Key *, size_t> &numbers, const Key *k, const Value &v) {
    auto [it, isNew] = numbers.emplace(k, numbers.size());
    if (isNew)
      met_.push_back(v);
    return std::to_string(it->second);
  }

  const bool places_;
  Hasher h_;
  std::unordered_map<const void *, size_t> functionNumbers_; // by definition; nested functions each by itself
  std::unordered_map<const syntax::Tree *, size_t> moduleNumbers_;
  std::unordered_map<const Aggregate *, size_t> classNumbers_;
  std::vector<Value> met_; // keeps them alive
};

std::mutex &hashMutex() {
  static std::mutex m;
  return m;
}

} // namespace

/// The content of `cache`, which the first call computes by `compute`. Two threads may compute it; both results are
/// equal.
static const std::string &hashOnce(std::string &cache, const std::function<std::string()> &compute) {
  {
    std::lock_guard lock(hashMutex());
    if (!cache.empty())
      return cache;
  }
  std::string h = compute();
  std::lock_guard lock(hashMutex());
  if (cache.empty())
    cache = std::move(h);
  return cache;
}

const std::string &Function::contentHash() const {
  return hashOnce(hashCache, [&] { return ContentHasher().hash(*this); });
}

std::string Function::sourceHash() const { return ContentHasher(false).hash(*this); }

std::string keyOf(const RecordClass &c) {
  return hashOnce(c.aggregate->hashCache, [&] { return ContentHasher().hash(c); });
}

} // namespace tegula::lang

namespace tegula::sema {

namespace {
/// The names of one function of a binding; its node stores them.
class BoundScope final : public lang::Scope {
public:
  std::map<std::string, Binding, std::less<>> names;
  std::optional<Binding> lookup(std::string_view name) const override {
    auto it = names.find(name);
    if (it == names.end())
      return std::nullopt;
    return Binding{lang::attached(it->second.value), it->second.allowed, it->second.declared};
  }
};
} // namespace

void bindName(lang::Function &f, std::string name, lang::Scope::Binding b) {
  b.value = lang::held(*f.node, b.value);
  auto &scope = static_cast<const BoundScope &>(*f.scope);
  // createFunction made it as a non-const object
  const_cast<BoundScope &>(scope).names.insert_or_assign(std::move(name), std::move(b));
}

std::vector<BoundAttribute> boundAttributes(const lang::Function &f) {
  using lang::Value;
  using ModulePtr = std::shared_ptr<const lang::Module>;
  std::vector<std::string> names = freeNames(f);
  std::vector<BoundAttribute> found;
  auto boundModule = [](const Value &v) -> ModulePtr {
    if (!v.is<ModulePtr>())
      return nullptr;
    ModulePtr m = v.get<ModulePtr>();
    return !m->tree && !builtinModule(m->name) ? m : nullptr;
  };
  auto valueOf = [&](auto &&self, const syntax::Expr &e) -> std::optional<Value> {
    if (e.kind == syntax::ExprKind::Name) {
      bool isFree = f.scope && std::find(names.begin(), names.end(), e.name) != names.end();
      std::optional<lang::Scope::Binding> b = isFree ? f.scope->lookup(e.name) : std::nullopt;
      return b ? std::optional(b->value) : std::nullopt;
    }
    if (e.kind != syntax::ExprKind::Attribute)
      return std::nullopt;
    std::optional<Value> object = self(self, *e.operands[0]);
    ModulePtr m = object ? boundModule(*object) : nullptr;
    return m ? m->attribute(e.name) : std::nullopt;
  };
  auto visit = [&](const syntax::Expr &e) {
    if (e.kind != syntax::ExprKind::Attribute)
      return;
    std::optional<Value> object = valueOf(valueOf, *e.operands[0]);
    ModulePtr m = object ? boundModule(*object) : nullptr;
    if (std::optional<Value> v = m ? m->attribute(e.name) : std::nullopt)
      found.push_back({m, std::string(e.name), *v});
  };
  walk(f.def->body, [&](const syntax::Stmt &s) {
    for (const syntax::Expr *e : expressionsOf(s))
      walk(*e, visit);
  });
  return found;
}

void setDefault(lang::Function &f, size_t parameter, const lang::Value &v) {
  f.defaults[parameter] = lang::held(*f.node, v);
}

std::vector<std::string> freeNames(const lang::Function &f) {
  NameSet local, found;
  for (const syntax::Param &p : f.def->params)
    local.insert(p.name);
  if (f.kind != lang::Function::Kind::Jit) // Python's: a name is local in the whole function
    for (std::string_view n : assignedNames(f.def->body))
      local.insert(n);
  auto visit = [&](const syntax::Expr &e) {
    if (e.kind == syntax::ExprKind::Name && !local.contains(e.name))
      found.insert(e.name);
  };
  // In the order of the text: before a kernel assigns a name, it is the global one.
  walk(f.def->body, [&](const syntax::Stmt &s) {
    for (const syntax::Expr *e : expressionsOf(s))
      addAssigned(*e, local);
    for (const syntax::Expr *e : readBy(s))
      walk(*e, visit);
    addAssigned(s, local);
  });
  return {found.begin(), found.end()};
}

void applyDecorators(lang::Function &f) {
  for (const syntax::Expr *d : f.def->decorators) {
    std::string_view name = lastName(d);
    if (name == "constexpr_function" || name == "constexpr")
      f.kind = lang::Function::Kind::Constexpr;
    if (name == "builtin" || name == "extern")
      f.kind = lang::Function::Kind::Builtin;
    if (name == "must_use_result") {
      f.mustUse = true;
      if (d->kind == syntax::ExprKind::Call && d->operands.size() > 1 && d->operands[1]->kind == syntax::ExprKind::Str)
        f.mustUseHint = d->operands[1]->text;
    }
    if (name != "jit" || d->kind != syntax::ExprKind::Call)
      continue;
    for (const syntax::Keyword &k : d->keywords) {
      if (k.name == "noinline")
        f.noinline_ = k.value->kind == syntax::ExprKind::True;
      if (k.name == "exact")
        f.exact = k.value->kind == syntax::ExprKind::True;
      auto *list = k.name == "do_not_specialize"                ? &f.doNotSpecialize
                   : k.name == "do_not_specialize_on_alignment" ? &f.doNotSpecializeOnAlignment
                                                                : nullptr;
      if (!list)
        continue;
      for (const syntax::Expr *item : k.value->operands) {
        if (item->kind == syntax::ExprKind::Str)
          list->push_back(item->text);
        else if (item->kind == syntax::ExprKind::Int) {
          size_t i = std::strtoul(item->text.c_str(), nullptr, 10);
          if (i < f.def->params.size())
            list->push_back(std::string(f.def->params[i].name));
        }
      }
    }
  }
}

std::shared_ptr<lang::Function> createFunction(std::string fileName, std::string text, uint32_t firstLine,
                                               DiagEngine &diag) {
  auto file = std::make_shared<const SourceFile>(std::move(fileName), std::move(text), firstLine);
  diag.keep(file);
  unsigned before = diag.errorCount();
  std::shared_ptr<const syntax::Tree> tree = syntax::parse(file, diag);
  if (diag.errorCount() != before)
    return nullptr;
  for (const syntax::Stmt *s : tree->body)
    if (s->kind == syntax::StmtKind::FunctionDef) {
      std::shared_ptr<lang::Function> f = lang::makeNode<lang::Function>();
      f->name = std::string(s->name);
      f->tree = tree;
      f->def = s;
      f->scope = std::make_shared<BoundScope>();
      f->defaults.resize(s->params.size());
      applyDecorators(*f);
      return f;
    }
  diag.report(sema::diag::noDefinition, tree->body.empty() ? Loc{file.get(), 0, 0} : tree->body.front()->loc);
  return nullptr;
}

} // namespace tegula::sema
