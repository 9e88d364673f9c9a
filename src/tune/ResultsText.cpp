// Results as JSON. Written by hand on top of the library's strings and numbers, with one configuration a line; read
// with the library's parser, which calls a Reader.
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
static constexpr unsigned depthLimit = 16; // ours have 7

bool isUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    auto at = [&](size_t k) -> unsigned { return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0; };
    unsigned c = at(0);
    size_t more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 4;
    // Shortest form, no surrogates, nothing above U+10FFFF.
    if (more == 4 || (c == 0xe0 && at(1) < 0xa0) || (c == 0xed && at(1) >= 0xa0) || (c == 0xf0 && at(1) < 0x90) ||
        (c == 0xf4 && at(1) >= 0x90))
      return false;
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
  snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", int(d.year()), unsigned(d.month()), unsigned(d.day()),
           int(s.hours().count()), int(s.minutes().count()), int(s.seconds().count()));
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
/// Appends to one text.
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
    for (auto [name, ns] : {std::pair{"median_ns", r.medianNs}, {"low_ns", r.lowNs}, {"high_ns", r.highNs}})
      member(name, ns), out += ", ";
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
  if (!c.among.empty()) out += ", ", member("among", c.among);
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

namespace {
/// The reader's place in the file. The lists come last.
enum class Place : uint8_t { Outside, File, Kernel, Entry, Choice, Config, Kernels, Entries, Configs };
enum class Kind : uint8_t { Text, Number, Count, Object, List };

struct Member {
  Place in;
  std::string_view name;
  Kind kind = Kind::Text;
  bool isOptional = false;
  Place inside = Place::Outside; // of objects and lists
};
} // namespace

/// All members of a file that have a meaning.
static constexpr Member members[] = {
    {Place::File, "format"},
    {Place::File, "format_version", Kind::Count},
    {Place::File, "kernels", Kind::List, false, Place::Kernels},
    {Place::Kernel, "name"},
    {Place::Kernel, "hash"},
    {Place::Kernel, "entries", Kind::List, false, Place::Entries},
    {Place::Entry, "device"},
    {Place::Entry, "target"},
    {Place::Entry, "arguments"},
    {Place::Entry, "version"},
    {Place::Entry, "choice", Kind::Object, true, Place::Choice},
    {Place::Entry, "configs", Kind::List, true, Place::Configs},
    {Place::Choice, "config"},
    {Place::Choice, "how"},
    {Place::Choice, "date", Kind::Text, true},
    {Place::Choice, "among", Kind::Text, true},
    {Place::Config, "config"},
    {Place::Config, "date", Kind::Text, true},
    // With times, or with a state.
    {Place::Config, "median_ns", Kind::Number, true},
    {Place::Config, "low_ns", Kind::Number, true},
    {Place::Config, "high_ns", Kind::Number, true},
    {Place::Config, "runs", Kind::Count, true},
    {Place::Config, "state", Kind::Text, true},
    {Place::Config, "kind", Kind::Text, true},
    {Place::Config, "reason", Kind::Text, true},
};
static constexpr size_t memberCount = std::size(members);

static constexpr size_t indexOf(Place in, std::string_view name) {
  for (size_t i = 0; i < memberCount; ++i)
    if (members[i].in == in && members[i].name == name) return i;
  return memberCount;
}

/// A member by its place and name, at compile time.
static consteval size_t at(Place in, std::string_view name) { return indexOf(in, name); }

namespace {
/// Reads the file piece by piece, without building a tree; the first error ends it.
class Reader final : public nlohmann::json_sax<json> {
public:
  explicit Reader(Results &out) : out_(out) {}
  /// After the parser has ended.
  Status status(bool parsed);

  bool null() override { return scalar(Kind::Object); }
  bool boolean(bool) override { return scalar(Kind::Object); }
  bool number_integer(number_integer_t v) override { return number(static_cast<double>(v), Kind::Number); }
  bool number_unsigned(number_unsigned_t v) override {
    return number(static_cast<double>(v), v <= UINT32_MAX ? Kind::Count : Kind::Number);
  }
  bool number_float(number_float_t v, const string_t &) override { return number(v, Kind::Number); }
  bool string(string_t &v) override;
  bool binary(binary_t &) override { return false; }
  bool start_object(size_t) override { return start(Kind::Object); }
  bool start_array(size_t) override { return start(Kind::List); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(string_t &name) override;
  bool parse_error(size_t, const std::string &, const nlohmann::detail::exception &) override {
    isJson_ = false;
    return false;
  }

private:
  bool wrong(std::string what) {
    if (error_.empty()) error_ = std::move(what);
    return false;
  }
  bool wrongKind();
  bool start(Kind kind);
  bool end();
  bool scalar(Kind kind);
  bool number(double value, Kind kind);
  bool enter(Place place);
  bool finish(Place place);
  bool finishConfig();
  bool finishEntry();
  Place place() const { return depth_ ? places_[depth_ - 1] : Place::Outside; }
  bool has(size_t member) const { return seen_ >> member & 1; }
  bool missing(size_t member);
  bool date(size_t member, Date &out);

  Results &out_;
  std::string error_;
  bool isJson_ = true;
  Place places_[depthLimit];
  unsigned depth_ = 0;
  unsigned skipped_ = 0;        // open levels of unknown members
  size_t member_ = memberCount; // the next value's member; memberCount: unknown
  uint32_t seen_ = 0;           // members seen in the open objects
  std::string texts_[memberCount];
  double numbers_[memberCount] = {};
  // The open parts.
  Entries entries_;
  Entry entry_;
};
} // namespace

bool Reader::wrongKind() {
  static constexpr const char *names[] = {"text", "a number", "a whole number", "an object", "a list"};
  return wrong("`" + std::string(members[member_].name) + "` is not " +
               names[static_cast<size_t>(members[member_].kind)]);
}

bool Reader::enter(Place place) {
  places_[depth_++] = place;
  for (size_t i = 0; i < memberCount; ++i)
    if (members[i].in == place) seen_ &= ~(1u << i);
  if (place == Place::Kernel) entries_.clear();
  if (place == Place::Entry) entry_ = {};
  return true;
}

bool Reader::start(Kind kind) {
  if (depth_ + skipped_ == depthLimit) return wrong("is nested deeper than results are");
  if (skipped_) return ++skipped_, true;
  switch (place()) {
  case Place::Outside: return kind == Kind::Object && enter(Place::File);
  case Place::Kernels:
    return kind == Kind::Object ? enter(Place::Kernel) : wrong("`kernels` has something else than objects");
  case Place::Entries:
    return kind == Kind::Object ? enter(Place::Entry) : wrong("`entries` has something else than objects");
  case Place::Configs:
    return kind == Kind::Object ? enter(Place::Config) : wrong("`configs` has something else than objects");
  default: break;
  }
  if (member_ == memberCount) return ++skipped_, true;
  if (members[member_].kind != kind) return wrongKind();
  seen_ |= 1u << member_;
  return enter(members[member_].inside);
}

bool Reader::end() {
  if (skipped_) return --skipped_, true;
  return finish(places_[--depth_]);
}

/// Is a value of that kind allowed here, as the value of the member?
bool Reader::scalar(Kind kind) {
  if (skipped_) return true;
  if (place() >= Place::Kernels) return start(Kind::List); // not an object
  if (place() == Place::Outside) return false;
  if (member_ == memberCount) return true;
  Kind wanted = members[member_].kind;
  if (kind == Kind::Object || (kind != wanted && !(kind == Kind::Count && wanted == Kind::Number))) return wrongKind();
  seen_ |= 1u << member_;
  return true;
}

bool Reader::number(double value, Kind kind) {
  if (!scalar(kind)) return false;
  if (!skipped_ && member_ < memberCount) numbers_[member_] = value;
  // An unknown format version may have any content after this.
  return !(member_ == at(Place::File, "format_version") && !skipped_ && value > formatVersion);
}

bool Reader::string(string_t &v) {
  if (!scalar(Kind::Text)) return false;
  if (!skipped_ && member_ < memberCount) texts_[member_] = std::move(v);
  return true;
}

bool Reader::key(string_t &name) {
  if (!skipped_) member_ = indexOf(place(), name);
  return true;
}

/// Is the member missing? Then reports it.
bool Reader::missing(size_t member) {
  if (has(member)) return false;
  wrong("`" + std::string(members[member].name) + "` is missing");
  return true;
}

bool Reader::date(size_t member, Date &out) {
  return !has(member) || parseDate(texts_[member], out) || wrong("`date` is not a date like 2026-03-01T12:00:00Z");
}

bool Reader::finishConfig() {
  constexpr Place c = Place::Config;
  constexpr size_t median = at(c, "median_ns"), low = at(c, "low_ns"), high = at(c, "high_ns"), runs = at(c, "runs");
  constexpr size_t state = at(c, "state"), kind = at(c, "kind"), reason = at(c, "reason");
  Date when = 0;
  if (!date(at(c, "date"), when)) return false;
  Record r;
  if (!has(state)) {
    if (missing(median) || missing(low) || missing(high) || missing(runs)) return false;
    r = Record::ok(numbers_[median], numbers_[low], numbers_[high], static_cast<uint32_t>(numbers_[runs]), when);
  } else {
    if (missing(kind) || missing(reason)) return false;
    for (State s : {State::Failed, State::Rejected, State::Faulted})
      if (texts_[state] == nameOf(s)) r = Record::bad(s, std::move(texts_[kind]), std::move(texts_[reason]), when);
    if (r.state == State::Ok) return wrong("`state` is none of failed, rejected, faulted");
  }
  auto [known, isNew] = entry_.configs.try_emplace(std::move(texts_[at(c, "config")]), r);
  if (!isNew) known->second = Record(better(known->second, r));
  return true;
}

bool Reader::finishEntry() {
  constexpr Place e = Place::Entry;
  if (!entry_.isEmpty())
    entries_[{texts_[at(e, "device")], texts_[at(e, "target")], texts_[at(e, "arguments")], texts_[at(e, "version")]}]
        .join(entry_);
  return true;
}

/// An object or a list is complete.
bool Reader::finish(Place place) {
  for (size_t i = 0; i < memberCount; ++i)
    if (members[i].in == place && !members[i].isOptional && missing(i)) return false;
  // The member whose value was the object or list is complete.
  member_ = memberCount;
  switch (place) {
  case Place::Config: return finishConfig();
  case Place::Entry: return finishEntry();
  case Place::Choice: {
    Choice c{texts_[at(Place::Choice, "config")], How::Measured, 0, ""};
    if (has(at(Place::Choice, "among"))) c.among = texts_[at(Place::Choice, "among")];
    const std::string &how = texts_[at(Place::Choice, "how")];
    if (how != "measured" && how != "model") return wrong("`how` is neither measured nor model");
    if (how == "model") c.how = How::Model;
    if (!date(at(Place::Choice, "date"), c.date)) return false;
    entry_.choice = entry_.choice ? Choice(better(*entry_.choice, c)) : c;
    return true;
  }
  case Place::Kernel: {
    Results one;
    one.kernels[{texts_[at(Place::Kernel, "name")], texts_[at(Place::Kernel, "hash")]}] = std::move(entries_);
    out_.join(one);
    return true;
  }
  default: return true;
  }
}

Status Reader::status(bool parsed) {
  Status s = Status::ok();
  constexpr size_t format = at(Place::File, "format"), version = at(Place::File, "format_version");
  bool isOurs = has(format) && texts_[format] == formatName;
  if (!isJson_) s = Status::error(TEGULA_INVALID_ARGUMENT, "is not JSON");
  else if (!isOurs) s = Status::error(TEGULA_INVALID_ARGUMENT, "is not a file of tuning results");
  else if (has(version) && numbers_[version] > formatVersion)
    s = Status::error(TEGULA_UNSUPPORTED, "was written by a newer version of tegula");
  else if (!parsed) s = Status::error(TEGULA_INVALID_ARGUMENT, error_);
  if (!s) out_ = {};
  return s;
}

Status parse(std::string_view text, Results &out) {
  out = {};
  if (text.size() > fileLimit) return Status::error(TEGULA_INVALID_ARGUMENT, "is larger than 64 MiB");
  Reader reader(out);
  bool parsed = json::sax_parse(text.data(), text.data() + text.size(), &reader);
  return reader.status(parsed);
}

} // namespace tegula::tune
