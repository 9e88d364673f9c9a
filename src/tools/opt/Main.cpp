// tegula-opt: reads textual IR, runs passes by name, prints the result. For people who work on passes, and for tests.
//
//   tegula-opt [--passes=a,b,c] [--no-verify] [--list] [file]     without a file: standard input
#include "ir/Text.h"
#include "ir/Verifier.h"
#include "passes/Pipeline.h"
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace tegula;

namespace {

struct Options {
  std::string passes, file = "-";
  bool verify = true;
};

/// 0, or 1 with a message if not all that was printed arrived.
int written() {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return 0;
  std::fprintf(stderr, "tegula-opt: cannot write to standard output%s%s\n", errno ? ": " : "",
               errno ? std::strerror(errno) : "");
  return 1;
}

int list() {
  for (const PassEntry &p : allPasses())
    std::printf("%-18s %s\n", p.name, p.summary);
  return written();
}

bool readText(const std::string &file, std::string &text) {
  std::ostringstream s;
  if (file == "-") {
    s << std::cin.rdbuf();
  } else {
    std::ifstream in(file, std::ios::binary);
    if (!in)
      return false;
    s << in.rdbuf();
  }
  text = s.str();
  return true;
}

int runPasses(ir::Module &m, const Options &o) {
  std::istringstream names(o.passes);
  for (std::string n; std::getline(names, n, ',');) {
    const PassEntry *p = findPass(n);
    if (!p) {
      std::fprintf(stderr, "tegula-opt: no pass `%s`; --list shows all\n", n.c_str());
      return 2;
    }
    p->run(m);
    std::string why;
    if (o.verify && !ir::verify(m, &why)) {
      std::fprintf(stderr, "tegula-opt: after %s: %s\n%s", p->name, why.c_str(), ir::print(m).c_str());
      return 3;
    }
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    std::string_view a = argv[i];
    if (a == "--list")
      return list();
    if (a == "--no-verify") {
      o.verify = false;
    } else if (a.substr(0, 9) == "--passes=") {
      o.passes = a.substr(9);
    } else if (a.size() > 1 && a[0] == '-') {
      std::fprintf(stderr, "usage: tegula-opt [--passes=a,b] [--no-verify] [--list] [file]\n");
      return 2;
    } else {
      o.file = a;
    }
  }
  std::string text;
  if (!readText(o.file, text)) {
    std::fprintf(stderr, "tegula-opt: cannot read %s: %s\n", o.file.c_str(), std::strerror(errno));
    return 2;
  }
  DiagEngine diag;
  auto file = std::make_shared<SourceFile>(o.file, std::move(text));
  std::unique_ptr<ir::Module> m = ir::parse(file, diag);
  std::fputs(renderAll(diag).c_str(), stderr);
  if (!m)
    return 1;
  int status = runPasses(*m, o);
  if (status == 0)
    std::fputs(ir::print(*m).c_str(), stdout);
  return status ? status : written();
}
