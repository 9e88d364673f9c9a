// Functions in functions that run at compile time: `lambda`, and `def` in a body, decorated or not. As long as that function runs they see
// its names as they are when they are called; then those as it left them.
#include "lang/Circle.h"
#include "sema/Evaluator.h"
#include "sema/FileScope.h"
#include <map>

namespace tegula::sema {

using lang::Function;

namespace {

/// What a function in a function can be read from.
class ClosureScope final : public lang::Scope {
public:
  ClosureScope(std::shared_ptr<const LiveNames> names, std::shared_ptr<const Function> around) : names_(std::move(names)), around_(std::move(around)) {}
  std::optional<Binding> lookup(std::string_view name) const override {
    if (const Var *v = names_ && names_->env ? names_->env->find(name) : nullptr)
      return Binding{v->value};
    if (auto it = kept_.find(name); it != kept_.end())
      return Binding{lang::attached(it->second)};
    return around_->scope ? around_->scope->lookup(name) : std::nullopt;
  }
  /// The function around it returns. `f` is the function that reads names here.
  void keepFor(const Function &f) {
    for (const std::string &name : freeNames(f))
      if (const Var *v = names_->env->find(name); v && v->value.isConstexpr())
        kept_.emplace(name, lang::held(*f.node, v->value));
    names_ = nullptr;
  }

private:
  std::shared_ptr<const LiveNames> names_; // null once that function has returned
  std::shared_ptr<const Function> around_;
  std::map<std::string, Value, std::less<>> kept_;
};

/// With the statement that a lambda is written as.
struct Closure : Function {
  Stmt own{};
  Stmt result{};
};

} // namespace

void LiveNames::end() {
  for (const std::weak_ptr<Function> &reader : readers)
    if (std::shared_ptr<Function> f = reader.lock()) {
      static_cast<ClosureScope &>(const_cast<lang::Scope &>(*f->scope)).keepFor(*f); // closure() made it, as no const object
      f->hashCache.clear(); // of names that may have changed since
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
  bool isJit = std::any_of(def->decorators.begin(), def->decorators.end(), [](const Expr *d) { return lastName(d) == "jit"; });
  f->kind = isJit ? Function::Kind::Jit : Function::Kind::Plain;
  applyDecorators(*f);
  std::vector<std::weak_ptr<Function>> &readers = frame_->names->readers;
  if (readers.size() == readers.capacity()) // a loop may make many that end at once
    std::erase_if(readers, [](const std::weak_ptr<Function> &r) { return r.expired(); });
  readers.push_back(f);
  return Value(std::shared_ptr<const Function>(std::move(f)));
}

} // namespace tegula::sema
