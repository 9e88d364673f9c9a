// Evaluates the language one operation at a time: sema::Eager behind handles.
#include "sema/Eager.h"
#include "api/Compile.h"
#include "api/Sized.h"
#include "runtime/Print.h"

using namespace tegula;
using namespace tegula::api;
using lang::Value;

struct TegulaEager : RefCounted {
  TegulaEager(Ref<TegulaContext> c, sema::Options options) : context(std::move(c)), eager(std::move(options)) {}
  Ref<TegulaContext> context;
  sema::Eager eager;
  /// The output of the current operation; passed on at its end, as printing may call the user's code.
  std::string devicePrinted, staticPrinted;
};

/// The lines of one operand of a device_print.
static std::string printed(const ir::Op &op, unsigned operand, const int32_t pid[3], const ir::Tile &tile) {
  runtime::SiteInfo site;
  site.text = op.prefix();
  site.hex = op.hex();
  std::span<const int64_t> signs = op.signs();
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ir::Type &t = op.operands[i]->type;
    bool isSigned = i < signs.size() && signs[i];
    runtime::PrintOperand o;
    o.isPtr = t.isPtr;
    // Element kinds of IR have no sign; the dtypes of one kind differ only in it.
    for (unsigned d = TEGULA_INT1; d <= TEGULA_FP64; ++d)
      if (auto s = static_cast<lang::Scalar>(d);
          lang::elem(s) == t.elem &&
          (!lang::dtype(s).isInt() || s == lang::Scalar::Int1 || lang::dtype(s).isSigned() == isSigned))
        o.dtype = static_cast<TegulaDtype>(d);
    o.shape.assign(t.shape.begin(), t.shape.end());
    site.operands.push_back(std::move(o));
  }
  std::string text;
  for (size_t i = 0; i < tile.size(); ++i)
    text += runtime::printElement(site, static_cast<int32_t>(operand), pid, static_cast<int64_t>(i), tile[i]);
  return text;
}

TegulaStatus tegula_eager_create(TegulaContext *context, const TegulaLaunchOptions *options, TegulaEager **out) {
  if (!context || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_eager_create: null argument");
  CallOptions call;
  if (!context->resolve(options, call)) return tegula_last_status();
  sema::Options o;
  o.target.debug = true;
  o.target.sanitizeOverflow = call.compile.debug && call.compile.sanitizeOverflow;
  o.target.numWarps = call.compile.numWarps;
  o.target.level = call.compile.level;
  o.target.strict = call.compile.strict;
  auto *e = new TegulaEager(Ref(context), std::move(o));
  e->eager.onPrint = [e](const ir::Op &op, unsigned operand, const int32_t pid[3], const ir::Tile &tile) {
    e->devicePrinted += printed(op, operand, pid, tile);
  };
  e->eager.onStaticPrint = [e](const std::string &text) { e->staticPrinted += text; };
  *out = e;
  return TEGULA_OK;
}

void tegula_eager_release(TegulaEager *e) { release(e); }

TegulaStatus tegula_eager_set_program(TegulaEager *e, const int32_t pid[3], const int32_t grid[3]) {
  if (!e || !pid || !grid) return fail(TEGULA_INVALID_ARGUMENT, "tegula_eager_set_program: null argument");
  std::copy(pid, pid + 3, e->eager.pid.begin());
  std::copy(grid, grid + 3, e->eager.grid.begin());
  return TEGULA_OK;
}

TegulaStatus tegula_eager_add_buffer(TegulaEager *e, const char *name, void *begin, int64_t bytes, int32_t writable) {
  if (!e || !name) return fail(TEGULA_INVALID_ARGUMENT, "tegula_eager_add_buffer: null argument");
  if (bytes < 0) e->eager.setUnchecked();
  else e->eager.addBuffer({name, {reinterpret_cast<uintptr_t>(begin), static_cast<size_t>(bytes), writable != 0}});
  return TEGULA_OK;
}

TegulaValue *tegula_eager_scalar(TegulaDtype dtype, uint32_t flags, uint64_t bits) {
  if (dtype == TEGULA_VOID || dtype > TEGULA_FP64) {
    fail(TEGULA_INVALID_ARGUMENT, "tegula_eager_scalar: no data type");
    return nullptr;
  }
  lang::Dtype d = lang::dtype(static_cast<lang::Scalar>(dtype));
  d.isPtr = flags & TEGULA_TENSOR_POINTER;
  d.isConst = flags & TEGULA_TENSOR_CONST;
  unsigned width = d.bits();
  sema::HeldValue held = sema::Eager::scalar(d, width < 64 ? bits & ((uint64_t(1) << width) - 1) : bits);
  return new TegulaValue(std::move(held.value), std::move(held.tiles));
}

/// Runs an operation on the compiler's stack, and returns its result or error.
static TegulaStatus perform(TegulaEager *e, TegulaValue **out,
                            const std::function<sema::Eager::Result(DiagEngine &)> &operation) {
  DiagEngine diag;
  sema::Eager::Result r;
  {
    GateSection section;
    if (!onCompilerStack(false, [&] { return r = operation(diag), true; })) return tegula_last_status();
  }
  if (std::string text = std::exchange(e->staticPrinted, {}); !text.empty())
    e->context->print(TEGULA_STATIC_PRINT, text);
  if (std::string text = std::exchange(e->devicePrinted, {}); !text.empty())
    e->context->print(TEGULA_DEVICE_PRINT, text);
  if (TegulaStatus s = report(diag); s != TEGULA_OK) return s;
  if (!r.held)
    return fail(r.fault.empty() ? TEGULA_INTERNAL_ERROR : TEGULA_FAULT,
                r.fault.empty() ? "an operation was refused without a message" : r.fault);
  *out = new TegulaValue(std::move(r.held->value), std::move(r.held->tiles));
  return TEGULA_OK;
}

TegulaStatus tegula_eager_call(TegulaEager *e, TegulaValue *callee, const TegulaEagerArg *args, size_t count,
                               TegulaValue **out) {
  if (!e || !callee || !out || (count && !args))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_eager_call: null argument");
  std::vector<sema::Eager::Argument> list;
  for (size_t i = 0; i < count; ++i) {
    if (!args[i].value) return fail(TEGULA_INVALID_ARGUMENT, "tegula_eager_call: null argument");
    list.push_back({args[i].value->value, args[i].keyword ? args[i].keyword : ""});
  }
  return perform(e, out, [&](DiagEngine &diag) { return e->eager.call(callee->value, list, diag); });
}

TegulaStatus tegula_eager_operate(TegulaEager *e, const char *name, TegulaValue *const *operands, size_t count,
                                  TegulaValue **out) {
  if (!e || !name || !out || (count && !operands))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_eager_operate: null argument");
  std::vector<Value> values;
  for (size_t i = 0; i < count; ++i) {
    if (!operands[i]) return fail(TEGULA_INVALID_ARGUMENT, "tegula_eager_operate: null operand");
    values.push_back(operands[i]->value);
  }
  bool known = true;
  TegulaStatus s = perform(e, out, [&](DiagEngine &diag) {
    auto r = e->eager.operate(name, values, diag);
    known = r.has_value();
    return known ? std::move(*r) : sema::Eager::Result();
  });
  return known ? s
               : fail(TEGULA_INVALID_ARGUMENT,
                      std::string("there is no operation `") + name + "` of " + std::to_string(count) + " operands");
}

TegulaStatus tegula_eager_attribute(TegulaEager *e, TegulaValue *object, const char *name, TegulaValue **out) {
  if (!e || !object || !name || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_eager_attribute: null argument");
  return perform(e, out, [&](DiagEngine &diag) { return e->eager.attribute(object->value, name, diag); });
}

// ---- looking at values

TegulaStatus tegula_value_tensor(const TegulaValue *v, TegulaTensorInfo *out) {
  if (!v || !isSized(out) || !v->value.isTensor() || v->tiles.size() != 1)
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_value_tensor: no tensor");
  const lang::Tensor &t = v->value.asTensor();
  const ir::Tile &tile = v->tiles[0]->tile;
  TegulaTensorInfo i{};
  i.dtype = static_cast<TegulaDtype>(t.dtype.scalar);
  i.flags = (t.dtype.isPtr ? TEGULA_TENSOR_POINTER : 0) | (t.dtype.isConst ? TEGULA_TENSOR_CONST : 0);
  i.rank = t.shape().rank();
  std::copy(t.shape().begin(), t.shape().end(), i.shape);
  i.count = tile.size();
  i.bits = tile.data();
  giveSized(i, out);
  return TEGULA_OK;
}

static bool isFloat(TegulaDtype d) { return d >= TEGULA_FP8E5 && d <= TEGULA_FP64; }
double tegula_float_from_bits(TegulaDtype dtype, uint64_t bits) {
  return isFloat(dtype) ? runtime::floatFromBits(dtype, bits) : 0;
}
uint64_t tegula_float_to_bits(TegulaDtype dtype, double number) {
  return isFloat(dtype) ? runtime::floatToBits(dtype, number) : 0;
}

TegulaValue *tegula_value_slice(TegulaValue *lower, TegulaValue *upper, TegulaValue *step) {
  lang::SliceValue s;
  for (TegulaValue *v : {lower, upper, step}) {
    if (!v) return fail(TEGULA_INVALID_ARGUMENT, "tegula_value_slice: null part"), nullptr;
    s.parts.push_back(v->value);
  }
  return new TegulaValue(Value(std::make_shared<const lang::SliceValue>(std::move(s))));
}

size_t tegula_value_item_count(const TegulaValue *v) {
  const auto *items = v ? lang::sequenceItems(v->value) : nullptr;
  return items ? items->size() : v && v->value.isRecord() ? v->value.record().fields.size() : 0;
}

/// Part of a value, with the tiles that its tensors point to.
static TegulaValue *partOf(const TegulaValue &whole, const Value &part) {
  struct Walk {
    const TegulaValue &whole;
    TegulaValue::Tiles tiles;
    void visit(const Value &v) {
      if (v.isTensor()) {
        for (const auto &t : whole.tiles)
          if (t.get() == v.asTensor().value) return tiles.push_back(t);
        return;
      }
      const std::vector<Value> *items = v.isTuple() ? &v.items() : v.isRecord() ? &v.record().fields : nullptr;
      for (size_t i = 0; items && i < items->size(); ++i) visit((*items)[i]);
    }
  } walk{whole, {}};
  walk.visit(part);
  return new TegulaValue(part, std::move(walk.tiles));
}

TegulaValue *tegula_value_item(const TegulaValue *v, size_t index) {
  if (index >= tegula_value_item_count(v)) return nullptr;
  return partOf(*v, v->value.isTuple() ? v->value.items()[index] : v->value.record().fields[index]);
}

TegulaValue *tegula_value_record_class(const TegulaValue *v) {
  return v && v->value.isRecord() ? new TegulaValue(Value(v->value.record().cls)) : nullptr;
}

TegulaValue *tegula_value_method(const TegulaValue *v) {
  using Method = std::shared_ptr<const lang::BoundMethod>;
  return v && v->value.is<Method>() ? new TegulaValue(*v->value.get<Method>()->callee) : nullptr;
}

int32_t tegula_value_same(const TegulaValue *a, const TegulaValue *b) {
  using Class = std::shared_ptr<const lang::RecordClass>;
  if (!a || !b) return 0;
  if (a->value.isTensor() && b->value.isTensor()) return a->value.asTensor().value == b->value.asTensor().value;
  return a->value.is<Class>() && b->value.is<Class>() && a->value.get<Class>() == b->value.get<Class>();
}
