// Functions as text, with everything they reach: helpers, captured constants, classes, modules of a binding. A function
// that is read back has the same meaning; its source hash proves it.
#pragma once
#include "api/Handles.h"
#include <nlohmann/json_fwd.hpp>

namespace tegula::api {

/// Not thread-safe. Numbers objects in the order in which it reaches them; one table of objects can hold many kernels.
class ClosureWriter {
public:
  ClosureWriter();
  ~ClosureWriter();
  /// The function's number ("f3"); "": something that it reaches has no text; `why` names it.
  std::string add(const std::shared_ptr<const lang::Function> &f, std::string &why);
  /// Adds a module's files by path; returns their number.
  std::string addFiles(const std::map<std::string, std::string> &texts);
  /// Writes a specialization to `out`. False: something that it reaches has no text; `why` names it.
  bool add(const sema::ParamSpec &s, nlohmann::json &out, std::string &why);
  /// All objects by number.
  const nlohmann::json &objects() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Recreates functions; they live in `context`, and as long as the reader does.
class ClosureReader {
public:
  /// `objects` must outlive the reader.
  ClosureReader(TegulaContext &context, const nlohmann::json &objects);
  ~ClosureReader();
  /// The function of this number; null: it is missing or damaged; `why` says which.
  TegulaFunction *function(const std::string &number, std::string &why);
  /// The files of this number; false: they are missing or damaged.
  bool files(const std::string &number, std::map<std::string, std::string> &out, std::string &why);
  bool spec(const nlohmann::json &j, sema::ParamSpec &out, std::string &why);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace tegula::api
