// Shared by the commands of `tegula`: how options are parsed, and how errors are reported.
//
// Exit codes: 0 done; 1 the user's input is wrong or the kernel failed (a message was written to stderr); 2 the command
// line itself is wrong.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tegula/tegula.h>
#include <vector>

namespace tegula::cli {

enum Exit : int { Ok = 0, UserError = 1, UsageError = 2 };

/// One option of a command: "-a NAME=VALUE". `longName` without dashes; `shortName` 0 if none; `value` empty for a
/// switch.
struct OptionSpec {
  char shortName;
  const char *longName;
  const char *value;
  const char *help;
  bool repeated = false;
};

/// A parsed command line.
struct CommandLine {
  std::vector<std::string> positional;
  std::map<std::string, std::vector<std::string>> options; // by long name
  bool has(const char *name) const { return options.count(name) != 0; }
  std::string get(const char *name, std::string otherwise = {}) const {
    auto it = options.find(name);
    return it == options.end() ? otherwise : it->second.back();
  }
  const std::vector<std::string> &all(const char *name) const {
    static const std::vector<std::string> none;
    auto it = options.find(name);
    return it == options.end() ? none : it->second;
  }
};

/// Reads options anywhere among the positional arguments; `--name=value` and `--name value`. False with a message in
/// `error`.
bool parseCommandLine(const std::vector<OptionSpec> &specs, const std::vector<std::string> &args, CommandLine &out,
                      std::string &error);
std::string describeOptions(const std::vector<OptionSpec> &specs);

/// Parses the whole text as a number from 1 to 2^20; `name` is for messages. False: `error` has the message.
bool parseCount(const std::string &name, const std::string &text, int32_t &out, std::string &error);
/// Parses the whole text as a finite number. False: it is not one.
bool parseNumber(const std::string &text, double &out);

/// Writes "tegula: message" to stderr (the message of compile errors unchanged) and returns the exit code.
int fail(const std::string &message);
int usage(const std::string &message);
/// For a command line that does not parse: reports `error` and the command's syntax as a usage error; or, with --help,
/// prints only the syntax on standard output and returns success.
int misuse(const std::vector<std::string> &argv, const std::string &error, const std::string &syntax);
/// fail() with the thread's last error.
int failLast();

struct Release {
  void operator()(TegulaContext *p) const { tegula_context_release(p); }
  void operator()(TegulaModule *p) const { tegula_module_release(p); }
  void operator()(TegulaFunction *p) const { tegula_function_release(p); }
  void operator()(TegulaKernel *p) const { tegula_kernel_release(p); }
  void operator()(TegulaValue *p) const { tegula_value_release(p); }
  void operator()(TegulaTuner *p) const { tegula_tuner_release(p); }
};
template <typename T> using Handle = std::unique_ptr<T, Release>;

/// Opens the kernel of "file.py::kernel". Nullopt: the message was written.
struct KernelRef {
  Handle<TegulaContext> context;
  Handle<TegulaModule> module;
  Handle<TegulaFunction> function;
};
std::optional<KernelRef> openKernel(const std::string &spec);

/// The items of -c NAME=VALUE. Owns the values.
struct Constants {
  std::vector<std::string> names;
  std::vector<Handle<TegulaValue>> values;
  std::vector<TegulaNamedValue> list() const;
  std::optional<int64_t> integer(std::string_view name) const;
  TegulaValue *find(std::string_view name) const;
};
bool parseConstants(const std::vector<std::string> &items, Constants &out, std::string &error);

/// The launch options shared by all commands that launch. False: `error` names the option with an invalid value.
extern const std::vector<OptionSpec> launchOptionSpecs;
bool parseLaunchOptions(const CommandLine &line, TegulaLaunchOptions &out, std::string &error);

/// --info and --remarks, and the report about a kernel that they print (to stderr).
extern const std::vector<OptionSpec> reportOptionSpecs;
void reportKernel(const CommandLine &line, TegulaKernel *kernel);

/// From now on Ctrl-C cancels the launches of this context, and a segmentation fault prints advice before the process
/// ends.
void handleSignals(TegulaContext *context, const TegulaLaunchOptions &options);

int runCommand(const std::vector<std::string> &args);
int compileCommand(const std::vector<std::string> &args);
int checkCommand(const std::vector<std::string> &args);
int infoCommand(const std::vector<std::string> &args);
int cacheCommand(const std::vector<std::string> &args);
int tuneCommand(const std::vector<std::string> &args);
int aotCommand(const std::vector<std::string> &args);
int specializationsCommand(const std::vector<std::string> &args);
int verifyCommand(const std::vector<std::string> &args);

} // namespace tegula::cli
