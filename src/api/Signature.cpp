// Compiles from a description of the arguments: "x:*f32:16, n:i32, BLOCK:1024" and named constants.
#include "api/Compile.h"
#include "api/Specialize.h"
#include "lang/Descriptor.h"
#include "support/Bits.h"
#include "support/Text.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tegula::api {

static std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t' || s.front() == '\n')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\n')) s.remove_suffix(1);
  return s;
}

/// Length up to the next `stop` outside quotes and parentheses; in quotes a backslash escapes the next character.
static size_t itemEnd(std::string_view s, char stop) {
  char quote = 0;
  int depth = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    if (quote) quote = s[i] == quote ? 0 : quote, i += s[i] == '\\';
    else if (s[i] == '"' || s[i] == '\'') quote = s[i];
    else if (s[i] == '(' || s[i] == '[') ++depth;
    else if (s[i] == ')' || s[i] == ']') --depth;
    else if (s[i] == stop && depth <= 0) return i;
  }
  return s.size();
}

static bool bad(std::string text) {
  fail(TEGULA_INVALID_ARGUMENT, std::move(text));
  return false;
}

/// A positive number below 2^20; 0: the text is not one.
static int64_t parseDivisibility(std::string_view digits) {
  int64_t v = 0;
  for (char c : digits) {
    if (c < '0' || c > '9' || v >= 1 << 20) return 0;
    v = v * 10 + (c - '0');
  }
  return v <= 1 << 20 ? v : 0;
}

/// "1, 16; 16": for each extent, then for each stride but the last. False: not such a list, or one of another rank.
static bool parseDivisibilities(std::string_view text, sema::ParamSpec &descriptor) {
  auto &shape = descriptor.items[static_cast<size_t>(lang::DescField::Shape)].items,
       &strides = descriptor.items[static_cast<size_t>(lang::DescField::Strides)].items;
  std::string_view rest = text;
  for (auto *list : {&shape, &strides}) {
    const size_t count = list->size() - (list == &strides);
    for (size_t i = 0; i < count; ++i) {
      const bool last = i + 1 == count && (list == &strides || strides.size() == 1);
      size_t n = last ? rest.size() : rest.find(i + 1 == count ? ';' : ',');
      if (n == rest.npos || ((*list)[i].divisibility = parseDivisibility(trim(rest.substr(0, n)))) < 1) return false;
      rest = last ? std::string_view() : rest.substr(n + 1);
    }
  }
  return true;
}

/// "tensordesc<fp16[128, 64]>" with any of the suffixes ":nan", ":tf32", and ":16" (extents and strides are multiples
/// of that) or ":[1, 16; 16]" (a number for each).
static bool parseDescriptor(const std::string &name, std::string_view text, sema::ParamSpec &spec) {
  auto wrong = [&](const std::string &why) { return bad("signature: `" + name + "`: " + why); };
  size_t end = text.find('>'), open = text.find('[');
  std::string_view inner = text.substr(0, end);
  if (end == text.npos || open > end || inner.back() != ']') return wrong("write tensordesc<dtype[block, shape]>");
  auto element = lang::parseDtype(trim(inner.substr(0, open)));
  if (!element || element->isPtr || element->isVoid())
    return wrong("`" + std::string(trim(inner.substr(0, open))) + "` is not a data type");
  ir::Shape block;
  std::string_view extents = inner.substr(open + 1, inner.size() - open - 2);
  for (bool more = true; more;) {
    size_t comma = extents.find(',');
    int64_t n = parseDivisibility(trim(extents.substr(0, comma)));
    if (!isPowerOfTwo(n) || block.rank() == lang::maxDescriptorRank)
      return wrong("a descriptor has blocks of 1 to 5 extents that are powers of 2");
    block.push(n);
    more = comma != extents.npos;
    if (more) extents.remove_prefix(comma + 1);
  }
  if (block[block.rank() - 1] * static_cast<int64_t>(std::max(8u, element->bits())) <
      8 * int64_t(lang::descriptorGrain))
    return wrong("Descriptor block shape must have at least 16 bytes in the last dimension");
  bool nan = false, tf32 = false;
  int64_t divisibility = 1;
  std::string_view each;
  for (std::string_view rest = trim(text.substr(end + 1)); !rest.empty();) {
    if (rest[0] != ':') return wrong("unexpected `" + std::string(rest) + "` behind the type");
    size_t n = std::min(rest.find(':', 1), rest.size());
    std::string_view item = trim(rest.substr(1, n - 1));
    rest.remove_prefix(n);
    if (item == "nan") nan = true;
    else if (item == "tf32") tf32 = true;
    else if (item.starts_with('[') && item.ends_with(']')) each = item;
    else if ((divisibility = parseDivisibility(item)) < 1)
      return wrong("`" + std::string(item) + "` is neither `nan`, `tf32` nor a divisibility");
  }
  if (nan && !element->isFloat()) return wrong("padding with NaN needs floats");
  if (tf32 && element->scalar != lang::Scalar::Fp32) return wrong("rounding to tf32 needs float32");
  spec = sema::ParamSpec::descriptor(*element, block, nan, divisibility, tf32);
  if (!each.empty() && !parseDivisibilities(each.substr(1, each.size() - 2), spec))
    return wrong("`" + std::string(each) +
                 "` is not what divides each extent and each stride but the last: [1, 16; 16]");
  return true;
}

static bool parseItem(const std::string &name, std::string_view text, sema::ParamSpec &spec, unsigned depth = 0);

/// The length of the name before "Name(...)", if Python allows it; 0 if there is none.
static size_t nameLength(std::string_view text) {
  auto isPart = [](unsigned char c) {
    return c == '_' || c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  size_t n = 0;
  while (n < text.size() && isPart(text[n])) ++n;
  return n && text[0] >= '0' && text[0] <= '9' ? 0 : n;
}

/// "(item, item)": a tuple as signatureText() writes it; "(item)" or "(item,)" for one item. "Name(field=item,
/// field=item)" is a named one.
static bool parseTuple(const std::string &name, std::string_view text, sema::ParamSpec &spec, unsigned depth) {
  constexpr unsigned deepest = 64;
  if (depth == deepest)
    return bad("signature: `" + name + "`: tuples are nested more than " + std::to_string(deepest) + " deep");
  const size_t named = nameLength(text);
  if (text.back() != ')') return bad("signature: `" + name + "`: a tuple is written (item, item)");
  spec = {};
  spec.kind = sema::ParamSpec::Kind::Tuple;
  auto cls = std::make_shared<lang::RecordClass>();
  cls->name = text.substr(0, named);
  text.remove_prefix(named);
  for (std::string_view rest = trim(text.substr(1, text.size() - 2)); !rest.empty();) {
    size_t n = itemEnd(rest, ',');
    std::string_view item = trim(rest.substr(0, n));
    if (named) {
      const size_t field = nameLength(item);
      const std::string_view behind = trim(item.substr(field));
      if (!field || !behind.starts_with('='))
        return bad("signature: `" + name + "`: a named tuple is written " + cls->name + "(field=item, field=item)");
      if (std::find(cls->fields.begin(), cls->fields.end(), item.substr(0, field)) != cls->fields.end())
        return bad("signature: `" + name + "`: two fields `" + std::string(item.substr(0, field)) + "`");
      cls->fields.emplace_back(item.substr(0, field));
      item = trim(behind.substr(1));
    }
    if (!parseItem(name, item, spec.items.emplace_back(), depth + 1)) return false;
    rest = trim(n < rest.size() ? rest.substr(n + 1) : std::string_view());
  }
  if (named) spec.recordClass = std::move(cls);
  return true;
}

/// The value for a constexpr parameter: types are values. An error value for a tensor descriptor, which is not allowed.
static lang::Value valueOf(const sema::ParamSpec &spec) {
  if (spec.kind == sema::ParamSpec::Kind::Constexpr) return spec.value;
  if (spec.kind == sema::ParamSpec::Kind::Runtime) return lang::Value::type(spec.dtype);
  std::vector<lang::Value> items;
  for (const sema::ParamSpec &s : spec.items)
    if (items.push_back(valueOf(s)); items.back().isError()) return lang::Value::error();
  if (!spec.recordClass) return lang::Value::tuple(std::move(items));
  if (spec.isDescriptor()) return lang::Value::error();
  return lang::Value(std::make_shared<const lang::RecordValue>(spec.recordClass, std::move(items)));
}

/// Cuts from `text` the suffix of a pointer or a descriptor whose memory may overlap with that of others with the
/// same number: "*fp32:16:~1".
static bool takeOverlap(const std::string &name, std::string_view &text, int32_t &overlap) {
  const size_t mark = text.rfind(":~");
  if (mark == text.npos) return true;
  const std::string_view digits = trim(text.substr(mark + 2));
  const int64_t number = parseDivisibility(digits); // any positive number
  if (number < 1 || number > INT32_MAX)
    return bad("signature: `" + name + "`: `~" + std::string(digits) +
               "` is no group of pointers that overlap, which are counted from 1");
  overlap = static_cast<int32_t>(number);
  text = trim(text.substr(0, mark));
  return true;
}

/// "type", "type:divisibility", a literal or a tuple of them, named or not; pointers and descriptors with ":~group".
static bool parseItem(const std::string &name, std::string_view text, sema::ParamSpec &spec, unsigned depth) {
  if (size_t n = nameLength(text); n < text.size() && text[n] == '(') return parseTuple(name, text, spec, depth);
  constexpr std::string_view descriptor = "tensordesc<";
  const bool isDescriptor = text.starts_with(descriptor);
  int32_t overlap = 0;
  if ((isDescriptor || text.starts_with('*')) && !takeOverlap(name, text, overlap)) return false;
  if (isDescriptor) {
    if (!parseDescriptor(name, text.substr(descriptor.size()), spec)) return false;
    spec.items[static_cast<size_t>(lang::DescField::Base)].overlap = overlap;
    return true;
  }
  size_t colon = itemEnd(text, ':');
  std::string_view type = trim(text.substr(0, colon));
  if (auto d = lang::parseDtype(type)) {
    int64_t divisibility = 1;
    if (colon < text.size()) {
      std::string_view digits = trim(text.substr(colon + 1));
      divisibility = parseDivisibility(digits);
      if (divisibility < 1)
        return bad("signature: `" + name + "`: the divisibility `" + std::string(digits) +
                   "` is not a positive number");
    }
    if (d->isVoid()) return bad("signature: `" + name + "` cannot be void");
    spec = sema::ParamSpec::runtime(*d, divisibility);
    spec.overlap = overlap;
    return true;
  }
  if (colon < text.size()) return bad("signature: `" + name + "`: `" + std::string(type) + "` is not a data type");
  // tegula_value_parse() would stop at a NUL.
  TegulaValue *v = type.find('\0') == type.npos ? tegula_value_parse(std::string(type).c_str()) : nullptr;
  if (!v) return bad("signature: `" + name + "`: `" + std::string(type) + "` is neither a data type nor a constant");
  spec = sema::ParamSpec::constant(v->value);
  release(v);
  return true;
}

static int indexOf(const std::vector<Param> &params, std::string_view name) {
  for (size_t i = 0; i < params.size(); ++i)
    if (params[i].name == name) return static_cast<int>(i);
  return -1;
}

static bool unknownName(const TegulaFunction &f, const std::vector<Param> &params, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Param &p : params) names.push_back(p.name);
  std::string_view near = nearest(name, names);
  return bad("`" + f.fn->name + "` has no parameter `" + std::string(name) + "`" +
             (near.empty() ? "" : "; did you mean `" + std::string(near) + "`?"));
}

/// Cuts from `item` the suffix after the type of a pointer: "*fp32:16:x" is the buffer of `x`, an earlier pointer of
/// that type. `sameAs` -1: there is no suffix.
static bool takeSame(const std::vector<Param> &params, const std::string &name, std::string_view &item,
                     int32_t &sameAs) {
  sameAs = -1;
  size_t colon = item.rfind(':');
  if (!item.starts_with('*') || colon == item.npos) return true;
  std::string_view of = trim(item.substr(colon + 1));
  if (of.empty() || (of[0] >= '0' && of[0] <= '9') || of[0] == '~') return true;
  item = trim(item.substr(0, colon));
  sameAs = indexOf(params, of);
  return sameAs >= 0 || bad("signature: `" + name + "`: `" + std::string(of) +
                            "` is neither a divisibility nor a parameter that is the same buffer");
}

bool parseSignature(TegulaFunction &f, std::string_view signature, const TegulaNamedValue *constants, size_t count,
                    std::vector<sema::ParamSpec> &specs) {
  const std::vector<Param> &params = f.params();
  std::vector<bool> given(params.size(), false);
  specs.assign(params.size(), {});
  auto take = [&](std::string_view name, int &index) {
    index = indexOf(params, name);
    if (index < 0) return unknownName(f, params, name);
    if (given[index]) return bad("parameter `" + std::string(name) + "` is given twice");
    given[index] = true;
    return true;
  };
  int index;
  for (std::string_view rest = trim(signature); !rest.empty();) {
    size_t n = itemEnd(rest, ',');
    std::string_view item = trim(rest.substr(0, n));
    rest = trim(n < rest.size() ? rest.substr(n + 1) : std::string_view());
    size_t colon = item.find(':');
    if (colon == item.npos) return bad("signature: `" + std::string(item) + "` is not of the form name:type");
    std::string name(trim(item.substr(0, colon)));
    std::string_view type = trim(item.substr(colon + 1));
    int32_t sameAs;
    if (!take(name, index) || !takeSame(params, name, type, sameAs) || !parseItem(name, type, specs[index]))
      return false;
    specs[index].sameAs = sameAs;
    if (!params[index].isConstexpr) continue;
    specs[index] = sema::ParamSpec::constant(valueOf(specs[index]));
    if (specs[index].value.isError())
      return bad("signature: `" + name + "` is a constexpr parameter, which cannot take a tensor descriptor");
  }
  for (size_t i = 0; i < count; ++i) {
    if (!constants[i].name || !constants[i].value) return bad("a constant without name or value");
    if (!take(constants[i].name, index)) return false;
    specs[index] = sema::ParamSpec::constant(constants[i].value->value);
  }
  for (size_t i = 0; i < params.size(); ++i) {
    if (given[i]) continue;
    if (params[i].variadic) specs[i].kind = sema::ParamSpec::Kind::Tuple;
    else if (params[i].defaultValue) specs[i] = sema::ParamSpec::constant(params[i].defaultValue->value);
    else
      return bad("`" + f.fn->name + "`: parameter `" + params[i].name +
                 "` has neither a type in the signature nor a value among the constants");
  }
  return sema::sameAsFits(specs) ||
         bad("signature: what is the same buffer as a parameter must stand behind it, be of its type, and name the first of them");
}

/// A device of this machine that runs the request's target, if there is one: the call's own; for CPU and simulator code
/// the CPU or the simulator.
static bool findHome(TegulaContext &c, DeviceEntry *device, CompileRequest &r) {
  runtime::Status status;
  if (r.target.isCpu()) {
    const Target &host = c.hostTarget();
    if (r.target.sameCode(host)) r.target.name = host.name;
    r.device = host->runs(*r.target.what) ? c.device(DeviceIndex::cpu, status) : nullptr;
  } else if (r.target.isSim()) {
    int32_t index;
    if (c.findDevice(r.target.name, index, status)) r.device = c.device(index, status);
  } else if (r.target.sameCode(device->target)) {
    r.device = device;
    r.target = device->target;
  }
  if (r.device) r.options.device = static_cast<uint8_t>(r.device->index);
  return true;
}

/// "n=4096, m=16": numbers of integer parameters, added to the known facts of launches. False: the last error is set.
static bool readIntegers(std::string_view text, TegulaFunction &f, CompileRequest &r) {
  const std::vector<Param> &params = f.params();
  std::vector<int64_t> &values = r.options.facts.arguments;
  std::vector<size_t> first; // run-time argument of each parameter
  auto count = [&](auto &&self, const sema::ParamSpec &s) -> size_t {
    size_t n = s.kind == sema::ParamSpec::Kind::Runtime;
    for (const sema::ParamSpec &item : s.items) n += s.kind == sema::ParamSpec::Kind::Tuple ? self(self, item) : 0;
    return n;
  };
  for (const sema::ParamSpec &s : r.specs)
    first.push_back(values.size()), values.resize(values.size() + count(count, s), LaunchFacts::notKnown);
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size()), begin = text.find_first_not_of(' '),
                 equal = std::min(text.find('='), end);
    const std::string name(text.substr(std::min(begin, end), equal - std::min(begin, equal))),
        number(text.substr(std::min(equal + 1, end), end - std::min(equal + 1, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto p = std::ranges::find(params, name, &Param::name);
    char *rest = nullptr;
    const int64_t value = std::strtoll(number.c_str(), &rest, 10);
    if (p == params.end() || number.empty() || *rest) {
      fail(TEGULA_INVALID_ARGUMENT,
           "`" + name + "=" + number + "` is no integer of a parameter of `" + f.fn->name + "`");
      return false;
    }
    const auto i = static_cast<size_t>(p - params.begin());
    if (const sema::ParamSpec &s = r.specs[i];
        s.kind == sema::ParamSpec::Kind::Runtime && s.dtype.isInt() && !s.dtype.isPtr)
      values[first[i]] = value;
  }
  return true;
}

/// Everything except the compilation itself. False: the last error is set.
static bool prepare(TegulaFunction *f, const char *signature, const TegulaNamedValue *constants, size_t count,
                    const char *target, const TegulaLaunchOptions *options, CompileRequest &r) {
  CallOptions call;
  if (!f->context->resolve(options, call) || !parseSignature(*f, signature ? signature : "", constants, count, r.specs))
    return false;
  r.function = f;
  r.options = call.compile;
  if (call.integers && !readIntegers(call.integers, *f, r)) return false;
  return chooseTarget(*f->context, target, call, r);
}

bool chooseTarget(TegulaContext &c, const char *target, const CallOptions &call, CompileRequest &r) {
  runtime::Status status;
  DeviceEntry *device = c.device(call.device, status);
  if (!device) return fail(status), false;
  if (!target || !*target) {
    if (!device->unusable) return fail(device->unusable), false;
    r.target = device->target;
    r.device = device;
    return true;
  }
  std::optional<Target> t = parseTarget(target);
  if (!t) {
    fail(TEGULA_NOT_FOUND, noSuchTarget(target));
    return false;
  }
  r.target = *t;
  return findHome(c, device, r);
}

} // namespace tegula::api

using namespace tegula::api;

TegulaStatus tegula_compile_signature(TegulaFunction *f, const char *signature, const TegulaNamedValue *constants,
                                      size_t count, const char *target, const TegulaLaunchOptions *options,
                                      TegulaKernel **out) {
  if (!f || !out || (count && !constants))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_compile_signature: null argument");
  tegula::GateSection section;
  CompileRequest r;
  if (!prepare(f, signature, constants, count, target, options, r)) return tegula_last_status();
  TegulaKernel *k = compileKernel(r);
  if (!k) return tegula_last_status();
  *out = k;
  return TEGULA_OK;
}

TegulaStatus tegula_emit(TegulaFunction *f, const char *signature, const TegulaNamedValue *constants, size_t count,
                         const char *target, const TegulaLaunchOptions *options, const char *stage, char **text,
                         size_t *length) {
  if (!f || !stage || !text || !length || (count && !constants))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_emit: null argument");
  tegula::GateSection section;
  if (!checkStage(stage, nullptr)) return TEGULA_NOT_FOUND;
  CompileRequest r;
  std::string out;
  // Source and syntax tree need no types.
  bool syntactic = std::strcmp(stage, "source") == 0 || std::strcmp(stage, "ast") == 0;
  r.function = f;
  if (!syntactic && !prepare(f, signature, constants, count, target, options, r)) return tegula_last_status();
  if (!emitStage(r, stage, out)) return tegula_last_status();
  char *copy = static_cast<char *>(std::malloc(out.size() + 1));
  if (!copy) return fail(TEGULA_OUT_OF_RESOURCES, "no memory for the text of stage `" + std::string(stage) + "`");
  std::memcpy(copy, out.c_str(), out.size() + 1);
  *text = copy;
  *length = out.size();
  return TEGULA_OK;
}
