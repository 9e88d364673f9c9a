// Reads the environment variables. An invalid value is an error: a misspelled switch would otherwise be off silently.
#include "api/Environment.h"
#include "api/Error.h"
#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace tegula::api {
namespace {

std::string variable(const char *name) {
  const char *v = std::getenv(name);
  return v ? v : "";
}

bool wrong(const char *name, const std::string &text, const std::string &rule) {
  fail(TEGULA_INVALID_ARGUMENT, std::string(name) + " is `" + text + "`; it must be " + rule);
  return false;
}

/// On or off in one of the usual spellings; nullopt: neither.
std::optional<bool> switchOf(const std::string &text) {
  std::string lower;
  for (char c : text) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  for (std::string_view yes : {"1", "true", "on", "yes", "y"})
    if (lower == yes) return true;
  for (std::string_view no : {"", "0", "false", "off", "no", "n"})
    if (lower == no) return false;
  return std::nullopt;
}

bool readSwitch(const char *name, bool &out) {
  const std::string text = variable(name);
  const std::optional<bool> on = switchOf(text);
  out = on.value_or(false);
  return on || wrong(name, text, "1 or 0");
}

/// A number that is not negative; `out` is unchanged if the variable is not set.
template <typename T> bool readCount(const char *name, const char *of, T &out) {
  const std::string text = variable(name);
  if (text.empty()) return true;
  char *end;
  errno = 0;
  out = std::strtoull(text.c_str(), &end, 10);
  return (!*end && !errno && text[0] != '-') || wrong(name, text, std::string("a number of ") + of);
}

bool readCpuTarget(std::optional<Target> &out) {
  const std::string name = variable("TEGULA_CPU_TARGET");
  if (name.empty()) return true;
  out = parseTarget(name);
  if (!out || !out->isCpu()) return fail(TEGULA_INVALID_ARGUMENT, "TEGULA_CPU_TARGET: " + noSuchTarget(name)), false;
  targets::TargetRef here = out->what->tunedFor(*hostProcessor().what);
  if (!here)
    return fail(TEGULA_UNSUPPORTED, "TEGULA_CPU_TARGET is `" + name + "`, which this machine cannot execute"), false;
  // code for other machines (`-t`, bundles) has the cache sizes that its target name implies
  out->what = std::move(here);
  return true;
}

bool readHangTime(uint64_t &out) {
  const std::string text = variable("TEGULA_HANG_S");
  if (text.empty()) return true;
  char *end;
  const std::optional<uint64_t> ns = hangTime(std::strtod(text.c_str(), &end));
  out = ns.value_or(0);
  return (!*end && ns) || wrong("TEGULA_HANG_S", text, "a number of seconds");
}

bool readNoJit(int32_t &out) {
  const std::string text = variable("TEGULA_NO_JIT");
  if (text == "warn") return out = TEGULA_NO_JIT_WARN, true;
  const std::optional<bool> on = switchOf(text);
  out = on.value_or(false) ? TEGULA_NO_JIT_ERROR : TEGULA_NO_JIT_OFF;
  return on || wrong("TEGULA_NO_JIT", text, "1, warn, or not be set");
}

bool readClusters(gpu::Clusters &out) {
  const std::string text = variable("TEGULA_CLUSTERS");
  const std::optional<bool> on = switchOf(text);
  const gpu::Clusters forced = text.size() == 1 ? gpu::clustersOf(text[0] - '0') : gpu::Clusters::Never;
  out = forced != gpu::Clusters::Never       ? forced
        : text.empty() || on.value_or(false) ? gpu::Clusters::ByCost
                                             : gpu::Clusters::Never;
  return on || forced != gpu::Clusters::Never ||
         wrong("TEGULA_CLUSTERS", text, "1, 0, or a cluster's size for tests: 2, 4 or 8");
}

struct LevelName {
  lang::Level level;
  std::string_view name;
};
constexpr LevelName levels[] = {{lang::Level::v36, "3.6"}, {lang::Level::v37, "3.7"}, {lang::Level::v39, "3.9"}};

bool readLevel(lang::Level &out) {
  const std::string text = variable("TEGULA_TRITON_LEVEL");
  if (text.empty()) return true;
  for (const LevelName &l : levels)
    if (l.name == text) return out = l.level, true;
  return wrong("TEGULA_TRITON_LEVEL", text, "3.6, 3.7 or 3.9");
}

/// A variable with only one valid value, if it is set.
bool readWord(const char *name, const char *word, bool &out) {
  const std::string text = variable(name);
  out = text == word;
  return out || text.empty() || wrong(name, text, std::string("`") + word + "`, or not be set");
}

} // namespace

std::optional<uint64_t> hangTime(double seconds) {
  if (!(seconds <= 3.2e9)) return std::nullopt;
  return seconds <= 0 ? 0 : static_cast<uint64_t>(seconds * 1e9);
}

std::optional<lang::Level> levelNumbered(int64_t number) {
  for (const LevelName &l : levels)
    if (static_cast<int64_t>(l.level) == number) return l.level;
  return std::nullopt;
}

bool readEnvironment(Environment &e) {
  e.device = variable("TEGULA_DEVICE");
  e.cacheLayers = variable("TEGULA_CACHE_LAYERS");
  e.record = variable("TEGULA_RECORD");
  e.reproducers = variable("TEGULA_REPRODUCER_DIR");
  std::error_code unused;
  if (e.reproducers.empty()) e.reproducers = std::filesystem::temp_directory_path(unused).string();
  uint64_t megabytes = 0;
  if (!readCpuTarget(e.cpuTarget) || !readNoJit(e.noJit) || !readHangTime(e.hangNs) || !readLevel(e.level) ||
      !readClusters(e.clusters) || !readCount("TEGULA_CACHE_LIMIT_MB", "MiB", megabytes) ||
      !readCount("TEGULA_NUM_THREADS", "threads", e.threads) || !readCount("TEGULA_TUNE_BYTES", "bytes", e.tuneBytes) ||
      !readWord("TEGULA_TUNE", "deterministic", e.tuneDeterministic) ||
      !readWord("TEGULA_TUNE_DRY", "sim", e.tuneRehearses))
    return false;
  e.cacheBytes = std::min(megabytes, UINT64_MAX >> 20) << 20;
  return readSwitch("TEGULA_DEBUG", e.debug) && readSwitch("TEGULA_CHECK", e.checked) &&
         readSwitch("TEGULA_VERIFY", e.verify) && readSwitch("TEGULA_STRICT", e.strict);
}

} // namespace tegula::api
