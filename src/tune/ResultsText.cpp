// Results as JSON. Written by hand around the library's strings and numbers, for one configuration a line; read with the library, after a look at
// how large and deep the text is.
#include "tune/Results.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tegula::tune {

using nlohmann::json;

static constexpr const char *formatName = "tegula tuning results";
static constexpr int formatVersion = 1;
static constexpr unsigned depthLimit = 16;               // ours have 7
static constexpr size_t valueLimit = size_t(4) << 20;    // each takes up to some hundred bytes of memory

bool isUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    auto at = [&](size_t k) -> unsigned { return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0; };
    unsigned c = at(0);
    size_t more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 4;
    // Shortest form, no surrogates, nothing above U+10FFFF.
    if (more == 4 || (c == 0xe0 && at(1) < 0xa0) || (c == 0xed && at(1) >= 0xa0) || (c == 0xf0 && at(1) < 0x90) || (c == 0xf4 && at(1) >= 0x90)) return false;
    for (size_t k = 1; k <= more; ++k)
      if ((at(k) & 0xc0) != 0x80) return false;
    i += more + 1;
  }
  return true;
}

// ---- dates

static std::string dateText(Date date) {
  using namespace std::chrono;
  constexpr Date last = 253402300799; // of the year 9999
  sys_seconds t{seconds{std::min(date, last)}};
  sys_days day = floor<days>(t);
  year_month_day d{day};
  hh_mm_ss s{t - day};
  char text[40];
  snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", int(d.year()), unsigned(d.month()), unsigned(d.day()), int(s.hours().count()),
           int(s.minutes().count()), int(s.seconds().count()));
  return text;
}

static bool parseDate(const std::string &text, Date &out) {
  using namespace std::chrono;
  static constexpr std::string_view pattern = "0000-00-00T00:00:00Z";
  if (text.size() != pattern.size()) return false;
  int fields[6] = {}, field = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    bool isDigit = text[i] >= '0' && text[i] <= '9';
    if (pattern[i] == '0' ? !isDigit : text[i] != pattern[i]) return false;
    if (isDigit) fields[field] = fields[field] * 10 + (text[i] - '0');
    else ++field;
  }
  year_month_day d{year{fields[0]}, month(fields[1]), day(fields[2])};
  if (!d.ok() || fields[3] > 23 || fields[4] > 59 || fields[5] > 59 || fields[0] < 1970) return false;
  out = (sys_days{d}.time_since_epoch() + hours{fields[3]} + minutes{fields[4]} + seconds{fields[5]}) / seconds{1};
  return true;
}

// ---- writing

namespace {
/// Adds to one text.
struct Writer {
  std::string out;

  void quoted(const std::string &text) {
    auto isPlain = [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; };
    if (std::all_of(text.begin(), text.end(), isPlain)) out.append("\"").append(text).append("\"");
    else out += json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  }
  void member(const char *name, const std::string &text) {
    key(name);
    quoted(text);
  }
  void key(const char *name) { out.append("\"").append(name).append("\": "); }
  /// Tenths of nanoseconds.
  void member(const char *name, double ns) {
    key(name);
    uint64_t tenths = static_cast<uint64_t>(std::llround(roundedNs(ns) * 10));
    out += std::to_string(tenths / 10);
    out += '.';
    out += static_cast<char>('0' + tenths % 10);
  }
  void date(Date d) {
    if (d <= 0) return;
    out += ", ";
    member("date", dateText(d));
  }
  void add(const std::string &config, const Record &r);
  void add(const Choice &c);
  void add(const EntryKey &key, const Entry &entry);
};
} // namespace

void Writer::add(const std::string &config, const Record &r) {
  out += '{';
  member("config", config);
  out += ", ";
  if (r.state == State::Ok) {
    for (auto [name, ns] : {std::pair{"median_ns", r.medianNs}, {"low_ns", r.lowNs}, {"high_ns", r.highNs}}) member(name, ns), out += ", ";
    key("runs");
    out += std::to_string(r.runs);
  } else {
    member("state", nameOf(r.state)), out += ", ";
    member("kind", r.kind), out += ", ";
    member("reason", r.reason);
  }
  date(r.date);
  out += '}';
}

void Writer::add(const Choice &c) {
  out += '{';
  member("config", c.config), out += ", ";
  member("how", c.how == How::Measured ? "measured" : "model");
  date(c.date);
  out += '}';
}

void Writer::add(const EntryKey &k, const Entry &entry) {
  out += "   {";
  member("device", k.device), out += ", ";
  member("target", k.target), out += ",\n    ";
  member("arguments", k.arguments), out += ", ";
  member("version", k.version);
  if (entry.choice) {
    out += ",\n    ";
    key("choice");
    add(*entry.choice);
  }
  const char *before = ",\n    \"configs\": [\n     ";
  for (auto &[config, record] : entry.configs) {
    out += before;
    add(config, record);
    before = ",\n     ";
  }
  out += entry.configs.empty() ? "}" : "\n    ]}";
}

std::string format(const Results &results) {
  Writer w;
  w.out = "{";
  w.member("format", std::string(formatName)), w.out += ", ";
  w.key("format_version");
  w.out += std::to_string(formatVersion) + ", \"kernels\": [";
  const char *beforeKernel = "\n";
  for (auto &[kernel, entries] : results.kernels) {
    const char *before = nullptr;
    for (auto &[key, entry] : entries) {
      if (entry.isEmpty()) continue;
      if (before) w.out += before;
      else {
        w.out.append(beforeKernel).append("  {");
        w.member("name", kernel.name), w.out += ", ";
        w.member("hash", kernel.hash), w.out += ", \"entries\": [\n";
        beforeKernel = ",\n";
      }
      before = ",\n";
      w.add(key, entry);
    }
    if (before) w.out += "\n  ]}";
  }
  return std::move(w.out) + "\n]}\n";
}

// ---- reading

/// Why the text is not even looked at; null: it may be.
static const char *excessOf(std::string_view text) {
  if (text.size() > fileLimit) return "is larger than 64 MiB";
  size_t values = 0;
  unsigned depth = 0;
  bool inText = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inText) {
      if (c == '\\') ++i;
      else inText = c != '"';
      continue;
    }
    if (c == '"') inText = true;
    else if (c == '[' || c == '{') ++depth, ++values;
    else if (c == ']' || c == '}') depth -= depth > 0;
    else if (c == ',') ++values;
    if (depth > depthLimit) return "is nested deeper than results are";
    if (values > valueLimit) return "has more than 4194304 values";
  }
  return nullptr;
}

namespace {
/// Walks the tree; the first thing that is wrong stays.
class Reader {
public:
  explicit Reader(Results &out) : out_(out) {}
  Status read(const json &file);

private:
  void wrong(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }
  /// A member that has to be there, or null.
  const json *get(const json &object, const char *name, bool isOptional = false);
  std::string text(const json &object, const char *name, bool isOptional = false);
  double number(const json &object, const char *name);
  uint32_t count(const json &object, const char *name);
  Date date(const json &object);
  /// f(item) for the objects of a list.
  template <typename F> void forEach(const json &object, const char *name, bool isOptional, F &&f);
  Record record(const json &object);
  Choice choice(const json &object);

  Results &out_;
  std::string error_;
};
} // namespace

const json *Reader::get(const json &object, const char *name, bool isOptional) {
  auto at = object.find(name);
  if (at != object.end()) return &*at;
  if (!isOptional) wrong(std::string("`") + name + "` is missing");
  return nullptr;
}

std::string Reader::text(const json &object, const char *name, bool isOptional) {
  const json *value = get(object, name, isOptional);
  if (value && !value->is_string()) wrong(std::string("`") + name + "` is not text"), value = nullptr;
  return value ? *value->get_ptr<const std::string *>() : "";
}

double Reader::number(const json &object, const char *name) {
  const json *value = get(object, name);
  if (value && !value->is_number()) wrong(std::string("`") + name + "` is not a number"), value = nullptr;
  return value ? value->get<double>() : 0;
}

uint32_t Reader::count(const json &object, const char *name) {
  const json *value = get(object, name);
  if (value && (!value->is_number_unsigned() || value->get<uint64_t>() > UINT32_MAX)) wrong(std::string("`") + name + "` is not a number of runs"), value = nullptr;
  return value ? value->get<uint32_t>() : 0;
}

Date Reader::date(const json &object) {
  std::string t = text(object, "date", true);
  Date out = 0;
  if (!t.empty() && !parseDate(t, out)) wrong("`date` is not a date like 2026-03-01T12:00:00Z");
  return out;
}

template <typename F> void Reader::forEach(const json &object, const char *name, bool isOptional, F &&f) {
  const json *list = get(object, name, isOptional);
  if (!list) return;
  if (!list->is_array()) return wrong(std::string("`") + name + "` is not a list");
  for (const json &item : *list) {
    if (!item.is_object()) return wrong(std::string("`") + name + "` has something else than objects");
    f(item);
  }
}

Record Reader::record(const json &object) {
  Date when = date(object);
  std::string state = text(object, "state", true);
  if (state.empty()) return Record::ok(number(object, "median_ns"), number(object, "low_ns"), number(object, "high_ns"), count(object, "runs"), when);
  for (State s : {State::Failed, State::Rejected, State::Faulted})
    if (state == nameOf(s)) return Record::bad(s, text(object, "kind"), text(object, "reason"), when);
  wrong("`state` is none of failed, rejected, faulted");
  return {};
}

Choice Reader::choice(const json &object) {
  if (!object.is_object()) {
    wrong("`choice` is not an object");
    return {};
  }
  std::string how = text(object, "how");
  if (how != "measured" && how != "model") wrong("`how` is neither measured nor model");
  return {text(object, "config"), how == "model" ? How::Model : How::Measured, date(object)};
}

Status Reader::read(const json &file) {
  if (!file.is_object() || text(file, "format") != formatName || !error_.empty())
    return Status::error(TEGULA_INVALID_ARGUMENT, "is not a file of tuning results");
  const json *version = get(file, "format_version");
  if (!version || !version->is_number_unsigned()) return Status::error(TEGULA_INVALID_ARGUMENT, "`format_version` is not a number");
  if (version->get<uint64_t>() > formatVersion) return Status::error(TEGULA_UNSUPPORTED, "was written by a newer version of tegula");
  forEach(file, "kernels", false, [&](const json &kernel) {
    KernelKey kernelKey{text(kernel, "name"), text(kernel, "hash")};
    forEach(kernel, "entries", false, [&](const json &e) {
      Entry entry;
      forEach(e, "configs", true, [&](const json &c) {
        Entry one;
        one.configs.emplace(text(c, "config"), record(c));
        entry.join(one);
      });
      if (const json *c = get(e, "choice", true)) entry.choice = choice(*c);
      EntryKey key{text(e, "device"), text(e, "target"), text(e, "arguments"), text(e, "version")};
      if (!entry.isEmpty()) out_.kernels[kernelKey][key].join(entry);
    });
  });
  if (error_.empty()) return Status::ok();
  out_ = {};
  return Status::error(TEGULA_INVALID_ARGUMENT, error_);
}

Status parse(std::string_view text, Results &out) {
  out = {};
  if (const char *why = excessOf(text)) return Status::error(TEGULA_INVALID_ARGUMENT, why);
  json file = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (file.is_discarded()) return Status::error(TEGULA_INVALID_ARGUMENT, "is not JSON");
  return Reader(out).read(file);
}

} // namespace tegula::tune
