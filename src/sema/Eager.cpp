// Emits an operation into a function of its own and evaluates it immediately; see Eager.h.
#include "sema/Eager.h"
#include "ir/ExpandAsm.h"
#include "sema/Evaluator.h"

namespace tegula::sema {

using ir::GivenValue;
using lang::Value;

namespace {

bool isGiven(const ir::Value *v) { return !v->def && !v->block; }

std::shared_ptr<const GivenValue> given(const ir::Type &type, ir::Tile tile) {
  auto g = std::make_shared<GivenValue>();
  g->type = type;
  g->tile = std::move(tile);
  return g;
}

/// Does the code make addresses that come from no argument?
bool makesAddresses(const ir::Block &b) {
  for (const ir::Op *op : b.ops) {
    if (op->kind == ir::OpKind::IntToPtr)
      return true;
    for (const ir::Region *r : op->regions)
      if (makesAddresses(*r->block))
        return true;
  }
  return false;
}

struct Binary {
  const char *name;
  Value (*apply)(lang::Context &c, const Value &a, const Value &b);
};
template <lang::BinOp Op> Value binary(lang::Context &c, const Value &a, const Value &b) {
  return lang::binary(c, Op, a, b, {}, {}, {});
}
template <lang::Cmp Op> Value compare(lang::Context &c, const Value &a, const Value &b) {
  return lang::compare(c, Op, a, b, {}, {}, {});
}
template <bool IsAnd> Value logical(lang::Context &c, const Value &a, const Value &b) {
  return lang::logicalAndOr(c, IsAnd, a, b, {});
}
Value subscript(lang::Context &c, const Value &a, const Value &b) { return lang::subscript(c, a, b, {}); }

using lang::BinOp;
using lang::Cmp;
constexpr Binary binaries[] = {{"+", binary<BinOp::Add>},       {"-", binary<BinOp::Sub>},
                               {"*", binary<BinOp::Mul>},       {"/", binary<BinOp::Div>},
                               {"//", binary<BinOp::FloorDiv>}, {"%", binary<BinOp::Mod>},
                               {"**", binary<BinOp::Pow>},      {"<<", binary<BinOp::LShift>},
                               {">>", binary<BinOp::RShift>},   {"&", binary<BinOp::And>},
                               {"|", binary<BinOp::Or>},        {"^", binary<BinOp::Xor>},
                               {"@", binary<BinOp::MatMul>},    {"==", compare<Cmp::Eq>},
                               {"!=", compare<Cmp::Ne>},        {"<", compare<Cmp::Lt>},
                               {"<=", compare<Cmp::Le>},        {">", compare<Cmp::Gt>},
                               {">=", compare<Cmp::Ge>},        {"and", logical<true>},
                               {"or", logical<false>},          {"[]", subscript}};

struct Unary {
  const char *name;
  Value (*apply)(lang::Context &c, const Value &a, Loc loc);
};
constexpr Unary unaries[] = {{"neg", lang::negate}, {"pos", lang::plus},       {"invert", lang::invert},
                             {"not", lang::logicalNot}, {"decay", lang::toTensor}, {"truth", lang::truth}};

} // namespace

HeldValue Eager::scalar(lang::Dtype dtype, uint64_t bits) {
  auto g = given(lang::irType(dtype), {bits});
  return {Value::tensor(dtype, const_cast<GivenValue *>(g.get())), {g}};
}

std::string Eager::describeFault(const ir::InterpResult &r) const {
  std::string text = "program (" + std::to_string(pid[0]) + ", " + std::to_string(pid[1]) + ", " +
                     std::to_string(pid[2]) + "): " + r.fault;
  // The buffer nearest to the address is most likely the intended one.
  const Buffer *nearest = nullptr;
  auto distance = [&](const Buffer &b) {
    return r.address < b.memory.begin ? b.memory.begin - r.address
                                      : r.address - std::min<uint64_t>(r.address, b.memory.begin + b.memory.bytes);
  };
  for (const Buffer &b : buffers_)
    if (r.address && (!nearest || distance(b) < distance(*nearest)))
      nearest = &b;
  if (nearest)
    text += "; the nearest is `" + nearest->name + "`, " + std::to_string(nearest->memory.bytes) +
            " bytes, and this is at byte " + std::to_string(static_cast<int64_t>(r.address - nearest->memory.begin)) +
            " of it";
  return text;
}

Eager::Result Eager::evaluate(const std::function<Value(Evaluator &)> &emit, DiagEngine &diag) {
  ir::Module module;
  ir::Function *f = module.createFunction("eager", {}, {}, {});
  ir::Builder builder(module);
  builder.setBlock(f->block());
  DiagEngine local;
  Evaluator evaluator(builder, local, options_);
  Frame frame;
  FrameScope scope(evaluator, frame);
  Value value = emit(evaluator);
  std::vector<ir::Value *> wanted;
  if (!local.hasErrors() && !value.isError()) {
    for (const lang::Tensor &t : flatten(value))
      wanted.push_back(t.value);
    ir::expandAsm(module, {"the interpreter", false}, local, wanted);
  }
  for (const Diagnostic &d : local.all())
    diag.emit(atUsersLine(d));
  if (onStaticPrint && !evaluator.output().empty())
    onStaticPrint(evaluator.output());
  if (local.hasErrors() || value.isError())
    return {};
  std::vector<ir::Tile> tiles;
  if (f->block()->ops.empty()) {
    for (const ir::Value *v : wanted)
      tiles.push_back(static_cast<const GivenValue *>(v)->tile);
  } else {
    unchecked_ |= makesAddresses(*f->block());
    ir::Interp in(module);
    in.checksAccesses = !unchecked_;
    std::vector<ir::Interp::Buffer> memory;
    for (const Buffer &b : buffers_)
      memory.push_back(b.memory);
    in.setBuffers(std::move(memory));
    in.onPrint = onPrint;
    ir::InterpResult r = in.evaluate(*f->block(), pid, grid, wanted, tiles);
    if (!r.ok)
      return {std::nullopt, describeFault(r)};
  }
  Result out{HeldValue{}, {}};
  for (size_t i = 0; i < wanted.size(); ++i) {
    out.held->tiles.push_back(isGiven(wanted[i]) ? static_cast<const GivenValue *>(wanted[i])->shared_from_this()
                                                 : given(wanted[i]->type, std::move(tiles[i])));
    wanted[i] = const_cast<GivenValue *>(out.held->tiles.back().get());
  }
  out.held->value = rebuild(value, wanted);
  return out;
}

Eager::Result Eager::call(const Value &callee, std::span<const Argument> args, DiagEngine &diag) {
  return evaluate(
      [&](Evaluator &e) {
        CallArgs list;
        for (const Argument &a : args)
          list.args.push_back({a.value, {}, a.keyword, {}});
        return e.callValue(callee, std::move(list), {}, {});
      },
      diag);
}

std::optional<Eager::Result> Eager::operate(std::string_view name, std::span<const Value> operands, DiagEngine &diag) {
  for (const Binary &row : binaries)
    if (operands.size() == 2 && name == row.name)
      return evaluate([&](Evaluator &e) { return row.apply(e, operands[0], operands[1]); }, diag);
  for (const Unary &row : unaries)
    if (operands.size() == 1 && name == row.name)
      return evaluate([&](Evaluator &e) { return row.apply(e, operands[0], {}); }, diag);
  return std::nullopt;
}

Eager::Result Eager::attribute(const Value &object, std::string_view name, DiagEngine &diag) {
  return evaluate(
      [&](Evaluator &e) {
        if (std::optional<Value> v = e.objectAttribute(object, name, {}))
          return *v;
        return e.fail(diag::noAttribute, {}, lang::kindName(object), name);
      },
      diag);
}

} // namespace tegula::sema
