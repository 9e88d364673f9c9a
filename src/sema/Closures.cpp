// Functions in functions that run at compile time: `lambda`, and `def` in a body. They see the names of the function around them as they
// are when they are called.
#include "sema/Evaluator.h"

namespace tegula::sema {

using lang::Function;

namespace {

/// What a function in a function can be read from.
class ClosureScope final : public lang::Scope {
public:
  ClosureScope(std::shared_ptr<const LiveNames> names, std::shared_ptr<const Function> around) : names_(std::move(names)), around_(std::move(around)) {}
  std::optional<Binding> lookup(std::string_view name) const override {
    if (const Var *v = names_->env ? names_->env->find(name) : nullptr)
      return Binding{v->value};
    return around_->scope ? around_->scope->lookup(name) : std::nullopt;
  }

private:
  std::shared_ptr<const LiveNames> names_;
  std::shared_ptr<const Function> around_;
};

/// With the statement that a lambda is written as.
struct Closure : Function {
  Stmt own{};
  Stmt result{};
};

} // namespace

Value Evaluator::closure(std::string name, const Stmt *def, const Expr *lambda, Loc loc) {
  if (!frame_->names)
    frame_->names = std::make_shared<LiveNames>(LiveNames{&frame_->env});
  auto f = std::make_shared<Closure>();
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
  f->kind = Function::Kind::Plain;
  f->name = std::move(name);
  f->tree = frame_->fn->tree;
  f->def = def;
  f->scope = std::make_shared<ClosureScope>(frame_->names, frame_->fn);
  for (const syntax::Param &p : def->params)
    f->defaults.push_back(p.defaultValue ? eval(*p.defaultValue) : Value::error());
  return Value(std::shared_ptr<const Function>(std::move(f)));
}

} // namespace tegula::sema
