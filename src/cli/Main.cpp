// The `tegula` command: selects the subcommand.
#include "cli/Cli.h"
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace {
struct Command {
  const char *name;
  int (*run)(const std::vector<std::string> &);
  const char *help;
};
constexpr Command commands[] = {
    {"run", tegula::cli::runCommand, "compile and launch a kernel on files and made-up buffers"},
    {"compile", tegula::cli::compileCommand,
     "print or write one stage of a kernel: ast, tree, tile, llvm, asm, ptx, cubin ..."},
    {"tune", tegula::cli::tuneCommand, "find the fastest configuration of a kernel, look at and merge results"},
    {"aot", tegula::cli::aotCommand, "compile kernels ahead of time into a bundle, look at bundles"},
    {"specializations", tegula::cli::specializationsCommand, "the forms of a kernel that launches can ask for"},
    {"verify", tegula::cli::verifyCommand, "run a kernel on two devices and compare what it computes"},
    {"check", tegula::cli::checkCommand, "report the mistakes in a file without running anything"},
    {"info", tegula::cli::infoCommand, "version, devices, targets, cache"},
    {"cache", tegula::cli::cacheCommand, "look at or clear the disk cache"},
};

/// Checks that all output was written: `result`, or an error if it is success and standard output could not be written.
int finish(int result) {
  errno = 0;
  bool ok = std::fflush(stdout) == 0 && !std::ferror(stdout);
  if (ok) return result;
  int code = tegula::cli::fail(std::string("cannot write to standard output") +
                               (errno ? std::string(": ") + std::strerror(errno) : ""));
  return result ? result : code;
}

void help(FILE *out) {
  std::fprintf(out, "usage: tegula COMMAND ...\n");
  for (const Command &c : commands) std::fprintf(out, "  %-15s %s\n", c.name, c.help);
  std::fprintf(out, "  --version\nOptions of a command: tegula COMMAND --help\n");
}
} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    help(stderr);
    return tegula::cli::UsageError;
  }
  std::string name = argv[1];
  if (name == "--version") {
    std::printf("tegula %s\n", tegula_version());
    return finish(tegula::cli::Ok);
  }
  if (name == "--help" || name == "-h" || name == "help") {
    help(stdout);
    return finish(tegula::cli::Ok);
  }
  for (const Command &c : commands)
    if (name == c.name) return finish(c.run(std::vector<std::string>(argv + 2, argv + argc)));
  help(stderr);
  return tegula::cli::usage("unknown command `" + name + "`");
}
