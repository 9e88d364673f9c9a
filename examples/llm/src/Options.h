// What the programs' command lines have in common: the model, the device, limits.
#pragma once
#include "Engine.h"
#include "Tokenizer.h"
#include <functional>
#include <optional>

namespace llm {

/// A table of options and where their values go; `--name value` or `--name=value`.
class CommandLine {
public:
  CommandLine(std::string program, std::string purpose) : program_(std::move(program)), purpose_(std::move(purpose)) {}
  void flag(const char *name, bool &to, const char *help);
  void text(const char *name, std::string &to, const char *help);
  void number(const char *name, int64_t &to, const char *help, int64_t least = 0);
  /// From 0 to `most`.
  void real(const char *name, float &to, const char *help, int most);
  /// False: the program ends with `exitCode`, and what is to be said has been printed.
  bool parse(int argc, char **argv, int &exitCode);

private:
  struct Row {
    std::string name, help, kind;
    std::function<bool(const std::string &)> set;
    std::string initial, wants; // wants: what a value may be, where not all are taken
  };
  void usage() const;
  std::string program_, purpose_;
  std::vector<Row> rows_;
};

/// The options of a model, and what they make.
struct ModelOptions {
  std::string model, shape = "tiny", precision, device = "cpu", tokenizer, bundle;
  bool graphs = false;
  int64_t seed = 0, threads = 0, context = 0, batch = 1, rows = 256, cacheTokens = 0;
  int64_t usualContext = 2048; // where none is given and the model has as many positions
  Config overrides; // fields that are not -1
  ModelOptions();
  void declare(CommandLine &line);
  /// config.json of the folder, or the named shape, with the overrides.
  Result<Config> config() const;
  /// Of a sequence of this model; an error if more is asked for than it has positions.
  Result<int64_t> contextOf(const Config &config) const;
};

/// A model ready to run, and its tokenizer if it has one.
struct Session {
  tegula::Context context;
  std::optional<Kernels> kernels;
  std::optional<Device> device;
  std::optional<Model> model;
  std::optional<Tokenizer> tokenizer;
  double loadSeconds = 0;
  static Result<Session> open(const ModelOptions &options);
};

/// Prints "program: message" to stderr; gives 1, a program's exit code.
int complain(const char *program, const Status &s);

} // namespace llm
