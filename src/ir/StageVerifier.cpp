// See StageVerifier.h.
#include "ir/StageVerifier.h"
#include "ir/Diagnostics.h"
#include "ir/Text.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace tegula::ir {

namespace {

bool writeAll(int file, std::string_view text) {
  while (!text.empty()) {
    ssize_t n = ::write(file, text.data(), text.size());
    if (n < 0 && errno != EINTR)
      return false;
    text.remove_prefix(n < 0 ? 0 : static_cast<size_t>(n));
  }
  return true;
}

/// Writes the reproducer to a file that was not there before. What to tell: where it is, or why there is none.
std::string written(const std::string &folder, const char *pass, const Reproducer &r) {
  std::error_code unused; // the file cannot be made then, which is reported
  std::filesystem::create_directories(folder, unused);
  std::string path = folder + "/tegula-" + pass + "-XXXXXX.ir";
  int file = ::mkstemps(path.data(), 3);
  if (file < 0)
    return "a file in " + folder + " that repeats it cannot be made: " + std::strerror(errno);
  std::string command =
      std::string("tegula-opt --passes=") + pass + " " + r.options + (r.options.empty() ? "" : " ") + path;
  bool ok = writeAll(file, "// " + command + "\n" + r.text);
  std::string why = ok ? "" : std::strerror(errno);
  ::close(file);
  return ok ? "this repeats it, with the module before the pass: " + command : "cannot write to " + path + ": " + why;
}

} // namespace

/// What is wrong with the text of a module that keeps the rules; "" if it is read back as the same.
static std::string faultOfText(const Module &m) {
  std::string text = print(m);
  auto file = std::make_shared<const SourceFile>("text", text);
  DiagEngine diag;
  std::unique_ptr<Module> again = parse(file, diag);
  if (!again)
    return "its text cannot be read: " + renderAll(diag);
  std::string now = print(*again);
  size_t at = static_cast<size_t>(std::ranges::mismatch(text, now).in1 - text.begin());
  if (text == now)
    return {};
  size_t begin = text.rfind('\n', at) + 1;
  return "its text is read as another module, from `" + text.substr(begin, text.find('\n', begin) - begin) + "` on";
}

bool StageVerifier::verified(const Module &m, const char *stage, Level level,
                             const std::function<Reproducer()> *reproducer) const {
  std::string why;
  Loc where;
  if (verify(m, &why, &where, level) && (why = faultOfText(m)).empty())
    return true;
  DiagBuilder report = diag_->report(diag::malformedIr, where, stage, why);
  if (reproducer)
    report.note(Loc{}, written(folder_, stage, (*reproducer)()));
  return false;
}

} // namespace tegula::ir
