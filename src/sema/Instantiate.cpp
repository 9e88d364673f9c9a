// instantiate(): binds the parameters of a kernel, evaluates its body, finishes the module.
#include "lang/Descriptor.h"
#include "sema/Evaluator.h"
#include "support/SameAs.h"
#include <algorithm>
#include <cassert>

namespace tegula::sema {

using lang::Function;
using lang::RecordValue;

namespace {

/// The run-time leaves of the parameters, in order, with their names ("x", "t.0", "t.field").
struct Leaf {
  std::string name;
  Loc loc;
  lang::Dtype dtype;
  int64_t divisibility;
  int32_t overlap;
};

void collectLeaves(const ParamSpec &p, const std::string &name, Loc loc, std::vector<Leaf> &out) {
  if (p.kind == ParamSpec::Kind::Runtime)
    out.push_back({name, loc, p.dtype, p.divisibility, p.overlap});
  if (p.kind == ParamSpec::Kind::Tuple)
    for (size_t i = 0; i < p.items.size(); ++i)
      collectLeaves(p.items[i], name + "." + (p.recordClass ? p.recordClass->fields[i] : std::to_string(i)), loc, out);
}

Value bindLeaves(const ParamSpec &p, std::span<ir::Value *const> &args) {
  if (p.kind == ParamSpec::Kind::Constexpr)
    return p.value;
  if (p.kind == ParamSpec::Kind::Runtime) {
    ir::Value *v = args.front();
    args = args.subspan(1);
    return Value::tensor(p.dtype, v);
  }
  std::vector<Value> items;
  for (const ParamSpec &i : p.items)
    items.push_back(bindLeaves(i, args));
  if (p.recordClass)
    return Value(std::make_shared<const RecordValue>(RecordValue{p.recordClass, std::move(items)}));
  return Value::tuple(std::move(items));
}

std::string specText(const ParamSpec &p) {
  if (p.isDescriptor())
    return descriptorText(p);
  if (p.kind == ParamSpec::Kind::Runtime)
    return lang::code(p.dtype);
  if (p.kind == ParamSpec::Kind::Constexpr)
    return lang::repr(p.value);
  std::string s = "(";
  for (size_t i = 0; i < p.items.size(); ++i)
    s += (i ? ", " : "") + specText(p.items[i]);
  return s + ")";
}

std::string contextText(const Function &k, std::span<const ParamSpec> params) {
  std::string s = "while instantiating `" + k.name + "`";
  for (size_t i = 0; i < params.size(); ++i)
    s += (i ? ", " : " with ") + std::string(k.def->params[i].name) +
         (params[i].kind == ParamSpec::Kind::Constexpr ? "=" : ": ") + specText(params[i]);
  return s;
}

} // namespace

/// Moves a diagnostic in a traced kernel's text to the place that wrote it.
static Diagnostic atOrigin(Diagnostic d) {
  d.loc = d.loc.origin();
  for (DiagNote &n : d.labels)
    n.loc = n.loc.origin();
  for (DiagNote &n : d.notes)
    n.loc = n.loc.origin();
  return d;
}

static void moveToOrigins(const ir::Block &b) {
  for (ir::Op *op : b.ops) {
    op->loc = op->loc.origin();
    for (const ir::Region *r : op->regions)
      moveToOrigins(*r->block);
  }
}

/// The same for compiled code, so that passes, remarks, debuggers and the simulator refer to the places that wrote the
/// kernel.
static void moveToOrigins(ir::Module &m) {
  for (ir::Function *f : m.functions) {
    f->loc = f->loc.origin();
    for (ir::ArgInfo &a : f->argInfo)
      a.loc = a.loc.origin();
    moveToOrigins(*f->block());
  }
  for (ir::InlineSite &s : m.inlineSites)
    s.call = s.call.origin();
}

Diagnostic atUsersLine(Diagnostic d) {
  auto inLibrary = [](Loc l) { return l.file && l.file->name().starts_with("tegula/lib/"); };
  if (!inLibrary(d.loc))
    return d;
  auto call = std::find_if(d.notes.begin(), d.notes.end(), [&](const DiagNote &n) {
    return n.text.ends_with("called from here") && !inLibrary(n.loc);
  });
  if (call == d.notes.end())
    return d;
  d.loc = call->loc;
  d.labels.clear();
  d.notes.erase(std::remove_if(d.notes.begin(), d.notes.end(),
                               [&](const DiagNote &n) { return inLibrary(n.loc) || &n == &*call; }),
                d.notes.end());
  return d;
}

ParamSpec ParamSpec::descriptor(lang::Dtype element, const ir::Shape &block, bool nan, int64_t divisibility,
                                bool tf32) {
  ParamSpec shape, strides, extents, p;
  shape.kind = strides.kind = extents.kind = p.kind = Kind::Tuple;
  for (unsigned d = 0; d < block.rank(); ++d) {
    shape.items.push_back(runtime(lang::dtype(lang::Scalar::Int32), divisibility));
    strides.items.push_back(d + 1 < block.rank() ? runtime(lang::dtype(lang::Scalar::Int64), divisibility)
                                                 : constant(Value::integer(1)));
    extents.items.push_back(constant(Value::integer(block[d])));
  }
  p.recordClass = lang::descriptorClass();
  p.items = {runtime(lang::Dtype::ptr(element.scalar), lang::descriptorGrain), std::move(shape), std::move(strides),
             std::move(extents), constant(Value::str(nan ? "nan" : "zero")), constant(Value::boolean(tf32))};
  return p;
}

static bool isPlain(const ParamSpec &s) { return s.sameAs == -1 && std::ranges::all_of(s.items, isPlain); }

static bool overlapFits(const ParamSpec &s) {
  const bool isPointer = s.kind == ParamSpec::Kind::Runtime && s.dtype.isPtr;
  return s.overlap >= 0 && (s.overlap == 0 || (isPointer && s.sameAs < 0)) && std::ranges::all_of(s.items, overlapFits);
}

bool sameAsFits(std::span<const ParamSpec> params) {
  auto isPointer = [](const ParamSpec &s) { return s.kind == ParamSpec::Kind::Runtime && s.dtype.isPtr; };
  auto alike = [&](size_t i, size_t of) {
    return isPointer(params[i]) && isPointer(params[of]) && params[i].dtype.scalar == params[of].dtype.scalar;
  };
  return std::ranges::all_of(params, overlapFits) &&
         std::ranges::all_of(params, [](const ParamSpec &s) { return std::ranges::all_of(s.items, isPlain); }) &&
         firstWrongSameAs(
             params.size(), [&](size_t i) { return params[i].sameAs; }, alike) == params.size();
}

std::string descriptorText(const ParamSpec &p) {
  auto part = [&](lang::DescField f) -> const ParamSpec & { return p.items[static_cast<size_t>(f)]; };
  std::string extents;
  for (const ParamSpec &extent : part(lang::DescField::BlockShape).items)
    extents += (extents.empty() ? "" : ", ") + lang::repr(extent.value);
  bool nan = lang::str(part(lang::DescField::Padding).value) == "nan";
  return "tensordesc<" + lang::code(part(lang::DescField::Base).dtype.pointee()) + "[" + extents + "]>" +
         (nan ? ":nan" : "") + (part(lang::DescField::RoundTf32).value.asBool() ? ":tf32" : "");
}

/// Operations of a function, those in regions included.
static uint64_t opCount(const ir::Block &b) {
  uint64_t n = b.ops.size();
  for (const ir::Op *op : b.ops)
    for (const ir::Region *r : op->regions)
      n += opCount(*r->block);
  return n;
}

Instantiation instantiate(const std::shared_ptr<const Function> &kernel, std::span<const ParamSpec> params,
                          const Options &options, DiagEngine &diag) {
  Instantiation out;
  const Function &k = *kernel;
  const auto &def = k.def->params;
  assert(params.size() == def.size() && "one ParamSpec for each parameter");
  std::vector<Leaf> leaves;
  std::vector<size_t> firstLeaf; // of each parameter
  for (size_t i = 0; i < params.size(); ++i) {
    firstLeaf.push_back(leaves.size());
    collectLeaves(params[i], std::string(def[i].name), def[i].loc, leaves);
  }
  std::vector<ir::Type> types;
  for (const Leaf &l : leaves)
    types.push_back(lang::irType(l.dtype));
  auto module = std::make_unique<ir::Module>();
  ir::Function *f = module->createFunction(k.name, types, {}, k.def->nameLoc);
  f->isKernel = true;
  f->argInfo.clear();
  std::span<ir::Value *const> args(f->block()->args);
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Leaf &l = leaves[i];
    f->argInfo.push_back({l.name, l.loc, l.divisibility, l.dtype.isConst, l.dtype.isSigned()});
    f->argInfo.back().overlap = l.overlap;
    args[i]->name = l.name;
  }
  // Messages are collected separately: some are moved to the user's own lines first.
  DiagEngine local;
  ir::Builder builder(*module);
  builder.setBlock(f->block());
  Evaluator evaluator(builder, local, options);
  Frame frame = evaluator.makeFrame(kernel);
  std::vector<Value> values;
  std::vector<Loc> locs;
  for (size_t i = 0; i < params.size(); ++i) {
    values.push_back(bindLeaves(params[i], args));
    locs.push_back(def[i].loc);
    if (const int32_t of = params[i].sameAs; of >= 0)
      f->argInfo[firstLeaf[i]].sameAs = static_cast<int32_t>(firstLeaf[static_cast<size_t>(of)]);
    if (values.back().isError())
      local.report(diag::unknownArgument, def[i].loc, def[i].name, k.name);
  }
  evaluator.bindParams(frame, values, locs);
  evaluator.keepSource(k);
  {
    DiagContext context(local, k.def->nameLoc, contextText(k, params));
    Value result = evaluator.runBody(frame);
    if (!result.isConstexpr())
      local.report(diag::kernelReturns, k.def->nameLoc, k.name, describe(result));
    builder.setLoc(k.def->loc);
    builder.create(ir::OpKind::Return, {}, {});
  }
  // Evaluator::step counts blocks one by one as they grow; this counts them together.
  uint64_t made = opCount(*f->block());
  for (const ir::Function *callee : evaluator.emittedFunctions())
    made += opCount(*callee->block());
  if (!local.hasErrors() && made > options.maxOps)
    local.report(diag::tooManyOps, k.def->nameLoc, options.maxOps);
  for (const Diagnostic &d : local.all())
    diag.emit(atOrigin(atUsersLine(d)));
  out.staticOutput = evaluator.output();
  if (options.annotate)
    out.tree = evaluator.treeText();
  if (local.hasErrors())
    return out;
  for (const Diagnostic &d : evaluator.extensions().all())
    diag.emit(atOrigin(d));
  // Callees before callers, the kernel last.
  const auto &callees = evaluator.emittedFunctions();
  module->functions.assign(callees.begin(), callees.end());
  module->functions.push_back(f);
  if (!k.def->loc.file->origins().empty())
    moveToOrigins(*module);
  out.module = std::move(module);
  return out;
}

} // namespace tegula::sema
