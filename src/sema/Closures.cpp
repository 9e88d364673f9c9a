// Nested functions that run at compile time: `lambda`, and `def` in a body, decorated or not. While the enclosing
// function runs, they read its names as they are at the call; afterwards, the values at its return.
#include "lang/Circle.h"
#include "sema/Evaluator.h"
#include "sema/FileScope.h"
#include <map>

namespace tegula::sema {

using lang::Function;

namespace {

/// The names that a nested function can read.
class ClosureScope final : public lang::Scope {
public:
  ClosureScope(std::shared_ptr<const LiveNames> names, std::shared_ptr<const Function> around)
      : names_(std::move(names)), around_(std::move(around)), file_(around_->scope) {
    if (!around_->captures)
      return;
    outer_ = std::static_pointer_cast<const ClosureScope>(around_->scope);
    file_ = outer_.lock()->file_;
  }
  std::optional<Binding> lookup(std::string_view name) const override {
    if (std::optional<Value> v = own(name))
      return Binding{*v};
    std::shared_ptr<const lang::Scope> file = file_.lock();
    return file ? file->lookup(name) : std::nullopt;
  }
  /// The enclosing function returns. `f` is the function that reads names here.
  void keepFor(const Function &f) {
    for (const std::string &name : freeNames(f))
      if (std::optional<Value> v = own(name); v && v->isConstexpr())
        kept_.emplace(name, lang::held(*f.node, *v));
    names_ = nullptr;
    around_ = nullptr; // a file may hold `f` and the enclosing function
  }

private:
  /// A name of the enclosing functions, not of their file.
  std::optional<Value> own(std::string_view name) const {
    if (const Var *v = names_ && names_->env ? names_->env->find(name) : nullptr)
      return v->value;
    if (auto it = kept_.find(name); it != kept_.end())
      return lang::attached(it->second);
    std::shared_ptr<const ClosureScope> outer = outer_.lock();
    return outer ? outer->own(name) : std::nullopt;
  }

  std::shared_ptr<const LiveNames> names_; // null once that function has returned, as is the next
  std::shared_ptr<const Function> around_;
  std::weak_ptr<const ClosureScope> outer_; // if that function is nested itself
  std::weak_ptr<const lang::Scope> file_;
  std::map<std::string, Value, std::less<>> kept_;
};

/// A function with the statement that represents a lambda.
struct Closure : Function {
  Stmt own{};
  Stmt result{};
};

} // namespace

void LiveNames::end() {
  for (const std::weak_ptr<Function> &reader : readers)
    if (std::shared_ptr<Function> f = reader.lock()) {
      // closure() made it as a non-const object
      static_cast<ClosureScope &>(const_cast<lang::Scope &>(*f->scope)).keepFor(*f);
      f->hashCache.clear(); // of names that may have changed
    }
  env = nullptr;
}

Value Evaluator::closure(std::string name, const Stmt *def, const Expr *lambda, Loc loc) {
  if (!frame_->names)
    frame_->names = std::make_shared<LiveNames>(LiveNames{&frame_->env});
  auto f = lang::makeNode<Closure>();
  if (lambda) {
    f->own.kind = StmtKind::FunctionDef;
    f->own.loc = f->own.headLoc = f->own.nameLoc = loc;
    f->own.params = lambda->params;
    f->result.kind = StmtKind::Return;
    f->result.loc = loc;
    f->result.value = lambda->operands[0];
    f->own.body.push_back(&f->result);
    def = &f->own;
  }
  f->captures = true;
  f->name = std::move(name);
  f->tree = frame_->fn->tree;
  f->def = def;
  f->scope = std::make_shared<ClosureScope>(frame_->names, frame_->fn);
  f->defaults.resize(def->params.size());
  for (size_t i = 0; i < def->params.size(); ++i)
    if (const Expr *e = def->params[i].defaultValue)
      setDefault(*f, i, eval(*e));
  bool isJit =
      std::any_of(def->decorators.begin(), def->decorators.end(), [](const Expr *d) { return lastName(d) == "jit"; });
  f->kind = isJit ? Function::Kind::Jit : Function::Kind::Plain;
  applyDecorators(*f);
  std::vector<std::weak_ptr<Function>> &readers = frame_->names->readers;
  if (readers.size() == readers.capacity()) // a loop may make many that expire together
    std::erase_if(readers, [](const std::weak_ptr<Function> &r) { return r.expired(); });
  readers.push_back(f);
  return Value(std::shared_ptr<const Function>(std::move(f)));
}

} // namespace tegula::sema
