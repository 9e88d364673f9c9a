// The classes that launches can ask for: what api/Specialize.cpp notices of an argument, the other way round.
#include "api/Aot.h"
#include "api/Specialize.h"
#include "lang/Descriptor.h"
#include <cstdlib>
#include <cstring>

namespace tegula::api {

using sema::ParamSpec;

static constexpr int64_t noticed = 16; // the divisibility that launches look for

/// `p` null: an item of a tuple. `typed`: its type does not depend on its value, so that a 1 is nothing special (items of descriptors).
static std::vector<ParamSpec> leafClasses(const Param *p, const ParamSpec &given, bool typed) {
  const bool align = !p || p->specializeAlignment, annotated = p && p->annotated;
  // A folded 1 is an i32 whose value is known.
  const bool isOne = given.kind == ParamSpec::Kind::Constexpr && !(p && p->isConstexpr) && given.value.isInt() && given.value.asInt() == 1;
  if (given.kind == ParamSpec::Kind::Constexpr && !isOne) return {given};
  const lang::Dtype d = isOne ? lang::dtype(lang::Scalar::Int32) : given.dtype;
  std::vector<ParamSpec> out;
  const bool folds = !annotated && !typed && (!p || p->specialize) && d.isInt() && !d.isBool() && !d.isPtr && d.scalar == lang::Scalar::Int32;
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
    std::vector<ParamSpec> classes = item.kind == ParamSpec::Kind::Tuple ? tupleClasses(item, typed) : leafClasses(nullptr, item, typed);
    constexpr size_t most = 4096; // beyond that the rest relies on nothing
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

std::vector<ParamSpec> classesOf(const Param &p, const ParamSpec &given) {
  if (p.isConstexpr) return {given};
  if (given.kind != ParamSpec::Kind::Tuple) return leafClasses(&p, given, false);
  if (!given.isDescriptor()) return tupleClasses(given, false);
  // Whoever makes a descriptor on the host has its base aligned; extents and strides have one divisibility in a signature.
  const lang::Value &tf32 = given.items[static_cast<size_t>(lang::DescField::RoundTf32)].value;
  const lang::Value &padding = given.items[static_cast<size_t>(lang::DescField::Padding)].value;
  ir::Shape block;
  for (const ParamSpec &b : given.items[static_cast<size_t>(lang::DescField::BlockShape)].items) block.push(static_cast<int64_t>(b.value.asInt()));
  std::vector<ParamSpec> out;
  for (int64_t d : {noticed, int64_t(1)})
    out.push_back(ParamSpec::descriptor(given.items[0].dtype.pointee(), block, padding.isStr() && padding.asStr() == "nan", d, tf32.isBool() && tf32.asBool()));
  return out;
}

std::vector<ParamSpec> genericOf(const std::vector<Param> &params, const std::vector<ParamSpec> &given) {
  std::vector<ParamSpec> out;
  for (size_t i = 0; i < given.size(); ++i) out.push_back(classesOf(params[i], given[i]).back());
  return out;
}

bool allClasses(const std::vector<Param> &params, const std::vector<ParamSpec> &given, size_t limit, std::vector<std::vector<ParamSpec>> &out, uint64_t &count) {
  std::vector<std::vector<ParamSpec>> each;
  count = 1;
  for (size_t i = 0; i < given.size(); ++i) {
    each.push_back(classesOf(params[i], given[i]));
    if (__builtin_mul_overflow(count, uint64_t(each.back().size()), &count)) count = UINT64_MAX;
  }
  for (uint64_t n = 0; n < std::min<uint64_t>(count, limit); ++n) {
    std::vector<ParamSpec> &one = out.emplace_back(given.size());
    uint64_t rest = n;
    for (size_t i = given.size(); i-- > 0;) {
      one[i] = each[i][rest % each[i].size()], rest /= each[i].size();
      one[i].sameAs = given[i].sameAs;
    }
  }
  return count <= limit;
}

/// "i32:16", of one parameter.
static std::string classTextOf(const Param &p, const ParamSpec &s) {
  std::string text = signatureText({p}, {s});
  return text.substr(std::min(text.size(), p.name.size() + 1));
}

} // namespace tegula::api

using namespace tegula;
using namespace tegula::api;

TegulaStatus tegula_specializations(TegulaFunction *f, const char *signature, const TegulaNamedValue *constants, size_t constantCount, const TegulaLaunchOptions *options,
                                    size_t limit, char **json) {
  if (!f || !json || (constantCount && !constants)) return fail(TEGULA_INVALID_ARGUMENT, "tegula_specializations: null argument");
  GateSection section;
  CallOptions call;
  std::vector<sema::ParamSpec> specs;
  if (!f->context->resolve(options, call) || !parseSignature(*f, signature ? signature : "", constants, constantCount, specs)) return tegula_last_status();
  const std::vector<Param> &params = f->params();
  std::string text = "{\"kernel\":" + jsonString(f->fn->name) + ",\"parameters\":[";
  for (size_t i = 0; i < params.size(); ++i) {
    text += (i ? ",{\"name\":" : "{\"name\":") + jsonString(params[i].name) + ",\"classes\":[";
    std::vector<sema::ParamSpec> classes = classesOf(params[i], specs[i]);
    for (size_t k = 0; k < classes.size(); ++k) text += (k ? "," : "") + jsonString(classTextOf(params[i], classes[k]));
    text += "]}";
  }
  std::vector<std::vector<sema::ParamSpec>> all;
  uint64_t count;
  allClasses(params, specs, limit, all, count);
  text += "],\"count\":" + std::to_string(count) + ",\"signatures\":[";
  for (size_t i = 0; i < all.size(); ++i) text += (i ? "," : "") + jsonString(signatureText(params, all[i]));
  text += "]}";
  *json = strdup(text.c_str());
  return TEGULA_OK;
}
