// Functions as text, with all that they reach: helpers, captured constants, classes, modules of a binding. What is read
// back does the same, which its source hash proves.
#pragma once
#include "api/Handles.h"
#include <nlohmann/json_fwd.hpp>

namespace tegula::api {

/// Not thread-safe. Objects are numbered as they are met; a table of them can hold many kernels.
class ClosureWriter {
public:
  ClosureWriter();
  ~ClosureWriter();
  /// The function's number ("f3"); "": something that it reaches has no text, and `why` says what.
  std::string add(const std::shared_ptr<const lang::Function> &f, std::string &why);
  /// A module's files by path: their number.
  std::string addFiles(const std::map<std::string, std::string> &texts);
  /// A specialization. False: as above.
  bool add(const sema::ParamSpec &s, nlohmann::json &out, std::string &why);
  /// All of them, by number.
  const nlohmann::json &objects() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Makes functions again; they live in `context`, and as long as the reader does.
class ClosureReader {
public:
  /// `objects` must outlive it.
  ClosureReader(TegulaContext &context, const nlohmann::json &objects);
  ~ClosureReader();
  /// Null: it is not there, or damaged; `why` says so.
  TegulaFunction *function(const std::string &number, std::string &why);
  /// False: it is not there, or damaged.
  bool files(const std::string &number, std::map<std::string, std::string> &out, std::string &why);
  bool spec(const nlohmann::json &j, sema::ParamSpec &out, std::string &why);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace tegula::api
