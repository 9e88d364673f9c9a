#include "runtime/BundleMatch.h"
#include "runtime/AddressRange.h"
#include "runtime/PackScalar.h"
#include "tegula/bundle.h"
#include <span>

namespace tegula::runtime {

using Kind = BundleParam::Kind;
using Constant = BundleParam::Constant;

namespace {

/// The language's type of a number that has no annotation and no type from the caller.
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
    if (a.dtype != p.dtype)
      return no(name, std::string("is *") + (a.dtype <= TEGULA_FP64 ? dtypeInfo(a.dtype).name : "?") + ", not *" +
                          dtypeInfo(p.dtype).name);
    if (reinterpret_cast<uintptr_t>(a.u.ptr) % p.divisibility)
      return no(name, "is not aligned to " + std::to_string(p.divisibility) + " bytes");
    if (!record.options.wide &&
        ((a.flags & TEGULA_ARG_WIDE) || a.u2.extent >= bundleBigElements * dtypeInfo(p.dtype).bytes))
      return no(name, "has 2^30 elements or more");
    return add(a, name);
  }

  bool number(const BundleParam &p, const TegulaArg &a, const std::string &name) {
    bool isInteger = a.kind == TEGULA_ARG_INT || a.kind == TEGULA_ARG_UINT || a.kind == TEGULA_ARG_BOOL;
    if (!isInteger && a.kind != TEGULA_ARG_FLOAT) return no(name, "must be a number");
    bool isFloat = dtypeInfo(p.dtype).kind == DtypeInfo::Float;
    // An annotation accepts every number. Otherwise a number must have the type that the caller gives; without one, any
    // type that holds it fits (factsOf() prefers the type that the language would give it).
    TegulaDtype type = typeOf(a);
    bool same = p.checksRange ? isFloat || isInteger : a.dtype != TEGULA_VOID ? type == p.dtype : isFloat != isInteger;
    if (!same) return no(name, std::string("is ") + dtypeInfo(type).name + ", not " + dtypeInfo(p.dtype).name);
    bool holds = p.dtype != TEGULA_INT1 || !isInteger || p.checksRange || a.u.i == (a.u.i != 0);
    if (!isFloat && (!holds || !inRange(p.dtype, a)))
      return no(name,
                std::string("is ") + std::to_string(a.u.i) + ", which " + dtypeInfo(p.dtype).name + " does not hold");
    if (p.divisibility > 1 && a.u.i % p.divisibility)
      return no(name, "is not divisible by " + std::to_string(p.divisibility));
    return add(a, name);
  }

  bool constant(const BundleParam &p, const TegulaArg &a, const std::string &name) {
    if (a.kind == TEGULA_ARG_MISSING) return true; // any value that the bundle has
    bool same = false;
    switch (a.kind) {
    case TEGULA_ARG_NONE: same = p.constant == Constant::None; break;
    case TEGULA_ARG_BOOL:
    case TEGULA_ARG_INT:
      same = (p.constant == Constant::Int || p.constant == Constant::Bool) && a.u.i == p.number;
      break;
    case TEGULA_ARG_UINT: same = p.constant == Constant::Int && a.u.i == p.number && a.u.i >= 0; break;
    case TEGULA_ARG_FLOAT:
      same = p.constant == Constant::Float && (a.u.f == p.real || (a.u.f != a.u.f && p.real != p.real));
      break;
    case TEGULA_ARG_TEXT: {
      std::string_view text = a.u.ptr ? static_cast<const char *>(a.u.ptr) : "";
      same = p.text == text || (p.text.size() == text.size() + 2 && p.text[0] == '\'' &&
                                std::string_view(p.text).substr(1, text.size()) == text);
      break;
    }
    default: break;
    }
    return same || no(name, "is not " + p.text);
  }

  bool one(const BundleParam &p, const TegulaArg &a, const std::string &name) {
    if (p.kind == Kind::Runtime)
      return a.kind == TEGULA_ARG_MISSING ? no(name, "is missing") : p.isPtr ? pointer(p, a, name) : number(p, a, name);
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

bool isFact(const BundleParam &p) {
  return p.kind == Kind::Runtime ? p.divisibility > 1
                                 : p.kind == Kind::Constant && !p.isConstexpr && p.constant != Constant::None;
}

unsigned facts(const std::vector<BundleParam> &params) {
  unsigned n = 0;
  for (const BundleParam &p : params) {
    bool unusual = p.kind == Kind::Runtime && !p.isPtr && p.dtype != TEGULA_INT32 && p.dtype != TEGULA_FP32;
    n += p.kind == Kind::Tuple ? facts(p.items) : 2 * isFact(p) - unusual;
    // A kernel that reads through one argument what it writes through another is correct in this form only: it precedes
    // all forms that are only faster.
    constexpr unsigned mostFacts = 1000;
    n += p.sameAs >= 0 ? mostFacts : 0;
    // A form for any overlap is the last choice.
    n -= p.overlap ? 1 : 0;
  }
  return n;
}

/// The sharing that an entry allows for a pointer, items of tuples included.
struct Sharing {
  // the first parameter of the group with one buffer, -1: an item of a tuple; its BundleParam::overlap
  int32_t same, group;
  const std::string *name; // of the parameter
  /// May both share memory with each other?
  bool isWith(const Sharing &o) const { return (same >= 0 && same == o.same) || (group && group == o.group); }
};

/// Calls `f` with each run-time value of `p` (by item for descriptors and tuples), in the order of KernelInfo::args,
/// and its argument; `a` null: without a call. Stops at the first false from `f`, and returns it.
template <typename F> bool eachValue(const BundleParam &p, const TegulaArg *a, int32_t parameter, F &&f) {
  for (size_t i = 0; i < p.items.size(); ++i)
    if (!eachValue(p.items[i], a ? &a->u.items[i] : nullptr, -1, f)) return false;
  return p.kind != Kind::Runtime || f(p, a, parameter);
}

Sharing sharingOf(const BundleRecord &record, const BundleParam &p, int32_t parameter, size_t top) {
  const int32_t same = p.sameAs >= 0 ? p.sameAs : parameter;
  return {same, p.sameAs >= 0 ? record.params[static_cast<size_t>(same)].overlap : p.overlap, &record.params[top].name};
}

/// Does the entry allow every overlap of two pointers in this call, one of which the kernel writes?
bool knowsOverlaps(const BundleRecord &record, const TegulaArg *args, std::string *why) {
  struct Pointer {
    AddressRange at;
    Sharing sharing;
    TegulaDtype dtype;
    bool written;
  };
  Pointer seen[BundleCall::maxArgs];
  size_t count = 0, next = 0;
  for (size_t i = 0; i < record.params.size(); ++i) {
    const BundleParam &p = record.params[i];
    if (p.kind == Kind::Constant) continue;
    const auto at = static_cast<int32_t>(i);
    const bool known = eachValue(p, &args[i], at, [&](const BundleParam &v, const TegulaArg *a, int32_t parameter) {
      const bool written = record.info.args[next++].written;
      if (!v.isPtr) return true;
      const Pointer one{addressesOf(*a), sharingOf(record, v, parameter, i), v.dtype, written};
      for (const Pointer &o : std::span(seen, count)) {
        if (!one.at.meets(o.at) || !(one.written || o.written) || one.sharing.isWith(o.sharing)) continue;
        const Pointer &w = o.written ? o : one, &other = o.written ? one : o;
        if (why)
          *why = "`" + *w.sharing.name + "`, which the kernel writes, shares memory with `" + *other.sharing.name +
                 "`, which the entry was compiled without (" +
                 (one.dtype == o.dtype && one.at.begin == o.at.begin ? "one buffer, or " : "") +
                 "`:~1` behind both types in a signature)";
        return false;
      }
      seen[count++] = one;
      return true;
    });
    if (!known) return false;
  }
  return true;
}

/// "i32:16", "16 (a value)"
std::string textOf(const BundleParam &p) {
  if (p.kind == Kind::Tuple) return p.text.empty() ? "a tuple of " + std::to_string(p.items.size()) : p.text;
  if (p.kind == Kind::Constant) return p.text;
  return std::string(p.isPtr ? "*" : "") + dtypeInfo(p.dtype).name +
         (p.divisibility > 1 ? ":" + std::to_string(p.divisibility) : "") +
         (p.sameAs >= 0 ? " (the buffer of another argument)"
          : p.overlap   ? " (overlaps with others)"
                        : "");
}

bool coversOne(const BundleParam &g, const BundleParam &s) {
  if (g.kind == Kind::Tuple) {
    if (s.kind != Kind::Tuple || g.text != s.text || g.items.size() != s.items.size()) return false;
    for (size_t i = 0; i < g.items.size(); ++i)
      if (!coversOne(g.items[i], s.items[i])) return false;
    return true;
  }
  if (g.kind == Kind::Constant)
    return s.kind == Kind::Constant && g.constant == s.constant && g.text == s.text && g.isConstexpr == s.isConstexpr;
  // An int of 1 is an i32 with a known value.
  if (s.kind == Kind::Constant)
    return !s.isConstexpr && s.constant == Constant::Int && g.dtype == TEGULA_INT32 && !g.isPtr &&
           (g.divisibility == 1 || s.number % g.divisibility == 0);
  return s.kind == Kind::Runtime && g.dtype == s.dtype && g.isPtr == s.isPtr && s.divisibility % g.divisibility == 0 &&
         (g.sameAs < 0 || g.sameAs == s.sameAs);
}

/// Overlap is a relation between parameters: pointers that are the same or overlap in `special`, one of them written,
/// must do so in `general`, too. `special` has no info.
bool coversSharing(const BundleRecord &general, const BundleRecord &special) {
  auto all = [](const BundleRecord &record) {
    std::vector<Sharing> out;
    for (size_t i = 0; i < record.params.size(); ++i)
      eachValue(record.params[i], nullptr, static_cast<int32_t>(i),
                [&](const BundleParam &v, const TegulaArg *, int32_t parameter) {
                  if (v.isPtr)
                    out.push_back(sharingOf(record, v, parameter, i));
                  return true;
                });
    return out;
  };
  const std::vector<Sharing> g = all(general), s = all(special);
  std::vector<bool> written; // as g and s
  for (const ArgInfo &a : general.info.args)
    if (a.isPtr) written.push_back(a.written);
  if (g.size() != s.size() || g.size() != written.size()) return false;
  for (size_t i = 0; i < g.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (s[i].isWith(s[k]) && !g[i].isWith(g[k]) && (written[i] || written[k])) return false;
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
    if (g.params[i].name != s.params[i].name || !coversOne(g.params[i], s.params[i]))
      found.push_back(g.params[i].name + ":" + textOf(g.params[i]) + " for " + textOf(s.params[i]));
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
