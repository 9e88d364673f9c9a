// The `tegula` command: chooses the subcommand, nothing else.
#include "cli/Cli.h"
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
    {"compile", tegula::cli::compileCommand, "print or write one stage of a kernel: ast, tree, tile, llvm, asm, ptx, cubin ..."},
    {"check", tegula::cli::checkCommand, "report the mistakes in a file without running anything"},
    {"info", tegula::cli::infoCommand, "version, devices, targets, cache"},
    {"cache", tegula::cli::cacheCommand, "look at or clear the disk cache"},
};

void help(FILE *out) {
  std::fprintf(out, "usage: tegula COMMAND ...\n");
  for (const Command &c : commands) std::fprintf(out, "  %-9s %s\n", c.name, c.help);
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
    return 0;
  }
  if (name == "--help" || name == "-h" || name == "help") {
    help(stdout);
    return 0;
  }
  for (const Command &c : commands)
    if (name == c.name) return c.run(std::vector<std::string>(argv + 2, argv + argc));
  help(stderr);
  return tegula::cli::usage("unknown command `" + name + "`");
}
