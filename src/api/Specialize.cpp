// One classification, used twice: `classify` decides the class of a leaf; bind() turns it into key words at every
// launch, specsOf() turns it into sema's terms when the key is new.
#include "api/Specialize.h"
#include "lang/Descriptor.h"
#include "runtime/Dtype.h"
#include <cstring>

namespace tegula::api {

using lang::Dtype;
using lang::Scalar;
using sema::ParamSpec;

namespace {
/// The specialization of a leaf.
struct Leaf {
  enum Kind : uint8_t { Runtime, ConstInt, ConstUint, ConstFloat, ConstBool, ConstNone, ConstValue, Bad } kind = Bad;
  Dtype dtype;              // Runtime
  bool divisible16 = false; // Runtime
};
} // namespace

bool isBig(const TegulaArg &a, TegulaDtype pointee) {
  return (a.flags & TEGULA_ARG_WIDE) || a.u2.extent >= bigTensorElements * runtime::dtypeInfo(pointee).bytes;
}

static bool fits32(int64_t v) { return v == static_cast<int32_t>(v); }

static Leaf constantLeaf(const TegulaArg &a) {
  switch (a.kind) {
  case TEGULA_ARG_INT: return {Leaf::ConstInt};
  case TEGULA_ARG_UINT: return {Leaf::ConstUint};
  case TEGULA_ARG_FLOAT: return {Leaf::ConstFloat};
  case TEGULA_ARG_BOOL: return {Leaf::ConstBool};
  case TEGULA_ARG_NONE: return {Leaf::ConstNone};
  case TEGULA_ARG_VALUE: return {a.u.value ? Leaf::ConstValue : Leaf::Bad};
  default: return {};
  }
}

/// A leaf of a tuple has no parameter of its own (`p` null): no annotation, specialisation on.
static Leaf classify(const Param *p, const TegulaArg &a, bool nulls) {
  if (p && p->isConstexpr) return constantLeaf(a);
  bool annotated = p && p->annotated, align = !p || (p->specializeAlignment && !nulls);
  switch (a.kind) {
  case TEGULA_ARG_POINTER: {
    if (annotated && !p->annotation.isPtr) return {};
    Scalar pointee = annotated ? p->annotation.scalar : static_cast<Scalar>(a.dtype);
    if (pointee == Scalar::Void || pointee > Scalar::Fp64) return {};
    return {Leaf::Runtime, Dtype::ptr(pointee, p && p->constPtr),
            align && reinterpret_cast<uintptr_t>(a.u.ptr) % 16 == 0};
  }
  case TEGULA_ARG_INT:
  case TEGULA_ARG_UINT: {
    bool big = a.kind == TEGULA_ARG_UINT && a.u.i < 0;
    if (annotated) {
      if (p->annotation.isPtr) return {};
      bool wide = p->annotation.isInt() && !p->annotation.isBool();
      return {Leaf::Runtime, p->annotation, wide && align && a.u.i % 16 == 0};
    }
    if (a.dtype != TEGULA_VOID && a.dtype <= TEGULA_FP64)
      return {Leaf::Runtime, lang::dtype(static_cast<Scalar>(a.dtype)),
              align && a.dtype <= TEGULA_UINT64 && a.u.i % 16 == 0};
    if (a.u.i == 1 && (!p || p->specialize)) return {Leaf::ConstInt};
    Scalar s = big ? Scalar::UInt64 : fits32(a.u.i) ? Scalar::Int32 : Scalar::Int64;
    return {Leaf::Runtime, lang::dtype(s), align && a.u.i % 16 == 0};
  }
  case TEGULA_ARG_FLOAT:
    if (annotated) return p->annotation.isFloat() ? Leaf{Leaf::Runtime, p->annotation} : Leaf{};
    return {Leaf::Runtime,
            lang::dtype(a.dtype >= TEGULA_FP16 && a.dtype <= TEGULA_FP64 ? Scalar(a.dtype) : Scalar::Fp32)};
  case TEGULA_ARG_BOOL:
    if (annotated) return p->annotation.isPtr ? Leaf{} : Leaf{Leaf::Runtime, p->annotation};
    return {Leaf::Runtime, lang::dtype(Scalar::Int1)};
  case TEGULA_ARG_NONE: return {Leaf::ConstNone};
  case TEGULA_ARG_VALUE: return {a.u.value ? Leaf::ConstValue : Leaf::Bad};
  default: return {};
  }
}

static const char *argKindName(uint8_t kind) {
  static constexpr const char *names[] = {"nothing", "a pointer", "an int", "an int", "a float",
                                          "a bool", "None", "an object", "a tuple"};
  return kind < sizeof names / sizeof names[0] ? names[kind] : "an argument of unknown kind";
}

static bool refuse(const TegulaFunction &f, const std::string &param, const Param *p, const TegulaArg &a) {
  std::string text = "`" + f.fn->name + "`: parameter `" + param + "` cannot take " + argKindName(a.kind);
  if (p && p->isConstexpr) text += "; it is a constexpr parameter";
  else if (p && p->annotated) text += "; it is annotated `" + lang::spelling(p->annotation) + "`";
  else if (a.kind == TEGULA_ARG_POINTER) text += " without an element type";
  fail(TEGULA_INVALID_ARGUMENT, std::move(text));
  return false;
}

int SeenPointers::meeting(unsigned last) {
  Seen &a = seen_[last];
  for (unsigned i = 0; i < last; ++i) {
    Seen &b = seen_[i];
    if (!a.at.meets(b.at) || (a.readOnly && b.readOnly)) continue;
    if (b.at.begin == a.at.begin && b.pointee == a.pointee && b.extent == a.extent && a.parameter != item &&
        b.parameter != item) {
      // It represents both from here on, and its overlaps from when neither was writable count now.
      if (b.readOnly)
        for (unsigned k = 0; k < last; ++k) overlap_ |= k != i && b.at.meets(seen_[k].at);
      b.readOnly = false;
      a.at.end = 0;
      return static_cast<int>(b.parameter);
    }
    overlap_ = true;
  }
  return -1;
}

unsigned SeenPointers::groups(uint8_t *out) const {
  uint8_t first[most]; // of its group so far
  for (unsigned i = 0; i < count_; ++i) {
    first[i] = static_cast<uint8_t>(i);
    for (unsigned k = 0; k < i; ++k) {
      if (!seen_[i].at.meets(seen_[k].at) || (seen_[i].readOnly && seen_[k].readOnly)) continue;
      const uint8_t a = std::min(first[i], first[k]), b = std::max(first[i], first[k]);
      std::replace(first, first + i + 1, b, a);
    }
  }
  uint8_t groups = 0, number[most] = {};
  for (unsigned i = 0; i < count_; ++i) {
    const bool isAlone = std::count(first, first + count_, first[i]) == 1;
    if (!isAlone && !number[first[i]]) number[first[i]] = ++groups;
    out[i] = isAlone ? 0 : number[first[i]];
  }
  return count_;
}

namespace {
struct Binder {
  TegulaFunction &f;
  BoundCall &out;
  SeenPointers pointers{};

  bool add(uint64_t w) {
    if (out.wordCount == BoundCall::maxWords) return tooMany();
    out.words[out.wordCount++] = w;
    return true;
  }
  /// Groups of overlapping pointers: one key word for each of their pointers.
  bool overlaps() {
    uint8_t groups[SeenPointers::most];
    const unsigned count = pointers.groups(groups);
    for (unsigned i = 0; i < count; ++i)
      if (groups[i] && !add(uint64_t(0x90) | uint64_t(i) << 8 | uint64_t(groups[i]) << 32)) return false;
    return true;
  }
  bool tooMany() {
    fail(TEGULA_INVALID_ARGUMENT,
         "`" + f.fn->name + "`: more than " + std::to_string(BoundCall::maxLeaves) + " arguments");
    return false;
  }
  static bool isTuple(const TegulaArg &a) { return a.kind == TEGULA_ARG_TUPLE && (a.count == 0 || a.u.items); }
  /// A tuple's class, if it has one, must be a namedtuple with that number of fields.
  bool classFits(const TegulaArg &a) {
    using ClassPtr = std::shared_ptr<const lang::RecordClass>;
    const lang::Value *cls = a.u2.cls ? &a.u2.cls->value : nullptr;
    if (!cls || (cls->is<ClassPtr>() && cls->get<ClassPtr>()->fields.size() == a.count)) return true;
    fail(TEGULA_INVALID_ARGUMENT,
         "`" + f.fn->name + "`: `" + lang::repr(*cls) + "` is no class of a tuple of " + std::to_string(a.count));
    return false;
  }
  bool open(const TegulaArg &a) {
    if (!classFits(a)) return false;
    const uint64_t *cls = a.u2.cls ? a.u2.cls->keyWords() : nullptr;
    return add(uint64_t(0x80) | uint64_t(a.count) << 8 | uint64_t(cls != nullptr) << 63) &&
           (!cls || (add(cls[0]) && add(cls[1])));
  }
  bool constantWords(Leaf::Kind kind, const TegulaArg &a) {
    if (!add(kind)) return false;
    switch (kind) {
    case Leaf::ConstInt:
    case Leaf::ConstUint:
    case Leaf::ConstFloat:
    case Leaf::ConstBool: return add(a.u.u);
    case Leaf::ConstValue: return add(a.u.value->keyWords()[0]) && add(a.u.value->keyWords()[1]);
    default: return true;
    }
  }
  /// A tuple for a constexpr parameter: one leaf, items by value.
  bool constant(const Param &p, const TegulaArg &a, int depth) {
    if (isTuple(a) && depth < 32) {
      if (!open(a)) return false;
      for (uint32_t i = 0; i < a.count; ++i)
        if (!constant(p, a.u.items[i], depth + 1)) return false;
      return true;
    }
    Leaf l = constantLeaf(a);
    return l.kind == Leaf::Bad ? refuse(f, p.name, &p, a) : constantWords(l.kind, a);
  }
  /// `number`: of the parameter.
  bool leaf(const Param *p, unsigned number, const std::string &name, const TegulaArg &a, int depth) {
    if (isTuple(a) && depth < 32 && !(p && p->annotated)) {
      if (!open(a)) return false;
      for (uint32_t i = 0; i < a.count; ++i)
        if (!leaf(nullptr, number, name, a.u.items[i], depth + 1)) return false;
      return true;
    }
    Leaf l = classify(p, a, out.nulls);
    if (l.kind == Leaf::Bad) return refuse(f, name, p, a);
    if (out.leafCount == BoundCall::maxLeaves) return tooMany();
    out.leaves[out.leafCount++] = &a;
    if (l.kind != Leaf::Runtime) return constantWords(l.kind, a);
    if (l.dtype.isPtr && isBig(a, static_cast<TegulaDtype>(l.dtype.scalar))) out.wide = true;
    const int same =
        l.dtype.isPtr ? pointers.add(p ? number : SeenPointers::item, static_cast<TegulaDtype>(l.dtype.scalar), a) : -1;
    return add(uint64_t(l.kind) | uint64_t(l.dtype.scalar) << 8 | uint64_t(l.dtype.isPtr) << 16 |
               uint64_t(l.dtype.isConst) << 17 | uint64_t(l.divisible16) << 18 | uint64_t(1) << 32 |
               uint64_t(same + 1) << 40);
  }
};
} // namespace

/// The argument of a parameter: given, default, or null with an error.
static const TegulaArg *argFor(const TegulaFunction &f, const Param &p, const TegulaArg *args, size_t count, size_t i) {
  if (i < count && args[i].kind != TEGULA_ARG_MISSING) return &args[i];
  if (p.defaultArg.kind != TEGULA_ARG_MISSING) return &p.defaultArg;
  fail(TEGULA_INVALID_ARGUMENT, "`" + f.fn->name + "`: no argument for parameter `" + p.name + "`");
  return nullptr;
}

bool bind(TegulaFunction &f, const TegulaArg *args, size_t count, const CompileOptions &options, BoundCall &out) {
  const std::vector<Param> &params = f.params();
  if (count > params.size()) {
    fail(TEGULA_INVALID_ARGUMENT, "`" + f.fn->name + "` takes " + std::to_string(params.size()) + " arguments, " +
                                      std::to_string(count) + " were given");
    return false;
  }
  Binder b{f, out};
  out.wide = options.wide || out.nulls;
  b.add(options.word());
  b.add(static_cast<uint64_t>(options.maxnreg) | uint64_t(options.facts.form) << 32);
  for (size_t i = 0; i < params.size(); ++i) {
    const Param &p = params[i];
    const TegulaArg *a = argFor(f, p, args, count, i);
    if (!a) return false;
    if (!p.isConstexpr) {
      if (!b.leaf(&p, static_cast<unsigned>(i), p.name, *a, 0)) return false;
      continue;
    }
    if (out.leafCount == BoundCall::maxLeaves) return b.tooMany();
    out.leaves[out.leafCount++] = a;
    if (!b.constant(p, *a, 0)) return false;
  }
  if (b.pointers.overlap() && !b.overlaps()) return false;
  if (out.wide) {
    CompileOptions wide = options;
    wide.wide = true;
    out.words[0] = wide.word();
  }
  return true;
}

static lang::Value constantValue(const TegulaArg &a) {
  switch (a.kind) {
  case TEGULA_ARG_INT: return lang::Value::integer(a.u.i);
  case TEGULA_ARG_UINT: return lang::Value::integer(a.u.u);
  case TEGULA_ARG_FLOAT: return lang::Value::number(a.u.f);
  case TEGULA_ARG_BOOL: return lang::Value::boolean(a.u.i != 0);
  case TEGULA_ARG_VALUE: return a.u.value->value;
  case TEGULA_ARG_TUPLE: {
    std::vector<lang::Value> items;
    for (uint32_t i = 0; i < a.count; ++i) items.push_back(constantValue(a.u.items[i]));
    using ClassPtr = std::shared_ptr<const lang::RecordClass>;
    if (!a.u2.cls || !a.u2.cls->value.is<ClassPtr>()) return lang::Value::tuple(std::move(items));
    auto r = std::make_shared<lang::RecordValue>();
    r->cls = a.u2.cls->value.get<ClassPtr>();
    r->fields = std::move(items);
    return lang::Value(std::shared_ptr<const lang::RecordValue>(std::move(r)));
  }
  default: return lang::Value::none();
  }
}

static ParamSpec specOf(const Param *p, const TegulaArg &a, bool nulls) {
  if (p && p->isConstexpr) return ParamSpec::constant(constantValue(a));
  if (a.kind == TEGULA_ARG_TUPLE) {
    ParamSpec s;
    s.kind = ParamSpec::Kind::Tuple;
    using ClassPtr = std::shared_ptr<const lang::RecordClass>;
    if (a.u2.cls && a.u2.cls->value.is<ClassPtr>()) s.recordClass = a.u2.cls->value.get<ClassPtr>();
    for (uint32_t i = 0; i < a.count; ++i) s.items.push_back(specOf(nullptr, a.u.items[i], nulls));
    return s;
  }
  Leaf l = classify(p, a, nulls);
  return l.kind == Leaf::Runtime ? ParamSpec::runtime(l.dtype, l.divisible16 ? 16 : 1)
                                 : ParamSpec::constant(constantValue(a));
}

std::vector<ParamSpec> specsOf(TegulaFunction &f, const TegulaArg *args, size_t count, bool nulls) {
  std::vector<ParamSpec> specs;
  const std::vector<Param> &params = f.params();
  SeenPointers pointers;
  specs.reserve(params.size());
  std::vector<ParamSpec *> ofPointers; // in the order of add()
  auto visit = [&](auto &&self, ParamSpec &s, const TegulaArg &a, uint32_t parameter) -> void {
    for (size_t i = 0; i < s.items.size(); ++i) self(self, s.items[i], a.u.items[i], SeenPointers::item);
    if (s.kind != ParamSpec::Kind::Runtime || !s.dtype.isPtr) return;
    s.sameAs = pointers.add(parameter, static_cast<TegulaDtype>(s.dtype.scalar), a);
    ofPointers.push_back(&s);
  };
  for (size_t i = 0; i < params.size(); ++i) {
    const TegulaArg &a = *argFor(f, params[i], args, count, i);
    visit(visit, specs.emplace_back(specOf(&params[i], a, nulls)), a, static_cast<uint32_t>(i));
  }
  if (pointers.overlap()) {
    uint8_t groups[SeenPointers::most];
    for (unsigned i = 0, n = pointers.groups(groups); i < n; ++i) ofPointers[i]->overlap = groups[i];
  }
  return specs;
}

std::vector<int64_t> integersOf(const std::vector<ParamSpec> &specs, const TegulaArg *const *leaves) {
  std::vector<int64_t> values;
  auto visit = [&](auto &&self, const ParamSpec &s) -> void {
    if (s.kind == ParamSpec::Kind::Tuple) {
      for (const ParamSpec &item : s.items) self(self, item);
      return;
    }
    if (s.kind == ParamSpec::Kind::Runtime) values.push_back(s.dtype.isInt() ? (*leaves)->u.i : 0);
    ++leaves;
  };
  for (const ParamSpec &s : specs) visit(visit, s);
  return values;
}

uint32_t leavesOf(const ParamSpec &spec) {
  if (spec.kind != ParamSpec::Kind::Tuple) return 1;
  uint32_t n = 0;
  for (const ParamSpec &s : spec.items) n += leavesOf(s);
  return n;
}

/// The divisibility of the extents and strides (not the last) of a descriptor: ":16" all of them, ":[1, 16; 16]" each,
/// extents first; "" is 1.
static std::string divisibilityText(const ParamSpec &descriptor) {
  const auto &shape = descriptor.items[static_cast<size_t>(lang::DescField::Shape)].items,
             &strides = descriptor.items[static_cast<size_t>(lang::DescField::Strides)].items;
  const int64_t first = shape.empty() ? 1 : shape[0].divisibility;
  bool same = true;
  std::string text;
  for (const auto *list : {&shape, &strides})
    for (size_t i = 0; i + (list == &strides) < list->size(); ++i) {
      same = same && (*list)[i].divisibility == first;
      text += (text.empty() ? "" : i ? ", " : "; ") + std::to_string((*list)[i].divisibility);
    }
  return same ? first > 1 ? ":" + std::to_string(first) : "" : ":[" + text + "]";
}

/// A constant in a signature: data types by their short names.
static std::string constantText(const lang::Value &v) {
  if (v.isDtype()) return lang::code(v.asDtype());
  if (!v.isTuple()) return lang::repr(v.withoutMember());
  std::string text;
  for (const lang::Value &item : v.items()) text += (text.empty() ? "" : ", ") + constantText(item);
  return "(" + text + (v.items().size() == 1 ? ",)" : ")");
}

/// ":~1": memory that overlaps with that of others with this number.
static std::string overlapText(const ParamSpec &s) { return s.overlap ? ":~" + std::to_string(s.overlap) : ""; }

static std::string specText(const ParamSpec &s, bool exact) {
  if (s.kind == ParamSpec::Kind::Constexpr) return exact ? "=" + lang::key(s.value) : constantText(s.value);
  if (s.kind == ParamSpec::Kind::Runtime)
    return lang::code(s.dtype) + (s.divisibility > 1 ? ":" + std::to_string(s.divisibility) : "") +
           (exact && s.sameAs >= 0 ? "@" + std::to_string(s.sameAs) : "") + overlapText(s);
  if (!exact && s.isDescriptor())
    return sema::descriptorText(s) + divisibilityText(s) +
           overlapText(s.items[static_cast<size_t>(lang::DescField::Base)]);
  std::string text = s.recordClass ? s.recordClass->name + "(" : "(";
  if (exact && s.recordClass)
    for (const std::string &field : s.recordClass->fields) text += field + ",";
  const bool named = !exact && s.recordClass && s.recordClass->kind == lang::RecordClass::Kind::NamedTuple;
  for (size_t i = 0; i < s.items.size(); ++i)
    text += (i ? ", " : "") + (named ? s.recordClass->fields[i] + "=" : "") + specText(s.items[i], exact);
  return text + ")";
}

std::string parameterText(const std::vector<Param> &params, const std::vector<ParamSpec> &specs, size_t i) {
  const ParamSpec &s = specs[i];
  return params[i].name + ":" + specText(s, false) +
         (s.sameAs >= 0 && static_cast<size_t>(s.sameAs) < params.size()
              ? ":" + params[static_cast<size_t>(s.sameAs)].name
              : "");
}

std::string signatureText(const std::vector<Param> &params, const std::vector<ParamSpec> &specs) {
  std::string text;
  for (size_t i = 0; i < specs.size() && i < params.size(); ++i)
    text += (i ? ", " : "") + parameterText(params, specs, i);
  return text;
}

std::string specKey(const std::vector<ParamSpec> &specs) {
  std::string text;
  for (const ParamSpec &s : specs) {
    std::string one = specText(s, true);
    text += std::to_string(one.size()) + ":" + one;
  }
  return text;
}

} // namespace tegula::api
