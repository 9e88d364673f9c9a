// Hints, debugging, compile-time output, facts about the target (LANGUAGE 3.8).
#include "lang/Hints.h"
#include "lang/builtins/Args.h"
#include "lang/builtins/Families.h"
#include <algorithm>

namespace tegula::lang {

namespace {

using ir::OpKind;

// Hints. They are facts about a value, so they are attached to the operation that defines it.

/// Of two true statements about one value, keep the stronger per dimension.
std::vector<int64_t> stronger(std::span<const int64_t> old, std::vector<int64_t> now) {
  for (size_t i = 0; i < now.size() && i < old.size(); ++i)
    now[i] = std::max(now[i], old[i]);
  return now;
}

} // namespace

void Context::hintCarried(ir::Value *, ir::ListKey, std::vector<int64_t>) {}

void attachHint(Context &ctx, ir::Value *v, ir::ListKey key, std::vector<int64_t> values) {
  if (ir::Op *op = v->def) {
    // Which result of several is meant could not be told from the attribute.
    if (op->results.size() == 1 && op->regions.empty())
      op->set(key, stronger(op->get(key), std::move(values)));
    return;
  }
  // Kernel arguments carry divisibility in their own table.
  ir::Function *f = v->block && v->block->parent ? v->block->parent->function : nullptr;
  if (!f || f->block() != v->block)
    ctx.hintCarried(v, key, std::move(values));
  else if (key == ir::attr::divisibility && v->type.isScalar() && v->index < f->argInfo.size())
    f->argInfo[v->index].divisibility = std::max(f->argInfo[v->index].divisibility, values[0]);
}

/// Whether the body of a `while` starts from the same values as its condition.
static bool isForwarded(const ir::Op &loop, size_t carried) {
  const ir::Block &head = *loop.region(0);
  return head.terminator()->operands[carried + 1] == head.args[carried];
}

/// Later iterations have what the additions of the body leave of it. (A loop without iterations keeps its promises as
/// well: whoever makes them in a loop, as Triton's tutorial of grouped products does to have its loads copied ahead,
/// makes them about addresses that hold for any number of iterations.)
void CarriedHints::settle(Context &ctx, const ir::Op *loop, size_t since) {
  const auto first = hints_.begin() + static_cast<ptrdiff_t>(since);
  std::vector<Hint> own(std::make_move_iterator(first), std::make_move_iterator(hints_.end()));
  hints_.erase(first, hints_.end());
  for (Hint &h : own) {
    if (!loop)
      continue;
    const bool isFor = loop->kind == OpKind::For;
    const std::span<ir::Value *const> inits = std::span<ir::Value *const>(loop->operands).subspan(isFor ? 3 : 0);
    const size_t counters = isFor ? 1 : 0, at = h.value->index; // arguments ahead of what is carried
    if (std::ranges::none_of(loop->regions, [&](const ir::Region *r) { return r->block == h.value->block; }))
      hints_.push_back(std::move(h)); // of a loop around this one
    else if (at >= counters && (isFor || isForwarded(*loop, at)))
      attachHint(ctx, inits[at - counters], h.key, std::move(h.values));
  }
}

namespace {

template <const char *const &Function, const ir::ListKey &Key> Value hint(BuiltinCall &call) {
  Args a(call, Function);
  const std::vector<Value> *given = sequenceItems(a[1]);
  std::vector<int64_t> values;
  for (const Value &v : given ? *given : std::vector<Value>{a[1]}) {
    bool ok = (v.isInt() || v.isBool()) && v.asInt() > 0 && v.asInt() <= INT64_MAX;
    if (!ok)
      return a.fail(diag::hintNotConstexpr, a.loc(1), Function, v.isInt() ? repr(v) : kindName(v));
    values.push_back(static_cast<int64_t>(v.asInt()));
  }
  if (!a[0].isTensor())
    return a[0];
  unsigned rank = a[0].asTensor().shape().rank();
  if (values.size() != std::max(rank, 1u))
    return a.fail(diag::hintLength, a.loc(1), Function, kindName(a[0]), rank, static_cast<uint64_t>(values.size()));
  attachHint(call.ctx, a[0].asTensor().value, Key, std::move(values));
  return a[0];
}

constexpr const char *multipleOf = "multiple_of", *maxContiguous = "max_contiguous", *maxConstancy = "max_constancy";

Value assume(BuiltinCall &call) {
  Args a(call, "assume");
  if (!a[0].isTensor())
    return Value::none();
  Value t = truth(call.ctx, a[0], a.loc(0));
  if (t.isError())
    return t;
  ir::Value *operands[] = {t.asTensor().value};
  a.b().create(OpKind::Assume, operands, {});
  return Value::none();
}

Value debugBarrier(BuiltinCall &call) {
  call.b().create(OpKind::Barrier, {}, {});
  return Value::none();
}

// Printing and assertions at run time.

/// Begins with a blank unless it is empty; ends in ": " if values follow.
std::string printPrefix(std::string s, bool hasArgs) {
  if (hasArgs) {
    while (!s.empty() && s.back() == ' ')
      s.pop_back();
    if (s.empty())
      return ": ";
    if (s.back() != ':')
      s += ':';
    s += ' ';
  }
  return s.empty() || s.front() != ' ' ? " " + s : s;
}

Value devicePrint(BuiltinCall &call) {
  Args a(call, "device_print");
  if (a[0].isTensor()) {
    call.diag()
        .report(diag::badArgument, a.loc(0), "device_print", "prefix", "a string", kindName(a[0]))
        .note({}, std::string(interpreterHint));
    return Value::error();
  }
  std::optional<std::string> prefix = a.text(0, "prefix");
  std::optional<bool> hex = a.flag(2, "hex");
  if (!prefix || !hex)
    return Value::error();
  if (std::any_of(prefix->begin(), prefix->end(), [](char ch) { return static_cast<unsigned char>(ch) > 127; }))
    return a.fail(diag::prefixAscii, a.loc(0), repr(a[0]));
  std::vector<ir::Value *> operands;
  std::vector<int64_t> signs;
  for (const Value &v : a[1].items()) {
    Value t = toTensor(call.ctx, v, a.loc(1));
    if (t.isError() || !requirePowers(call.ctx, "device_print", t.asTensor().shape(), a.loc(1)))
      return Value::error();
    operands.push_back(t.asTensor().value);
    signs.push_back(t.asTensor().dtype.isSigned());
  }
  a.b().create(OpKind::Print, operands, {},
               {{ir::attr::prefix, printPrefix(*prefix, !operands.empty())},
                {ir::attr::hex, *hex},
                {ir::attr::signs, std::move(signs)}});
  return Value::none();
}

Value deviceAssert(BuiltinCall &call) {
  Args a(call, "device_assert");
  std::optional<std::string> message = a.text(1, "msg");
  if (!message)
    return Value::error();
  if (!call.ctx.target().debug)
    return Value::none();
  std::optional<Tensor> cond = a.tensor(0);
  if (!cond)
    return Value::error();
  *cond = convert(call.ctx, *cond, dtype(Scalar::Int1));
  std::vector<ir::Value *> operands;
  if (a[2].isNone()) {
    operands.push_back(cond->value);
  } else {
    std::optional<Tensor> mask = a.tensor(2);
    if (!mask)
      return Value::error();
    if (!mask->dtype.isBool())
      return a.fail(diag::maskNotBool, a.loc(2), kindName(a[2]));
    auto shape = commonShape(call.ctx, cond->shape(), mask->shape(), a.loc(), a.loc(0), a.loc(2));
    if (!shape)
      return Value::error();
    operands = {spread(call.ctx, *cond, *shape).value, spread(call.ctx, *mask, *shape).value};
  }
  a.b().create(OpKind::Assert, operands, {},
               {{ir::attr::message, *message}, {ir::attr::inFunction, call.ctx.currentFunction()}});
  return Value::none();
}

// Compile time.

Value staticAssert(BuiltinCall &call) {
  Args a(call, "static_assert");
  if (!a[0].isConstexpr())
    return a.fail(diag::staticAssertUnknown, a.loc(0), kindName(a[0]));
  if (constexprTruth(a[0]))
    return Value::none();
  std::string message = str(a[1]);
  return a.fail(diag::staticAssertFailed, a.loc(), message.empty() ? "" : ": " + message);
}

Value staticPrint(BuiltinCall &call) {
  Args a(call, "static_print");
  std::string sep = a[1].isStr() ? a[1].asStr() : " ", end = a[2].isStr() ? a[2].asStr() : "\n", text;
  bool first = true;
  for (const Value &v : a[0].items()) {
    text += (first ? "" : sep) + str(v);
    first = false;
  }
  call.ctx.staticPrint(text + end, call.loc);
  return Value::none();
}

// target_info

Value isCuda(BuiltinCall &call) { return Value::boolean(call.ctx.target().name == "cuda"); }
Value never(BuiltinCall &) { return Value::boolean(false); }
Value currentTarget(BuiltinCall &call) { return Value::str(call.ctx.target().name); }
Value cudaCapabilityGeq(BuiltinCall &call) {
  Args a(call, "cuda_capability_geq");
  auto major = a.integer(0, "major"), minor = a.integer(1, "minor");
  if (!major || !minor)
    return Value::error();
  const TargetInfo &t = call.ctx.target();
  int64_t has = t.cudaCapability;
  return Value::boolean(t.name == "cuda" && (has / 10 > *major || (has / 10 == *major && has % 10 >= *minor)));
}

constexpr const char *printSignature = "prefix, *args, hex=False";

constexpr Builtin rows[] = {
    {"multiple_of", "input, values", hint<multipleOf, ir::attr::divisibility>, 0,
     "Promises that the values are multiples; returns input."},
    {"max_contiguous", "input, values", hint<maxContiguous, ir::attr::contiguity>, 0,
     "Promises that the values come in runs of consecutive integers; returns input."},
    {"max_constancy", "input, values", hint<maxConstancy, ir::attr::constancy>, 0,
     "Promises that the values come in runs of equal ones; returns input."},
    {"assume", "cond", assume, 0, "Promises that a condition holds."},
    {"debug_barrier", "", debugBarrier, 0, "Waits for all threads of the program and orders its memory accesses."},
    {"device_print", printSignature, devicePrint, 0, "Prints values while the kernel runs."},
    {"python.print", printSignature, devicePrint, 0, "Prints values while the kernel runs."},
    {"device_assert", "cond, msg=\"\", mask=None", deviceAssert, 0,
     "Stops the kernel if a condition fails (debug mode only)."},
    {"static_assert", "cond, msg=\"\"", staticAssert, 0, "An error if a compile-time condition is false."},
    {"static_print", "*values, sep=\" \", end=None, file=None, flush=False", staticPrint, 0, "Prints while compiling."},
    {"target_info.current_target", "", currentTarget, 0, "The name of the target that code is compiled for."},
    {"target_info.is_cuda", "", isCuda, 0, "Whether code is compiled for an NVIDIA GPU."},
    {"target_info.cuda_capability_geq", "major, minor=0", cudaCapabilityGeq, 0,
     "Whether the GPU is of that generation or later."},
    {"target_info.is_hip", "", never, 0, "False: there is no AMD target."},
    {"target_info.is_hip_cdna3", "", never, 0, "False: there is no AMD target."},
    {"target_info.is_hip_cdna4", "", never, 0, "False: there is no AMD target."},
    {"target_info.is_hip_gfx1250", "", never, 0, "False: there is no AMD target."},
};

} // namespace

std::span<const Builtin> debugBuiltins() { return rows; }

} // namespace tegula::lang
