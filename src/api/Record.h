// $TEGULA_RECORD: the kernels that a program's launches compiled, as a manifest for `tegula aot` (docs/bundle.md).
//
// A kernel is recorded with everything it reaches (api/Closure.h), so that it can be compiled without the program, in
// whatever language that is written.
#pragma once
#include "api/Compile.h"
#include "api/Closure.h"

namespace tegula::api {

/// Thread-safe. Writes the file when the recorder or the process ends, and after every `often` kernels; keeps what the
/// file contains already.
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
