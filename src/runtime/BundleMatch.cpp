#include "runtime/BundleMatch.h"
#include "runtime/PackScalar.h"
#include "tegula/bundle.h"

namespace tegula::runtime {

using Kind = BundleParam::Kind;
using Constant = BundleParam::Constant;

namespace {

/// The type that the language gives a number which no annotation and no caller types.
TegulaDtype typeOf(const TegulaArg &a) {
  if (a.dtype != TEGULA_VOID && a.dtype <= TEGULA_FP64) return a.dtype;
  switch (a.kind) {
  case TEGULA_ARG_BOOL: return TEGULA_INT1;
  case TEGULA_ARG_FLOAT: return TEGULA_FP32;
  case TEGULA_ARG_UINT:
    if (a.u.i < 0) return TEGULA_UINT64;
    [[fallthrough]];
  default: return a.u.i == static_cast<int32_t>(a.u.i) ? TEGULA_INT32 : TEGULA_INT64;
  }
}

struct Fitter {
  const BundleRecord &record;
  BundleCall &call;
  std::string *why;

  bool no(const std::string &name, const std::string &what) {
    if (why) *why = "`" + name + "` " + what;
    return false;
  }
  bool add(const TegulaArg &a, const std::string &name) {
    if (call.count == BundleCall::maxArgs) return no(name, "is one too many");
    call.args[call.count++] = &a;
    return true;
  }

  bool pointer(const BundleParam &p, const TegulaArg &a, const std::string &name) {
    if (a.kind != TEGULA_ARG_POINTER) return no(name, "must be a pointer");
    if (a.dtype != p.dtype) return no(name, std::string("is *") + (a.dtype <= TEGULA_FP64 ? dtypeInfo(a.dtype).name : "?") + ", not *" + dtypeInfo(p.dtype).name);
    if (reinterpret_cast<uintptr_t>(a.u.ptr) % p.divisibility) return no(name, "is not aligned to " + std::to_string(p.divisibility) + " bytes");
    if (!record.options.wide && ((a.flags & TEGULA_ARG_WIDE) || a.u2.extent >= bundleBigElements * dtypeInfo(p.dtype).bytes))
      return no(name, "has 2^30 elements or more");
    return add(a, name);
  }

  bool number(const BundleParam &p, const TegulaArg &a, const std::string &name) {
    bool isInteger = a.kind == TEGULA_ARG_INT || a.kind == TEGULA_ARG_UINT || a.kind == TEGULA_ARG_BOOL;
    if (!isInteger && a.kind != TEGULA_ARG_FLOAT) return no(name, "must be a number");
    bool isFloat = dtypeInfo(p.dtype).kind == DtypeInfo::Float;
    // An annotation takes every number. Else a number whose type the caller says is of that type, and another one of any that holds it (factsOf() has the types that the language would give it go first).
    TegulaDtype type = typeOf(a);
    bool same = p.checksRange ? isFloat || isInteger : a.dtype != TEGULA_VOID ? type == p.dtype : isFloat != isInteger;
    if (!same) return no(name, std::string("is ") + dtypeInfo(type).name + ", not " + dtypeInfo(p.dtype).name);
    bool holds = p.dtype != TEGULA_INT1 || !isInteger || p.checksRange || a.u.i == (a.u.i != 0);
    if (!isFloat && (!holds || !inRange(p.dtype, a))) return no(name, std::string("is ") + std::to_string(a.u.i) + ", which " + dtypeInfo(p.dtype).name + " does not hold");
    if (p.divisibility > 1 && a.u.i % p.divisibility) return no(name, "is not divisible by " + std::to_string(p.divisibility));
    return add(a, name);
  }

  bool constant(const BundleParam &p, const TegulaArg &a, const std::string &name) {
    if (a.kind == TEGULA_ARG_MISSING) return true; // any value that the bundle has
    bool same = false;
    switch (a.kind) {
    case TEGULA_ARG_NONE: same = p.constant == Constant::None; break;
    case TEGULA_ARG_BOOL:
    case TEGULA_ARG_INT: same = (p.constant == Constant::Int || p.constant == Constant::Bool) && a.u.i == p.number; break;
    case TEGULA_ARG_UINT: same = p.constant == Constant::Int && a.u.i == p.number && a.u.i >= 0; break;
    case TEGULA_ARG_FLOAT: same = p.constant == Constant::Float && (a.u.f == p.real || (a.u.f != a.u.f && p.real != p.real)); break;
    case TEGULA_ARG_TEXT: {
      std::string_view text = a.u.ptr ? static_cast<const char *>(a.u.ptr) : "";
      same = p.text == text || (p.text.size() == text.size() + 2 && p.text[0] == '\'' && std::string_view(p.text).substr(1, text.size()) == text);
      break;
    }
    default: break;
    }
    return same || no(name, "is not " + p.text);
  }

  bool one(const BundleParam &p, const TegulaArg &a, const std::string &name) {
    if (p.kind == Kind::Runtime) return a.kind == TEGULA_ARG_MISSING ? no(name, "is missing") : p.isPtr ? pointer(p, a, name) : number(p, a, name);
    if (p.kind == Kind::Constant) return constant(p, a, name);
    if (a.kind != TEGULA_ARG_TUPLE || a.count != p.items.size() || (a.count && !a.u.items))
      return no(name, p.isDescriptor ? "must be a " + p.text : "must be a tuple of " + std::to_string(p.items.size()));
    for (size_t i = 0; i < p.items.size(); ++i)
      if (!one(p.items[i], a.u.items[i], name)) {
        if (why && p.isDescriptor) *why += " as the " + p.text + " has it";
        return false;
      }
    return true;
  }
};

bool isFact(const BundleParam &p) { return p.kind == Kind::Runtime ? p.divisibility > 1 : p.kind == Kind::Constant && !p.isConstexpr && p.constant != Constant::None; }

unsigned facts(const std::vector<BundleParam> &params) {
  unsigned n = 0;
  for (const BundleParam &p : params) {
    bool unusual = p.kind == Kind::Runtime && !p.isPtr && p.dtype != TEGULA_INT32 && p.dtype != TEGULA_FP32;
    n += p.kind == Kind::Tuple ? facts(p.items) : 2 * isFact(p) - unusual;
    // What reads through one argument what it writes through another is right in this form only: it goes before all that is merely faster.
    constexpr unsigned mostFacts = 1000;
    n += p.sameAs >= 0 ? mostFacts : 0;
    // What serves any overlap is the last to be taken.
    n -= p.overlap ? 1 : 0;
  }
  return n;
}

/// The pointers among a call's arguments, each with what the entry has for it.
struct Pointer {
  const BundleParam *param;
  const TegulaArg *arg;
  bool written;
  int32_t parameter; // -1: an item of a tuple
  std::string name;
  uint64_t begin() const { return arg->u.u; }
  uint64_t end() const { return begin() + (begin() == 0 ? 0 : arg->u2.extent > 0 ? static_cast<uint64_t>(arg->u2.extent) : 1); }
};

void pointersOf(const BundleParam &p, const TegulaArg &a, int32_t parameter, const std::string &name, const KernelInfo &info, size_t &next, std::vector<Pointer> &out) {
  for (size_t i = 0; i < p.items.size(); ++i) pointersOf(p.items[i], a.u.items[i], -1, name, info, next, out);
  if (p.kind != Kind::Runtime) return;
  const bool written = info.args[next++].written;
  if (p.isPtr) out.push_back({&p, &a, written, parameter, name});
}

/// Has the entry a word for each two pointers that overlap in this call, of which the kernel writes one?
bool knowsOverlaps(const BundleRecord &record, const TegulaArg *args, std::string *why) {
  bool meets = false;
  uint64_t begins[BundleCall::maxArgs], ends[BundleCall::maxArgs];
  size_t count = 0;
  auto add = [&](auto &&self, const BundleParam &p, const TegulaArg &a) -> void {
    for (size_t i = 0; i < p.items.size(); ++i) self(self, p.items[i], a.u.items[i]);
    if (p.kind != Kind::Runtime || !p.isPtr || count == BundleCall::maxArgs) return;
    const Pointer one{&p, &a, false, -1, {}};
    const uint64_t begin = one.begin(), end = one.end();
    for (size_t i = 0; i < count; ++i) meets |= (begin < ends[i]) & (begins[i] < end);
    begins[count] = begin, ends[count++] = end;
  };
  for (size_t i = 0; i < record.params.size(); ++i)
    if (record.params[i].kind != Kind::Constant) add(add, record.params[i], args[i]);
  if (!meets) return true;
  std::vector<Pointer> pointers;
  size_t next = 0;
  for (size_t i = 0; i < record.params.size(); ++i)
    if (record.params[i].kind != Kind::Constant) pointersOf(record.params[i], args[i], static_cast<int32_t>(i), record.params[i].name, record.info, next, pointers);
  auto rootOf = [](const Pointer &p) { return p.param->sameAs >= 0 ? p.param->sameAs : p.parameter; };
  auto groupOf = [&](const Pointer &p) { return p.param->sameAs >= 0 ? record.params[static_cast<size_t>(p.param->sameAs)].overlap : p.param->overlap; };
  for (const Pointer &a : pointers)
    for (const Pointer &b : pointers) {
      if (&a == &b || !a.written || a.begin() >= b.end() || b.begin() >= a.end()) continue;
      if ((rootOf(a) >= 0 && rootOf(a) == rootOf(b)) || (groupOf(a) && groupOf(a) == groupOf(b))) continue;
      if (why)
        *why = "`" + a.name + "`, which the kernel writes, shares memory with `" + b.name + "`, which the entry was compiled without (" +
               (a.param->dtype == b.param->dtype && a.begin() == b.begin() ? "one buffer, or " : "") + "`:~1` behind both types in a signature)";
      return false;
    }
  return true;
}

/// "i32:16", "16 (a value)"
std::string textOf(const BundleParam &p) {
  if (p.kind == Kind::Tuple) return p.text.empty() ? "a tuple of " + std::to_string(p.items.size()) : p.text;
  if (p.kind == Kind::Constant) return p.text;
  return std::string(p.isPtr ? "*" : "") + dtypeInfo(p.dtype).name + (p.divisibility > 1 ? ":" + std::to_string(p.divisibility) : "") + (p.sameAs >= 0 ? " (the buffer of another argument)" : p.overlap ? " (overlaps with others)" : "");
}

bool coversOne(const BundleParam &g, const BundleParam &s) {
  if (g.kind == Kind::Tuple) {
    if (s.kind != Kind::Tuple || g.text != s.text || g.items.size() != s.items.size()) return false;
    for (size_t i = 0; i < g.items.size(); ++i)
      if (!coversOne(g.items[i], s.items[i])) return false;
    return true;
  }
  if (g.kind == Kind::Constant) return s.kind == Kind::Constant && g.constant == s.constant && g.text == s.text && g.isConstexpr == s.isConstexpr;
  // An int that is 1 is an i32 whose value happens to be known.
  if (s.kind == Kind::Constant)
    return !s.isConstexpr && s.constant == Constant::Int && g.dtype == TEGULA_INT32 && !g.isPtr && (g.divisibility == 1 || s.number % g.divisibility == 0);
  return s.kind == Kind::Runtime && g.dtype == s.dtype && g.isPtr == s.isPtr && s.divisibility % g.divisibility == 0 && (g.sameAs < 0 || g.sameAs == s.sameAs);
}

/// Whether pointers overlap is a matter between parameters: what is the same or overlaps in `special`, and is written, must do so in `general`, too. `special` has no info.
struct Sharing {
  int32_t same, group; // of the first of those that are one buffer
};
void sharingOf(const std::vector<BundleParam> &all, const BundleParam &p, int32_t parameter, std::vector<Sharing> &out) {
  for (const BundleParam &item : p.items) sharingOf(all, item, -1, out);
  if (p.kind != Kind::Runtime || !p.isPtr) return;
  const bool isSame = p.sameAs >= 0;
  out.push_back({isSame ? p.sameAs : parameter, isSame ? all[static_cast<size_t>(p.sameAs)].overlap : p.overlap});
}
bool coversSharing(const BundleRecord &general, const BundleRecord &special) {
  std::vector<Sharing> g, s;
  for (size_t i = 0; i < general.params.size(); ++i) sharingOf(general.params, general.params[i], static_cast<int32_t>(i), g);
  for (size_t i = 0; i < special.params.size(); ++i) sharingOf(special.params, special.params[i], static_cast<int32_t>(i), s);
  std::vector<bool> written; // as g and s
  for (const ArgInfo &a : general.info.args)
    if (a.isPtr) written.push_back(a.written);
  if (g.size() != s.size() || g.size() != written.size()) return false;
  auto meet = [](const Sharing &a, const Sharing &b) { return (a.same >= 0 && a.same == b.same) || (a.group && a.group == b.group); };
  for (size_t i = 0; i < g.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (meet(s[i], s[k]) && !meet(g[i], g[k]) && (written[i] || written[k])) return false;
  return true;
}

} // namespace

bool fits(const BundleRecord &record, const TegulaArg *args, size_t count, BundleCall &call, std::string *why) {
  static constexpr TegulaArg missing{};
  call.count = 0;
  Fitter f{record, call, why};
  if (count > record.params.size()) {
    if (why) *why = std::to_string(count) + " arguments were given, it takes " + std::to_string(record.params.size());
    return false;
  }
  for (size_t i = 0; i < record.params.size(); ++i) {
    const BundleParam &p = record.params[i];
    if (!f.one(p, i < count ? args[i] : missing, p.name)) return false;
    if (p.sameAs < 0) continue;
    const TegulaArg &a = args[i], &of = args[p.sameAs];
    if (a.u.u != of.u.u || a.u2.extent != of.u2.extent || (a.flags & of.flags & TEGULA_ARG_READ_ONLY))
      return f.no(p.name, "is not the buffer of `" + record.params[static_cast<size_t>(p.sameAs)].name + "`");
  }
  return knowsOverlaps(record, args, why);
}

unsigned factsOf(const BundleRecord &record) { return 1000 + facts(record.params); }

std::string differenceOf(const BundleRecord &g, const BundleRecord &s, unsigned *count) {
  std::vector<std::string> found;
  auto number = [&](const char *name, int32_t a, int32_t b) {
    if (a != b) found.push_back(std::string(name) + " " + std::to_string(a) + " for " + std::to_string(b));
  };
  const BundleOptions &a = g.options, &b = s.options;
  if (g.params.size() != s.params.size()) found.emplace_back("other parameters");
  for (size_t i = 0; i < std::min(g.params.size(), s.params.size()); ++i)
    if (g.params[i].name != s.params[i].name || !coversOne(g.params[i], s.params[i])) found.push_back(g.params[i].name + ":" + textOf(g.params[i]) + " for " + textOf(s.params[i]));
  number("num_warps", a.numWarps, b.numWarps), number("num_stages", a.numStages, b.numStages);
  number("num_ctas", a.numCtas, b.numCtas), number("maxnreg", a.maxnreg, b.maxnreg);
  if (a.other != b.other) found.emplace_back("other options (debug, checked, language level ...)");
  if (!coversSharing(g, s)) found.emplace_back("memory that arguments share");
  if (b.wide && !a.wide) found.emplace_back("no offsets of 64 bits");
  if (count) *count = static_cast<unsigned>(found.size());
  return found.empty() ? "" : found.front();
}

bool covers(const BundleRecord &general, const BundleRecord &special) { return differenceOf(general, special).empty(); }

} // namespace tegula::runtime
