// tegula aot: bundles of kernels compiled ahead of time.
#include "cli/Launching.h"
#include "cli/ObjectFile.h"
#include "support/Npy.h"
#include <algorithm>
#include <cstdio>
#include <tegula/bundle.h>
#include <sys/stat.h>

namespace tegula::cli {
namespace {

struct CloseAot {
  void operator()(TegulaAot *a) const { tegula_aot_release(a); }
  void operator()(TegulaBundle *b) const { tegula_bundle_close(b); }
};

int digitOf(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/// Reads a key's file: hexadecimal digits and a newline.
bool readKey(const std::string &path, size_t bytes, std::vector<uint8_t> &key, std::string &error) {
  std::string text;
  if (!readFile(path, text, error)) return false;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  bool ok = text.size() == 2 * bytes;
  for (size_t i = 0; ok && i < bytes; ++i) {
    int high = digitOf(text[2 * i]), low = digitOf(text[2 * i + 1]);
    ok = high >= 0 && low >= 0;
    if (ok) key.push_back(static_cast<uint8_t>(high << 4 | low));
  }
  if (!ok) error = path + " is no key: it must have " + std::to_string(2 * bytes) + " hexadecimal digits";
  return ok;
}

std::string keyText(const uint8_t *key, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += "0123456789abcdef"[key[i] >> 4], text += "0123456789abcdef"[key[i] & 15];
  return text + "\n";
}

int makeKeys(const std::string &path) {
  uint8_t open[32], secret[64];
  if (tegula_aot_make_keys(open, secret) != TEGULA_OK) return failLast();
  std::string error;
  mode_t before = umask(077); // only the owner may read the secret
  bool ok = writeFile(path, keyText(secret, sizeof secret), error);
  umask(before);
  if (!ok || !writeFile(path + ".pub", keyText(open, sizeof open), error)) return fail(error);
  std::printf("%s: the secret key\n%s.pub: the public key\n", path.c_str(), path.c_str());
  return Ok;
}

/// Opens the bundle as the runtime does, with the key of --public-key.
std::unique_ptr<TegulaBundle, CloseAot> openBundle(const std::string &path, const std::vector<uint8_t> &key,
                                                   int &code) {
  TegulaBundleOptions o = TEGULA_BUNDLE_OPTIONS_INIT;
  if (!key.empty()) o.public_key = key.data();
  TegulaBundle *b = nullptr;
  if (tegula_bundle_open(path.c_str(), &o, &b) != TEGULA_OK) code = fail(tegula_bundle_error());
  return std::unique_ptr<TegulaBundle, CloseAot>(b);
}

int list(const std::string &path, const std::vector<uint8_t> &key) {
  int code = Ok;
  auto b = openBundle(path, key, code);
  for (size_t i = 0; b && i < tegula_bundle_entry_count(b.get()); ++i) {
    TegulaBundleEntry e{};
    e.size = sizeof e;
    if (tegula_bundle_entry(b.get(), i, &e) != TEGULA_OK) return fail(tegula_bundle_error());
    std::printf("%-24s %-16s %8llu bytes  %s", e.kernel, e.target, static_cast<unsigned long long>(e.code_bytes),
                *e.problem ? e.problem : e.signature);
    if (!*e.problem && std::string_view(e.target).starts_with("sm_"))
      std::printf("  num_warps=%d num_stages=%d", e.num_warps, e.num_stages);
    std::printf("  (%s)\n", e.needs);
  }
  if (b && tegula_bundle_check(b.get()) != TEGULA_OK) code = fail(tegula_bundle_error());
  return code;
}

/// Reports to standard error what a manifest lists and no bundle contains. False: failed.
bool sayLeftOut(TegulaAot *aot) {
  char *text = nullptr;
  size_t count = 0;
  if (tegula_aot_left_out(aot, &text, &count) != TEGULA_OK) return failLast(), false;
  std::unique_ptr<char, void (*)(void *)> owner(text, tegula_free);
  if (count) std::fprintf(stderr, "tegula: left out (%zu):\n%s", count, text);
  return true;
}

int check(TegulaAot *aot, const std::string &bundle, const std::vector<uint8_t> &key) {
  char *text = nullptr;
  size_t count = 0;
  if (tegula_aot_gaps(aot, bundle.c_str(), key.empty() ? nullptr : key.data(), &text, &count) != TEGULA_OK)
    return failLast();
  std::unique_ptr<char, void (*)(void *)> owner(text, tegula_free);
  if (!count) {
    std::printf("%s has all of it\n", bundle.c_str());
    return Ok;
  }
  std::fputs(text, stdout);
  return fail(bundle + " lacks " + std::to_string(count) + " of what the manifest lists");
}

std::string stemOf(const std::string &path) {
  std::string name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.find('.'));
}

/// The symbol of a bundle with this name, for linking it into a program.
std::string symbolOf(std::string name) {
  for (char &c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name + "_tgb";
}

/// The bundle as C source, for programs that contain it.
std::string sourceOf(const std::string &bytes, const std::string &name) {
  const std::string symbol = symbolOf(name);
  std::string text =
      "/* " + name +
      ".tgb, for tegula_bundle_open_memory. Made by `tegula aot --source`. */\n#include <stddef.h>\nconst size_t " +
      symbol + "_size = " + std::to_string(bytes.size()) + ";\n_Alignas(16) const unsigned char " + symbol + "[] = {";
  for (size_t i = 0; i < bytes.size(); ++i)
    text += (i % 32 ? "" : "\n  ") + std::to_string(static_cast<unsigned char>(bytes[i])) + ",";
  return text + "\n};\n";
}

} // namespace

int aotCommand(const std::vector<std::string> &argv) {
  std::vector<OptionSpec> options = {
      {'o', "output", "FILE", "the bundle, FILE.tgb"},
      {0, "header", "FILE", "a header for C and C++ with one typed function for each kernel"},
      {0, "source", "FILE", "the bundle as a source of C, to be linked into a program (tegula_bundle_open_memory)"},
      {0, "object", "FILE",
       "the bundle as an object file, FILE.o, to be linked into a program (app_open_linked of the header)"},
      {0, "object-for", "MACHINE", "the machine of --object: x86-64 or aarch64, in place of this one"},
      {'t', "target", "NAME",
       "in place of the targets in the manifest: cpu:x86-64, cpu:avx2, cpu:avx512, cpu:aarch64, sm_90a ...; `cpu` is this machine's instruction set; what was recorded on CPUs takes those that are CPUs, what was recorded on GPUs or the simulator the others",
       true},
      {0, "any-target", "", "compile what was recorded for all targets of -t, whatever it was recorded on"},
      {0, "keep-going", "", "leave out what cannot be compiled, and say so"},
      {0, "classes", "WHICH",
       "in place of what the manifest says: given, generic (and the classes that rely on nothing), all, distinct (all in which no two parameters are one buffer)"},
      {0, "all-classes", "", "--classes all: every class that launches can ask for"},
      {0, "key", "FILE", "sign with this secret key (Ed25519)"},
      {0, "public-key", "FILE",
       "for --check and --list: the bundle must be signed with the key that belongs to this one"},
      {0, "new-key", "FILE", "make a pair of keys, FILE and FILE.pub, and do nothing else"},
      {0, "check", "BUNDLE", "compile nothing, and print what the manifests list and the bundle lacks"},
      {0, "list", "BUNDLE", "print what is in a bundle, check every byte of it, and do nothing else"},
  };
  CommandLine line;
  std::string error;
  bool parsed = parseCommandLine(options, argv, line, error), alone = line.has("new-key") || line.has("list");
  if (parsed && !alone && line.positional.empty()) error = "aot takes at least one manifest";
  if (parsed && !alone && error.empty() && !line.has("output") && !line.has("check") && !line.has("header"))
    error = "aot needs -o FILE.tgb, --check BUNDLE or --header FILE";
  if (!error.empty() || (alone && !line.positional.empty()))
    return misuse(argv, error.empty() ? "--new-key and --list take no manifest" : error,
                  "tegula aot MANIFEST.json ... -o FILE.tgb [options]\n" + describeOptions(options));
  std::vector<uint8_t> secret, open;
  if (line.has("key") && !readKey(line.get("key"), 64, secret, error)) return fail(error);
  if (line.has("public-key") && !readKey(line.get("public-key"), 32, open, error)) return fail(error);
  if (line.has("new-key")) return makeKeys(line.get("new-key"));
  if (line.has("list")) return list(line.get("list"), open);
  for (const char *inside : {"source", "object"})
    if (line.has(inside) && !line.has("output")) return usage("--" + std::string(inside) + " needs -o FILE.tgb");
  const std::string machineName = line.has("object-for") ? line.get("object-for") : std::string(thisMachine());
  const uint16_t machine = elfMachine(machineName);
  if (!machine) return usage("--object-for takes x86-64 or aarch64, found `" + machineName + "`");
  if (line.has("object-for") && !line.has("object")) return usage("--object-for needs --object FILE.o");
  int32_t classes = -1;
  if (line.has("classes") || line.has("all-classes")) {
    std::string which = line.has("all-classes") ? "all" : line.get("classes");
    classes = which == "generic"    ? TEGULA_CLASSES_GENERIC
              : which == "given"    ? TEGULA_CLASSES_GIVEN
              : which == "all"      ? TEGULA_CLASSES_ALL
              : which == "distinct" ? TEGULA_CLASSES_DISTINCT
                                    : -1;
    if (classes < 0) return usage("--classes takes given, generic, all or distinct, found `" + which + "`");
  }
  TegulaContext *ctx = nullptr;
  if (tegula_context_create(nullptr, &ctx) != TEGULA_OK) return failLast();
  Handle<TegulaContext> context(ctx);
  TegulaAot *made = nullptr;
  if (tegula_aot_create(ctx, &made) != TEGULA_OK) return failLast();
  std::unique_ptr<TegulaAot, CloseAot> aot(made);
  if (tegula_aot_set_flags(made, (line.has("any-target") ? TEGULA_AOT_ANY_TARGET : 0u) |
                                     (line.has("keep-going") ? TEGULA_AOT_KEEP_GOING : 0u)) != TEGULA_OK)
    return failLast();
  std::vector<const char *> targets;
  for (const std::string &t : line.all("target")) targets.push_back(t.c_str());
  for (const std::string &path : line.positional)
    if (tegula_aot_add_manifest(made, path.c_str(), targets.data(), targets.size(), classes) != TEGULA_OK)
      return failLast();
  if (line.has("check")) return check(made, line.get("check"), open);
  size_t entries = 0;
  if (tegula_aot_compile(made, &entries) != TEGULA_OK) return failLast();
  if (!sayLeftOut(made)) return UserError;
  const std::string output = line.get("output");
  if (!output.empty() && tegula_aot_write(made, output.c_str(), secret.empty() ? nullptr : secret.data()) != TEGULA_OK)
    return failLast();
  if (line.has("header")) {
    char *text = nullptr;
    if (tegula_aot_header(made, stemOf(output.empty() ? line.get("header") : output).c_str(), &text) != TEGULA_OK)
      return failLast();
    std::unique_ptr<char, void (*)(void *)> owner(text, tegula_free);
    if (!writeFile(line.get("header"), text, error)) return fail(error);
  }
  std::string bytes;
  if (!output.empty() && !readFile(output, bytes, error)) return fail(error);
  if (line.has("source") && !writeFile(line.get("source"), sourceOf(bytes, stemOf(output)), error)) return fail(error);
  if (line.has("object") && !writeFile(line.get("object"), objectFile(bytes, symbolOf(stemOf(output)), machine), error))
    return fail(error);
  if (!output.empty())
    std::printf("%s: %zu entries, %zu bytes%s\n", output.c_str(), entries, bytes.size(),
                secret.empty() ? "" : ", signed");
  return Ok;
}

} // namespace tegula::cli
