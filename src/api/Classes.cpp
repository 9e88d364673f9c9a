// The classes that launches can ask for: the inverse of the facts that api/Specialize.cpp finds about an argument.
#include "api/Aot.h"
#include "api/Specialize.h"
#include "lang/Descriptor.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tegula::api {

using sema::ParamSpec;

static constexpr int64_t noticed = 16; // the divisibility that launches check for

/// `p` null: an item of a tuple. `typed`: its type does not depend on its value, so that a 1 is not special (items of
/// descriptors). `nulls`: as in BoundCall.
static std::vector<ParamSpec> leafClasses(const Param *p, const ParamSpec &given, bool typed, bool nulls = false) {
  const bool align = !p || (p->specializeAlignment && !nulls), annotated = p && p->annotated;
  // A folded 1 is an i32 with a known value.
  const bool isOne = given.kind == ParamSpec::Kind::Constexpr && !(p && p->isConstexpr) && given.value.isInt() &&
                     given.value.asInt() == 1;
  if (given.kind == ParamSpec::Kind::Constexpr && (!isOne || typed)) return {given};
  const lang::Dtype d = isOne ? lang::dtype(lang::Scalar::Int32) : given.dtype;
  std::vector<ParamSpec> out;
  const bool folds = !annotated && !typed && (!p || p->specialize) && d.isInt() && !d.isBool() && !d.isPtr &&
                     d.scalar == lang::Scalar::Int32;
  if (folds) out.push_back(ParamSpec::constant(lang::Value::integer(1)));
  if (align && (d.isPtr || (d.isInt() && !d.isBool()))) out.push_back(ParamSpec::runtime(d, noticed));
  out.push_back(ParamSpec::runtime(d, 1));
  return out;
}

/// Every combination of the items' classes, the first item changing slowest.
static std::vector<ParamSpec> tupleClasses(const ParamSpec &given, bool typed) {
  std::vector<ParamSpec> out(1, given);
  for (size_t i = 0; i < given.items.size(); ++i) {
    const ParamSpec &item = given.items[i];
    std::vector<ParamSpec> classes =
        item.kind == ParamSpec::Kind::Tuple ? tupleClasses(item, typed) : leafClasses(nullptr, item, typed);
    constexpr size_t most = 4096; // beyond that the remaining items have the class without facts
    if (out.size() * classes.size() > most) classes.erase(classes.begin(), classes.end() - 1);
    std::vector<ParamSpec> next;
    for (const ParamSpec &s : out)
      for (const ParamSpec &c : classes) {
        next.push_back(s);
        next.back().items[i] = c;
      }
    out = std::move(next);
  }
  return out;
}

/// In a descriptor each extent and each stride but the last is a multiple or not; descriptors made on the host have an
/// aligned base.
static std::vector<ParamSpec> descriptorClasses(const ParamSpec &given) {
  const auto shape = static_cast<size_t>(lang::DescField::Shape),
             strides = static_cast<size_t>(lang::DescField::Strides);
  std::vector<ParamSpec> out;
  for (const ParamSpec &s : tupleClasses(given.items[shape], true))
    for (const ParamSpec &t : tupleClasses(given.items[strides], true)) {
      out.push_back(given);
      out.back().items[0].divisibility = lang::descriptorGrain;
      out.back().items[shape] = s, out.back().items[strides] = t;
    }
  return out;
}

std::vector<ParamSpec> classesOf(const Param &p, const ParamSpec &given, bool nulls) {
  if (p.isConstexpr) return {given};
  if (given.kind != ParamSpec::Kind::Tuple) return leafClasses(&p, given, false, nulls);
  return given.isDescriptor() ? descriptorClasses(given) : tupleClasses(given, false);
}

static bool isPointer(const ParamSpec &s) { return s.kind == ParamSpec::Kind::Runtime && s.dtype.isPtr; }
static bool hasPointer(const ParamSpec &s) {
  return isPointer(s) || (s.kind == ParamSpec::Kind::Tuple && std::ranges::any_of(s.items, hasPointer));
}

std::vector<LaunchForm> formsOf(const std::vector<ParamSpec> &given, const CompileOptions &o) {
  std::vector<LaunchForm> out;
  const bool pointers = std::ranges::any_of(given, hasPointer);
  if (!o.wide) out.push_back({});
  if (o.wide || pointers) out.push_back({true, false});
  if (pointers && !o.checked) out.push_back({true, true});
  return out;
}

ClassList::ClassList(const std::vector<Param> &params, const std::vector<ParamSpec> &given, bool nulls)
    : given_(given) {
  for (size_t i = 0; i < given.size(); ++i) each_.push_back(classesOf(params[i], given[i], nulls));
  for (size_t i = 0; i < given.size(); ++i) {
    if (!isPointer(given[i]) || given[i].sameAs >= 0) continue;
    auto g = std::ranges::find_if(
        groups_, [&](const std::vector<size_t> &g) { return given[g[0]].dtype.scalar == given[i].dtype.scalar; });
    (g == groups_.end() ? groups_.emplace_back() : *g).push_back(i);
  }
  std::erase_if(groups_, [](const std::vector<size_t> &g) { return g.size() < 2; });
}

static uint64_t product(uint64_t a, uint64_t b) { return __builtin_mul_overflow(a, b, &a) ? UINT64_MAX : a; }
static uint64_t sum(uint64_t a, uint64_t b) { return __builtin_add_overflow(a, b, &a) ? UINT64_MAX : a; }

uint64_t ClassList::distinct() const {
  uint64_t n = 1;
  for (const std::vector<ParamSpec> &c : each_) n = product(n, c.size());
  return n;
}

/// Counts every division of a group into buffers; a buffer has two classes if its alignment is a fact of any parameter.
uint64_t ClassList::all() const {
  uint64_t n = 1;
  std::vector<bool> grouped(each_.size());
  for (const std::vector<size_t> &g : groups_) {
    // ways[a][b]: the number of divisions into a buffers with a fact about alignment and b others.
    const size_t size = g.size() + 1;
    std::vector<std::vector<uint64_t>> ways(size, std::vector<uint64_t>(size));
    ways[0][0] = 1;
    for (bool noticed : {true, false})
      for (size_t i : g) {
        grouped[i] = true;
        if ((each_[i].size() > 1) != noticed) continue;
        std::vector<std::vector<uint64_t>> next(size, std::vector<uint64_t>(size));
        for (size_t a = 0; a < size; ++a)
          for (size_t b = 0; b < size && a + b < size; ++b) {
            if (!ways[a][b]) continue;
            next[a][b] = sum(next[a][b], product(ways[a][b], a + b));
            if (a + b + 1 < size) {
              uint64_t &fresh = next[a + noticed][b + !noticed];
              fresh = sum(fresh, product(ways[a][b], noticed ? 2 : 1));
            }
          }
        ways = std::move(next);
      }
    uint64_t total = 0;
    for (const std::vector<uint64_t> &row : ways)
      for (uint64_t w : row) total = sum(total, w);
    n = product(n, total);
  }
  for (size_t i = 0; i < each_.size(); ++i)
    if (!grouped[i]) n = product(n, each_[i].size());
  return n;
}

void ClassList::make(size_t i, std::vector<ParamSpec> &specs, std::vector<int> &aligned, bool merged, size_t limit,
                     std::vector<std::vector<ParamSpec>> &out) const {
  if (out.size() >= limit) return;
  if (i == each_.size()) {
    if (merged) out.push_back(specs);
    return;
  }
  const bool noticed = each_[i].size() > 1;
  // `aligned`, for the first parameter of a buffer: 1 or 0 if it is known, -1: no parameter of the buffer so far has
  // that fact.
  for (const std::vector<size_t> &g : groups_)
    if (std::ranges::find(g, i) != g.end())
      for (size_t first : g) {
        if (first >= i) break;
        if (specs[first].sameAs >= 0) continue;
        const int before = aligned[first];
        for (int a : {1, 0}) {
          if (before >= 0 ? a != before : a && !noticed) continue;
          specs[i] = noticed && a ? each_[i].front() : each_[i].back();
          specs[i].sameAs = static_cast<int32_t>(first);
          if (noticed) aligned[first] = a;
          make(i + 1, specs, aligned, true, limit, out);
          aligned[first] = before;
        }
      }
  for (const ParamSpec &c : each_[i]) {
    specs[i] = c;
    specs[i].sameAs = given_[i].sameAs;
    if (specs[i].sameAs >= 0 && specs[static_cast<size_t>(specs[i].sameAs)].sameAs >= 0)
      specs[i].sameAs = specs[static_cast<size_t>(specs[i].sameAs)].sameAs;
    aligned[i] = noticed && isPointer(c) ? c.divisibility > 1 : -1;
    make(i + 1, specs, aligned, merged, limit, out);
  }
}

void ClassList::addDistinct(size_t limit, std::vector<std::vector<ParamSpec>> &out) const {
  const uint64_t count = distinct();
  for (uint64_t n = 0; n < std::min<uint64_t>(count, limit); ++n) {
    std::vector<ParamSpec> &one = out.emplace_back(each_.size());
    uint64_t rest = n;
    for (size_t i = each_.size(); i-- > 0;) {
      one[i] = each_[i][rest % each_[i].size()], rest /= each_[i].size();
      one[i].sameAs = given_[i].sameAs;
    }
  }
}

void ClassList::addMerged(size_t limit, std::vector<std::vector<ParamSpec>> &out) const {
  std::vector<ParamSpec> specs(each_.size());
  std::vector<int> aligned(each_.size(), -1);
  std::vector<std::vector<ParamSpec>> made;
  make(0, specs, aligned, false, limit, made);
  for (std::vector<ParamSpec> &m : made) out.push_back(std::move(m));
}

/// "i32:16", of one parameter.
static std::string classTextOf(const Param &p, const ParamSpec &s) {
  std::string text = signatureText({p}, {s});
  return text.substr(std::min(text.size(), p.name.size() + 1));
}

} // namespace tegula::api

using namespace tegula;
using namespace tegula::api;

TegulaStatus tegula_specializations(TegulaFunction *f, const char *signature, const TegulaNamedValue *constants,
                                    size_t constantCount, const TegulaLaunchOptions *options, size_t limit,
                                    char **json) {
  if (!f || !json || (constantCount && !constants))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_specializations: null argument");
  GateSection section;
  CallOptions call;
  std::vector<sema::ParamSpec> specs;
  if (!f->context->resolve(options, call) ||
      !parseSignature(*f, signature ? signature : "", constants, constantCount, specs))
    return tegula_last_status();
  const std::vector<Param> &params = f->params();
  const ClassList list(params, specs, false);
  auto names = [&](const std::vector<size_t> &g) {
    std::string text = "[";
    for (size_t i : g) text += (text.size() > 1 ? "," : "") + jsonString(params[i].name);
    return text + "]";
  };
  auto signatures = [&](const std::vector<std::vector<sema::ParamSpec>> &all) {
    std::string text = "[";
    for (const std::vector<sema::ParamSpec> &one : all)
      text += (text.size() > 1 ? "," : "") + jsonString(signatureText(params, one));
    return text + "]";
  };
  std::string text = "{\"kernel\":" + jsonString(f->fn->name) + ",\"parameters\":[";
  for (size_t i = 0; i < params.size(); ++i) {
    text += (i ? ",{\"name\":" : "{\"name\":") + jsonString(params[i].name) + ",\"classes\":[";
    for (size_t k = 0; k < list.each()[i].size(); ++k)
      text += (k ? "," : "") + jsonString(classTextOf(params[i], list.each()[i][k]));
    text += "]}";
  }
  std::vector<std::vector<sema::ParamSpec>> all;
  list.addDistinct(limit, all);
  text += "],\"count\":" + std::to_string(list.distinct()) + ",\"signatures\":" + signatures(all) + ",\"one_buffer\":[";
  for (const std::vector<size_t> &g : list.groups()) text += (&g == list.groups().data() ? "" : ",") + names(g);
  text += "],\"forms\":[";
  uint64_t total = 0;
  bool first = true;
  for (const LaunchForm &form : formsOf(specs, call.compile)) {
    const ClassList of(params, specs, form.nulls);
    all.clear();
    of.addDistinct(limit, all);
    of.addMerged(limit - std::min(limit, all.size()), all);
    total = sum(total, of.all());
    text += std::string(first ? "" : ",") + "{\"options\":{" + (form.wide ? "\"wide_offsets\":1" : "") +
            (form.nulls ? ",\"checked\":1" : "") + "},\"null_pointers\":" + (form.nulls ? "true" : "false") +
            ",\"count\":" + std::to_string(of.all()) + ",\"signatures\":" + signatures(all) + "}";
    first = false;
  }
  text += "],\"all\":" + std::to_string(total) + "}";
  *json = strdup(text.c_str());
  return TEGULA_OK;
}
