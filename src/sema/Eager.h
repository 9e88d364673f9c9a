// Evaluates the language one operation at a time, for a binding that runs the user's function itself (the interpreter
// of docs/host.md).
//
// An operation takes the compiler's path (binding of arguments, promotion, checks, library text), which builds a few
// operations of tile IR; ir/Interp.h evaluates these at once. So a tile has the type, the error and the bits that the
// language defines, without a second table of functions. Tensors between operations are ir::GivenValues: they belong to
// no module.
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

  /// The program that runs the operations.
  std::array<int32_t, 3> pid = {0, 0, 0}, grid = {1, 1, 1};

  struct Buffer {
    std::string name; // of the argument, for messages
    ir::Interp::Buffer memory;
  };
  /// Adds memory that programs may access. setUnchecked() ends the checks: an address that comes from no argument (made
  /// from an integer) may be any memory.
  void addBuffer(Buffer b) { buffers_.push_back(std::move(b)); }
  void setUnchecked() { unchecked_ = true; }
  /// As Interp::onPrint, with signs as in the operation.
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
  /// Applies an operator, or another form of the syntax, by its name: + - * / // % ** << >> & | ^ @ == != < <= > >= and
  /// or, neg pos invert not, [] (operand, index), decay (the conversion of a number in an assignment), truth (the
  /// conversion of a tensor in a condition). nullopt: there is none of that name and arity.
  std::optional<Result> operate(std::string_view name, std::span<const lang::Value> operands, DiagEngine &diag);
  /// `object.name`; a method is a BoundMethod.
  Result attribute(const lang::Value &object, std::string_view name, DiagEngine &diag);

  /// A run-time scalar with these bits.
  static HeldValue scalar(lang::Dtype dtype, uint64_t bits);

private:
  Result evaluate(const std::function<lang::Value(Evaluator &)> &emit, DiagEngine &diag);
  std::string describeFault(const ir::InterpResult &r) const;

  const Options options_;
  std::vector<Buffer> buffers_;
  bool unchecked_ = false;
};

} // namespace tegula::sema
