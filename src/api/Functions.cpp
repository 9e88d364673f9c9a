// Modules and functions: from files, from text, from bindings.
#include "api/Compile.h"
#include "api/Sized.h"
#include "api/Traced.h"
#include "support/Clock.h"
#include "support/Npy.h"
#include <cerrno>
#include <cstring>

using namespace tegula;
using namespace tegula::api;

// ---- modules

namespace {
struct LoadedFile {
  sema::ModuleLoader loader;
  std::shared_ptr<const lang::Module> module;
};
} // namespace

template <typename Load>
static TegulaStatus loadModule(TegulaContext *context, TegulaModule **out, Load &&load) {
  GateSection section;
  auto file = std::make_shared<LoadedFile>();
  DiagEngine diag;
  uint64_t start = steadyNs();
  if (!onCompilerStack(false, [&] { return file->module = load(file->loader, diag), true; }))
    return tegula_last_status();
  if (TegulaStatus s = report(diag); s != TEGULA_OK) return s;
  if (!file->module) return fail(TEGULA_INTERNAL_ERROR, "a module was refused without a message");
  auto *m = new TegulaModule(context);
  m->module = file->module;
  m->keep = file;
  m->loader = &file->loader;
  m->parseNs = steadyNs() - start;
  for (const auto &f : sema::ModuleLoader::jitFunctions(*m->module)) m->kernels.push_back(f->name);
  *out = m;
  return TEGULA_OK;
}

TegulaStatus tegula_module_from_file(TegulaContext *context, const char *path, TegulaModule **out) {
  if (!context || !path || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_module_from_file: null argument");
  std::string text, error;
  errno = 0;
  if (!readFile(path, text, error, sourceLimit))
    return fail(errno == ENOENT ? TEGULA_NOT_FOUND : TEGULA_IO_ERROR, error);
  return loadModule(context, out,
                    [&](sema::ModuleLoader &l, DiagEngine &d) { return l.loadText(path, std::move(text), d); });
}

TegulaStatus tegula_module_from_text(TegulaContext *context, const char *name, const char *text, size_t length,
                                     TegulaModule **out) {
  if (!context || !name || (!text && length) || !out)
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_module_from_text: null argument");
  if (length > sourceLimit)
    return fail(TEGULA_INVALID_ARGUMENT, std::string("tegula_module_from_text: `") + name + "` has more than " +
                                             std::to_string(sourceLimit >> 20) + " MiB");
  std::string copy(text ? text : "", length);
  return loadModule(context, out,
                    [&](sema::ModuleLoader &l, DiagEngine &d) { return l.loadText(name, std::move(copy), d); });
}

TegulaStatus api::moduleFromTexts(TegulaContext &context, const std::string &name,
                                  std::map<std::string, std::string> texts, TegulaModule **out) {
  auto main = texts.find(name);
  if (main == texts.end()) return fail(TEGULA_NOT_FOUND, "there is no text of " + name);
  std::string text = main->second;
  return loadModule(&context, out, [&](sema::ModuleLoader &l, DiagEngine &d) {
    return l.provide(std::move(texts)), l.loadText(name, std::move(text), d);
  });
}

TegulaStatus tegula_module_from_trace(TegulaContext *context, const char *name, const char *text, size_t length,
                                      const TegulaOrigin *origins, size_t count, TegulaModule **out) {
  if (!context || !name || (!text && length) || (!origins && count) || !out)
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_module_from_trace: null argument");
  if (length > sourceLimit)
    return fail(TEGULA_INVALID_ARGUMENT, std::string("tegula_module_from_trace: `") + name + "` has more than " +
                                             std::to_string(sourceLimit >> 20) + " MiB");
  if (std::string what = problemOf({origins, count}, length); !what.empty())
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_module_from_trace: " + what);
  auto file = tracedFile(name, {text ? text : "", length}, {origins, count});
  return loadModule(context, out, [&](sema::ModuleLoader &l, DiagEngine &d) { return l.load(file, d); });
}

TegulaModule::TegulaModule(TegulaContext *c) : context(c) {
  std::lock_guard lock(c->modulesMutex);
  c->modules.push_back(this);
}
TegulaModule::~TegulaModule() {
  {
    GateSection section;
    std::lock_guard lock(context->modulesMutex);
    std::erase(context->modules, this);
  }
  for (auto &[name, f] : functions) release(f);
}
void tegula_module_retain(TegulaModule *m) { retain(m); }
void tegula_module_release(TegulaModule *m) { release(m); }
size_t tegula_module_kernel_count(const TegulaModule *m) { return m ? m->kernels.size() : 0; }
const char *tegula_module_kernel_name(const TegulaModule *m, size_t i) {
  return m && i < m->kernels.size() ? m->kernels[i].c_str() : nullptr;
}

TegulaStatus tegula_module_function(TegulaModule *m, const char *name, TegulaFunction **out) {
  if (!m || !name || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_module_function: null argument");
  GateSection section;
  std::lock_guard lock(m->mutex);
  auto it = m->functions.find(name);
  if (it == m->functions.end()) {
    DiagEngine diag;
    auto fn = sema::ModuleLoader::kernel(*m->module, name, diag);
    if (!fn) {
      report(diag);
      std::string text = diag.all().empty() ? std::string("there is no kernel `") + name + "`" : tegula_last_error();
      return fail(TEGULA_NOT_FOUND, text);
    }
    auto *f = new TegulaFunction;
    f->context = m->context;
    f->keep =
        m->bound.empty()
            ? m->keep
            : std::make_shared<const std::pair<std::shared_ptr<const void>, std::vector<std::shared_ptr<const void>>>>(
                  m->keep, m->bound);
    f->loader = m->loader;
    f->callsOthers = !m->bound.empty();
    f->fn = std::move(fn);
    f->parseNs = m->parseNs;
    f->nameParams();
    it = m->functions.emplace(name, f).first;
  }
  retain(it->second);
  *out = it->second;
  return TEGULA_OK;
}

TegulaStatus tegula_module_bind(TegulaModule *m, const char *name, TegulaFunction *function) {
  if (!m || !name || !*name || !function)
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_module_bind: null argument or no name");
  GateSection section;
  function->params(); // ends its set-up
  std::lock_guard lock(m->mutex);
  if (!m->functions.empty())
    return fail(TEGULA_INVALID_ARGUMENT,
                std::string("tegula_module_bind: a function of the module was asked for before `") + name +
                    "` was bound");
  if (!sema::ModuleLoader::bind(*m->module, name, function->fn))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_module_bind: the language's own modules are as they are");
  m->bound.push_back(function->keep);
  return TEGULA_OK;
}

TegulaStatus tegula_context_function(TegulaContext *c, const char *name, TegulaFunction **out) {
  if (!c || !name || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_function: null argument");
  std::string_view all = name;
  Ref<TegulaModule> found;
  auto take = [&](TegulaModule *m) {
    found = Ref(m);
    release(m);
  };
  if (size_t colons = all.rfind("::"); colons != all.npos) {
    TegulaModule *m = nullptr;
    if (TegulaStatus s = tegula_module_from_file(c, std::string(all.substr(0, colons)).c_str(), &m); s != TEGULA_OK)
      return s;
    take(m);
    return tegula_module_function(found.get(), name + colons + 2, out);
  }
  std::vector<Ref<TegulaModule>> alive, having;
  {
    GateSection section;
    std::lock_guard lock(c->modulesMutex);
    for (TegulaModule *m : c->modules)
      if (TegulaModule *held = retainIfAlive(m)) take(held), alive.push_back(std::move(found));
  }
  for (const Ref<TegulaModule> &m : alive)
    if (std::find(m->kernels.begin(), m->kernels.end(), all) != m->kernels.end()) having.push_back(m);
  if (having.empty())
    return fail(TEGULA_NOT_FOUND, alive.empty()
                                      ? "there is no kernel `" + std::string(name) +
                                            "`: the context has no module; load one, or write FILE.py::" + name
                                      : "no module of the context has a kernel `" + std::string(name) + "`");
  if (having.size() > 1)
    return fail(TEGULA_INVALID_ARGUMENT, "`" + std::string(name) + "` is a kernel of " + std::to_string(having.size()) +
                                             " modules of the context: ask the module, or write FILE.py::" + name);
  return tegula_module_function(having[0].get(), name, out);
}

TegulaStatus tegula_module_check(TegulaModule *m) {
  if (!m) return fail(TEGULA_INVALID_ARGUMENT, "tegula_module_check: null module");
  GateSection section;
  DiagEngine diag;
  if (!onCompilerStack(false, [&] { return sema::checkModule(*m->module, m->context->strict, diag), true; }))
    return tegula_last_status();
  return report(diag);
}

// ---- functions

/// Fills in the defaults that are literals; other defaults are known only to the binding.
static void literalDefaults(lang::Function &fn) {
  using syntax::ExprKind;
  for (size_t i = 0; i < fn.def->params.size(); ++i) {
    const syntax::Expr *e = fn.def->params[i].defaultValue;
    if (!e || !fn.defaults[i].isError()) continue;
    const syntax::Expr *literal = e->kind == ExprKind::Unary && e->unaryOp == syntax::UnaryOp::Neg ? e->operands[0] : e;
    static constexpr ExprKind kinds[] = {ExprKind::Int, ExprKind::Float, ExprKind::True, ExprKind::False,
                                         ExprKind::None};
    if (literal->kind == ExprKind::Str && literal == e) fn.defaults[i] = lang::Value::str(e->text);
    for (ExprKind k : kinds)
      if (literal->kind == k)
        if (TegulaValue *v = tegula_value_parse(std::string(e->loc.text()).c_str())) {
          fn.defaults[i] = v->value;
          release(v);
        }
  }
}

/// Removes the indentation of the first line from every line that has it (a method, a nested function).
static std::string dedent(std::string_view text) {
  std::string_view indent = text.substr(0, std::min(text.find_first_not_of(" \t"), text.size()));
  if (indent.empty()) return std::string(text);
  std::string out;
  while (!text.empty()) {
    size_t n = text.find('\n');
    std::string_view line = text.substr(0, n == text.npos ? n : n + 1);
    text.remove_prefix(line.size());
    if (line.starts_with(indent)) line.remove_prefix(indent.size());
    out += line;
  }
  return out;
}

/// Copies of a list of names; false if one is null.
static bool copyNames(const char *const *names, size_t count, std::vector<std::string> &out) {
  if (count && !names) return false;
  for (size_t i = 0; i < count; ++i) {
    if (!names[i]) return false;
    out.push_back(names[i]);
  }
  return true;
}

TegulaStatus tegula_function_create(TegulaContext *context, const TegulaFunctionSource *given, TegulaFunction **out) {
  TegulaFunctionSource full{};
  const TegulaFunctionSource *source = &full;
  if (!context || !given || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_function_create: null argument");
  if (!takeSized(given, full))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_function_create: `size` of the source is not set");
  if (!source->file || !source->text) return fail(TEGULA_INVALID_ARGUMENT, "tegula_function_create: null argument");
  if (source->kind < TEGULA_FUNCTION_JIT || source->kind > TEGULA_FUNCTION_BUILTIN)
    return fail(TEGULA_INVALID_ARGUMENT,
                "tegula_function_create: there is no kind of function " + std::to_string(source->kind));
  std::vector<std::string> fixed, unaligned, annotations;
  if (!copyNames(source->do_not_specialize, source->do_not_specialize_count, fixed) ||
      !copyNames(source->do_not_specialize_on_alignment, source->do_not_specialize_on_alignment_count, unaligned))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_function_create: null name of a parameter");
  if (!copyNames(source->annotations, source->annotation_count, annotations))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_function_create: null annotation of a parameter");
  GateSection section;
  DiagEngine diag;
  uint64_t start = steadyNs();
  std::shared_ptr<lang::Function> fn;
  auto create = [&] {
    fn = sema::createFunction(source->file, dedent({source->text, source->length}),
                              std::max<uint32_t>(source->first_line, 1), diag);
    return true;
  };
  if (!onCompilerStack(false, create)) return tegula_last_status();
  if (TegulaStatus s = report(diag); s != TEGULA_OK) return s;
  if (!fn) return fail(TEGULA_INTERNAL_ERROR, "a function was refused without a message");
  fn->defaults.resize(fn->def->params.size());
  literalDefaults(*fn);
  fn->kind = static_cast<lang::Function::Kind>(source->kind);
  if (source->noinline_) fn->noinline_ = true;
  if (source->exact) fn->exact = true;
  if (source->must_use) fn->mustUse = true, fn->mustUseHint = source->must_use;
  if (annotations.size() == fn->def->params.size()) fn->annotations = std::move(annotations);
  fn->doNotSpecialize = std::move(fixed);
  fn->doNotSpecializeOnAlignment = std::move(unaligned);
  auto *f = new TegulaFunction;
  f->context = Ref(context);
  f->fn = f->mutableFn = fn;
  f->freeNames = sema::freeNames(*fn);
  f->parseNs = steadyNs() - start;
  f->nameParams();
  *out = f;
  return TEGULA_OK;
}

void TegulaFunction::nameParams() {
  for (const syntax::Param &p : fn->def->params) paramNames.emplace_back(p.name);
}

TegulaFunction::~TegulaFunction() {
  {
    GatePause pause;
    for (; !atEnd.empty(); atEnd.pop_back()) atEnd.back().first(atEnd.back().second);
  }
  for (Param &p : params_) release(p.defaultValue);
  for (auto &b : buckets)
    for (KernelNode *n = b.load(); n;) {
      KernelNode *next = n->next;
      release(n->kernel);
      delete n;
      n = next;
    }
}

void tegula_function_retain(TegulaFunction *f) { retain(f); }
void tegula_function_release(TegulaFunction *f) { release(f); }
const char *tegula_function_name(const TegulaFunction *f) { return f ? f->fn->name.c_str() : ""; }
size_t tegula_function_free_name_count(const TegulaFunction *f) { return f ? f->freeNames.size() : 0; }
const char *tegula_function_free_name(const TegulaFunction *f, size_t i) {
  return f && i < f->freeNames.size() ? f->freeNames[i].c_str() : nullptr;
}

static TegulaStatus settable(TegulaFunction *f, const char *call) {
  if (!f || !f->mutableFn) return fail(TEGULA_INVALID_ARGUMENT, std::string(call) + ": not a function made from text");
  if (f->sealed())
    return fail(TEGULA_INVALID_ARGUMENT, std::string(call) + ": `" + f->fn->name + "` is in use already");
  return TEGULA_OK;
}

TegulaStatus tegula_function_bind(TegulaFunction *f, const char *name, TegulaValue *value, int32_t allowed) {
  if (TegulaStatus s = settable(f, "tegula_function_bind"); s != TEGULA_OK) return s;
  if (!name || !value) return fail(TEGULA_INVALID_ARGUMENT, "tegula_function_bind: null argument");
  sema::bindName(*f->mutableFn, name, {value->value, allowed != 0, {}});
  return TEGULA_OK;
}

TegulaStatus tegula_function_set_default(TegulaFunction *f, size_t parameter, TegulaValue *value) {
  if (TegulaStatus s = settable(f, "tegula_function_set_default"); s != TEGULA_OK) return s;
  if (!value || parameter >= f->fn->def->params.size())
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_function_set_default: no such parameter or no value");
  sema::setDefault(*f->mutableFn, parameter, value->value);
  return TEGULA_OK;
}

TegulaStatus tegula_function_set_namer(TegulaFunction *f, TegulaNamer namer, void *user) {
  if (TegulaStatus s = settable(f, "tegula_function_set_namer"); s != TEGULA_OK) return s;
  f->namer = namer;
  f->namerUser = user;
  return TEGULA_OK;
}

TegulaStatus tegula_function_at_end(TegulaFunction *f, void (*end)(void *), void *user) {
  if (!f || !end) return fail(TEGULA_INVALID_ARGUMENT, "tegula_function_at_end: null argument");
  GateSection section;
  std::lock_guard lock(f->mutex);
  f->atEnd.emplace_back(end, user);
  return TEGULA_OK;
}

const char *tegula_function_hash(TegulaFunction *f) {
  if (!f) return "";
  GateSection section;
  f->params();
  return f->fn->contentHash().c_str();
}

/// A default as an argument, as if the caller had passed it.
static TegulaArg argOf(TegulaValue *v) {
  const lang::Value &x = v->value;
  if (x.isBool()) return tegula_bool(x.asBool());
  if (x.isInt() && x.asInt() == static_cast<int64_t>(x.asInt())) return tegula_int(static_cast<int64_t>(x.asInt()));
  if (x.isFloat()) return tegula_float(x.asFloat());
  return tegula_constant(v);
}

static Param describe(const lang::Function &fn, size_t i) {
  Param p;
  p.name = fn.def->params[i].name;
  p.variadic = fn.def->params[i].kind == syntax::Param::Kind::Star;
  p.isConstexpr = fn.isConstexprParam(i);
  auto listed = [&](const std::vector<std::string> &names) {
    for (const std::string &n : names)
      if (n == p.name) return true;
    return false;
  };
  p.specialize = !listed(fn.doNotSpecialize);
  p.specializeAlignment = p.specialize && !listed(fn.doNotSpecializeOnAlignment);
  p.constPtr = fn.isConstParam(i);
  if (auto d = fn.annotatedDtype(i)) {
    p.constPtr |= d->isPtr && d->isConst;
    p.annotated = d->scalar != lang::Scalar::Void;
    p.annotation = *d;
  }
  if (i < fn.defaults.size() && !fn.defaults[i].isError()) {
    p.defaultValue = new TegulaValue(fn.defaultOf(i));
    p.defaultArg = argOf(p.defaultValue);
  } else if (p.variadic) {
    p.defaultArg.kind = TEGULA_ARG_TUPLE;
  }
  return p;
}

const std::vector<Param> &TegulaFunction::params() {
  if (sealed()) return params_;
  GateSection section;
  std::call_once(sealOnce_, [this] {
    for (size_t i = 0; i < fn->def->params.size(); ++i) params_.push_back(describe(*fn, i));
    sealed_.store(true, std::memory_order_release);
  });
  return params_;
}

size_t tegula_function_param_count(const TegulaFunction *f) { return f ? f->fn->def->params.size() : 0; }

TegulaStatus tegula_function_param(const TegulaFunction *f, size_t index, TegulaParam *out) {
  if (!f || !out || index >= f->fn->def->params.size())
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_function_param: no such parameter");
  // Before set-up ends the function may still change: then this describes its present state, without defaults.
  Param fresh;
  const Param *p = &fresh;
  if (f->sealed() || !f->mutableFn) p = &const_cast<TegulaFunction *>(f)->params()[index];
  else fresh = describe(*f->fn, index), release(std::exchange(fresh.defaultValue, nullptr));
  uint32_t flags = 0;
  if (p->isConstexpr) flags |= TEGULA_PARAM_CONSTEXPR;
  if (p->variadic) flags |= TEGULA_PARAM_VARIADIC;
  if (p->annotated && p->annotation.isPtr) flags |= TEGULA_PARAM_POINTER;
  if (p->constPtr) flags |= TEGULA_PARAM_CONST;
  if (!p->specialize) flags |= TEGULA_PARAM_DO_NOT_SPECIALIZE;
  if (p->specialize && !p->specializeAlignment) flags |= TEGULA_PARAM_DO_NOT_SPECIALIZE_ON_ALIGNMENT;
  *out = {f->paramNames[index].c_str(), flags,
          p->annotated ? static_cast<TegulaDtype>(p->annotation.scalar) : TegulaDtype(TEGULA_VOID), p->defaultValue};
  return TEGULA_OK;
}
