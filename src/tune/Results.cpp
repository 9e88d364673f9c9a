// Merging, choosing and printing; the text of files is in ResultsText.cpp.
#include "tune/Results.h"
#include "support/Hash.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <tuple>
#include <vector>

namespace tegula::tune {

/// The limit for a reason in bytes: an assembler's log may have megabytes.
static constexpr size_t reasonLimit = 2000;

bool Choice::operator==(const Choice &) const = default;
bool Entry::operator==(const Entry &) const = default;
bool Results::operator==(const Results &) const = default;

Date now() { return std::max<Date>(time(nullptr), 0); }

const char *nameOf(State state) {
  static constexpr const char *names[] = {"failed", "ok", "rejected", "faulted"};
  return names[static_cast<size_t>(state)];
}

double roundedNs(double ns) { return ns > 0 ? std::round(std::min(ns, 1e14) * 10) / 10 : 0; }

Record Record::ok(double medianNs, double lowNs, double highNs, uint32_t runs, Date date) {
  Record r;
  r.medianNs = roundedNs(medianNs), r.lowNs = roundedNs(lowNs), r.highNs = roundedNs(highNs);
  r.runs = runs, r.date = date;
  return r;
}

Record Record::bad(State state, std::string kind, std::string reason, Date date) {
  Record r;
  r.state = state, r.date = date;
  r.kind = std::move(kind), r.reason = std::move(reason);
  static constexpr std::string_view dots = "...";
  // A shortened reason is not shortened again when it is read.
  if (r.reason.size() > reasonLimit + dots.size()) {
    size_t end = reasonLimit;
    while (end > 0 && (static_cast<unsigned char>(r.reason[end]) & 0xc0) == 0x80) --end;
    r.reason.resize(end);
    r.reason += dots;
  }
  return r;
}

/// Larger is better founded. The order is total: records that are equal in it are equal.
static auto rankOf(const Record &r) {
  return std::make_tuple(r.state, r.runs, r.date, -r.medianNs, -r.lowNs, -r.highNs, std::cref(r.kind),
                         std::cref(r.reason));
}
static auto rankOf(const Choice &c) { return std::make_tuple(c.how, c.date, std::cref(c.config), std::cref(c.among)); }

const Record &better(const Record &a, const Record &b) { return rankOf(a) < rankOf(b) ? b : a; }
const Choice &better(const Choice &a, const Choice &b) { return rankOf(a) < rankOf(b) ? b : a; }

KernelKey KernelKey::of(std::string name, std::string_view uses) {
  std::string hash = Hasher().field(name).field(uses).hex().substr(0, 32);
  return {std::move(name), std::move(hash)};
}

std::optional<Choice> Entry::chosen() const {
  if (!choice) return std::nullopt;
  auto known = configs.find(choice->config);
  if (known == configs.end() || known->second.state == State::Ok) return choice;
  const std::pair<const std::string, Record> *best = nullptr;
  for (auto &c : configs)
    if (c.second.state == State::Ok && (!best || c.second.medianNs < best->second.medianNs)) best = &c;
  if (!best) return std::nullopt;
  return Choice{best->first, How::Measured, best->second.date, ""};
}

void Entry::join(const Entry &other) {
  for (auto &[config, record] : other.configs) {
    auto [at, isNew] = configs.try_emplace(config, record);
    if (!isNew) at->second = Record(better(at->second, record));
  }
  if (other.choice) choice = choice ? Choice(better(*choice, *other.choice)) : *other.choice;
}

void Entry::update(const Entry &later) {
  std::optional<Choice> stays = later.choice && !(choice && choice->how > later.choice->how) ? later.choice : choice;
  join(later);
  choice = std::move(stays);
}

void Results::join(const Results &other) {
  for (auto &[kernel, entries] : other.kernels)
    for (auto &[key, entry] : entries)
      if (!entry.isEmpty()) kernels[kernel][key].join(entry);
}

static std::string timeText(double ns) {
  char text[40];
  static constexpr std::pair<double, const char *> units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};
  for (auto [size, unit] : units)
    if (ns >= size) {
      snprintf(text, sizeof text, "%.3f %s", ns / size, unit);
      return text;
    }
  snprintf(text, sizeof text, "%.1f ns", ns);
  return text;
}

/// Files may come from anywhere, and terminals interpret control characters.
static std::string shown(std::string text) {
  for (char &c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  return text;
}

static std::string rowOf(const Record &r) {
  if (r.state != State::Ok)
    return std::string(nameOf(r.state)) + " (" + shown(r.kind) + "): " + shown(r.reason.substr(0, r.reason.find('\n')));
  return timeText(r.medianNs) + "  [" + timeText(r.lowNs) + ", " + timeText(r.highNs) + "]  " + std::to_string(r.runs) +
         (r.runs == 1 ? " run" : " runs");
}

std::string show(const Results &results) {
  std::string out;
  for (auto &[kernel, entries] : results.kernels)
    for (auto &[key, entry] : entries) {
      out += shown(kernel.name + " (" + kernel.hash.substr(0, 8) + ") on " + key.device + " (" + key.target +
                   "), version " + key.version) +
             "\n";
      if (!key.arguments.empty()) out += "  for " + shown(key.arguments) + "\n";
      std::vector<const std::pair<const std::string, Record> *> rows;
      size_t width = 0;
      for (auto &c : entry.configs) rows.push_back(&c), width = std::max(width, c.first.size());
      // Those with times first.
      auto rank = [](auto *row) {
        return std::make_tuple(row->second.state != State::Ok, row->second.medianNs, std::cref(row->first));
      };
      std::sort(rows.begin(), rows.end(), [&](auto *a, auto *b) { return rank(a) < rank(b); });
      std::optional<Choice> choice = entry.chosen();
      for (auto *row : rows)
        out += std::string(choice && choice->config == row->first ? "* " : "  ") + shown(row->first) +
               std::string(width + 2 - row->first.size(), ' ') + rowOf(row->second) + "\n";
      if (choice && !entry.configs.contains(choice->config)) out += "* " + shown(choice->config) + "\n";
      if (choice)
        out += std::string("  chosen: ") + (choice->how == How::Measured ? "measured" : "by the cost model") + "\n";
    }
  return out;
}

} // namespace tegula::tune
