// The language one operation at a time: what a binding needs that runs the user's function itself (the interpreter of
// docs/host.md).
//
// An operation goes the compiler's way (binding of arguments, promotion, checks, library text), which gives a few
// operations of tile IR; these are evaluated at once (ir/Interp.h). So a tile has the type, the error and the bits that
// the language says, and there is no second table of functions. Tensors between operations are ir::GivenValues: they
// belong to no module.
#pragma once
#include "ir/Interp.h"
#include "sema/Sema.h"

namespace tegula::sema {

/// A value and the tiles that its tensors point to.
struct HeldValue {
  lang::Value value;
  std::vector<std::shared_ptr<const ir::GivenValue>> tiles;
};

class Evaluator;

/// One launch. Used by one thread at a time.
class Eager {
public:
  explicit Eager(Options options) : options_(std::move(options)) {}

  /// The program that operations belong to.
  std::array<int32_t, 3> pid = {0, 0, 0}, grid = {1, 1, 1};

  struct Buffer {
    std::string name; // of the argument, for messages
    ir::Interp::Buffer memory;
  };
  /// Memory that programs may touch. An address that no argument gave (made of an integer) ends the checks: it may be
  /// any memory.
  void addBuffer(Buffer b) { buffers_.push_back(std::move(b)); }
  void setUnchecked() { unchecked_ = true; }
  /// As Interp::onPrint, with signs as the operation says.
  std::function<void(const ir::Op &print, unsigned operand, const int32_t pid[3], const ir::Tile &value)> onPrint;
  /// Output of static_print.
  std::function<void(const std::string &text)> onStaticPrint;

  struct Argument {
    lang::Value value;
    std::string keyword; // empty: positional
  };
  struct Result {
    std::optional<HeldValue> held; // nullopt: refused (in `diag`) or failed (in `fault`)
    std::string fault;
  };
  /// The tensors among the arguments must be GivenValues, which the caller keeps alive during the call.
  Result call(const lang::Value &callee, std::span<const Argument> args, DiagEngine &diag);
  /// An operator or another form of the syntax by its name: + - * / // % ** << >> & | ^ @ == != < <= > >= and or, neg
  /// pos invert not, [] (operand, index), decay (what an assignment makes of a number), truth (what a condition makes
  /// of a tensor). nullopt: there is none of that name and arity.
  std::optional<Result> operate(std::string_view name, std::span<const lang::Value> operands, DiagEngine &diag);
  /// `object.name`; a method comes as BoundMethod.
  Result attribute(const lang::Value &object, std::string_view name, DiagEngine &diag);

  /// A run-time scalar of these bits.
  static HeldValue scalar(lang::Dtype dtype, uint64_t bits);

private:
  Result evaluate(const std::function<lang::Value(Evaluator &)> &emit, DiagEngine &diag);
  std::string describeFault(const ir::InterpResult &r) const;

  const Options options_;
  std::vector<Buffer> buffers_;
  bool unchecked_ = false;
};

} // namespace tegula::sema
