// $TEGULA_RECORD: what a program's launches took from the compiler, as a manifest that `tegula aot` compiles
// (docs/bundle.md).
//
// A kernel is written down with all it reaches (api/Closure.h), so that it can be compiled without the program,
// whatever language that is in.
#pragma once
#include "api/Compile.h"
#include "api/Closure.h"

namespace tegula::api {

/// Thread-safe. The file is written when the recorder or the process ends, and every `often` kernels; what is in it
/// already stays.
class Recorder {
public:
  explicit Recorder(std::string path);
  ~Recorder();
  void add(const CompileRequest &r, const TegulaKernel &k);
  /// False with the reason: the file cannot be written.
  bool write(std::string &error);

private:
  static constexpr size_t often = 64;
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace tegula::api
