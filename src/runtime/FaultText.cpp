// The text of a fault for users.
#include "runtime/Launch.h"
#include <algorithm>
#include <cstdio>

namespace tegula::runtime {

static std::string pidText(const int32_t pid[3]) {
  return "(" + std::to_string(pid[0]) + ", " + std::to_string(pid[1]) + ", " + std::to_string(pid[2]) + ")";
}

static const SiteInfo &siteInfo(const KernelInfo &info, int32_t site) {
  static const SiteInfo unknown;
  return site >= 0 && static_cast<size_t>(site) < info.sites.size() ? info.sites[site] : unknown;
}

Status hangStatus(const KernelInfo &info, uint64_t hangNs, std::span<const HungProgram> programs, int64_t notStarted,
                  const std::string &device, LaunchOutcome &outcome) {
  constexpr size_t told = 8;
  HungProgram first = programs.empty() ? HungProgram() : programs.front();
  outcome.fault = {1, TEGULA_FAULT_HANG, first.site, {first.pid[0], first.pid[1], first.pid[2]}, 0, 0};
  char seconds[32];
  snprintf(seconds, sizeof seconds, "%g", static_cast<double>(hangNs) * 1e-9);
  std::string text =
      placeText(siteInfo(info, first.site)) + "error: `" + info.name + "` made no progress for " + seconds + " s";
  if (!programs.empty()) text += "; program " + pidText(first.pid) + " does not leave this loop";
  for (size_t i = 1; i < std::min(programs.size(), told); ++i) {
    std::string place = placeText(siteInfo(info, programs[i].site));
    text += (i == 1 ? ", nor do " : ", ") + pidText(programs[i].pid) +
            (place.empty() ? "" : " at " + place.substr(0, place.size() - 2));
  }
  if (programs.size() > told) text += " and " + std::to_string(programs.size() - told) + " others";
  if (notStarted > 0) text += "; " + std::to_string(notStarted) + " programs have not started";
  return Status::error(TEGULA_FAULT, text + device);
}

std::string placeText(const SiteInfo &s) {
  if (s.file.empty()) return "";
  return s.file + ":" + std::to_string(s.line) + ":" + std::to_string(s.column) + ": ";
}

/// Addresses below count as offsets from a null pointer.
static constexpr uint64_t nullPage = 4096;

std::string faultText(const KernelInfo &info, const TegulaCpuFault &f) {
  const SiteInfo &s = siteInfo(info, f.site);
  std::string where = " in program " + pidText(f.pid) + " of `" + info.name + "`";
  if (!s.function.empty() && s.function != info.name) where += ", function `" + s.function + "`";
  if (f.code == TEGULA_FAULT_ASSERT)
    return placeText(s) + "error: device-side assertion failed" + (s.text.empty() ? "" : ": " + s.text) + where;
  static constexpr const char *verbs[] = {"access", "load", "store", "atomic", "access", "access"};
  std::string what = verbs[static_cast<int>(s.kind)];
  std::string through = s.arg >= 0 && static_cast<size_t>(s.arg) < info.args.size()
                            ? " through argument `" + info.args[s.arg].name + "`"
                            : "";
  std::string numbers =
      ": byte offset " + std::to_string(f.index) + ", buffer of " + std::to_string(f.extent) + " bytes";
  if (f.extent < 0) {
    char address[32];
    snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(f.index));
    numbers = std::string(": address ") + address +
              (f.code != TEGULA_FAULT_BOUNDS               ? " is no multiple of the element's size"
               : static_cast<uint64_t>(f.index) < nullPage ? " is that of a null pointer"
                                                           : " is in no buffer of this launch") +
              "; the pointer was loaded from memory or made otherwise, not derived from one argument";
  }
  bool bounds = f.code == TEGULA_FAULT_BOUNDS;
  return placeText(s) + "error: " + (bounds ? "out-of-bounds " : "misaligned ") + what + through + numbers + where;
}

} // namespace tegula::runtime
