// Forms of a kernel's code: facts of a launch select the one that runs.
//
// The number of programs of a grid, and the trip count of a loop that an argument bounds, decide between more warps and
// more loads ahead of them. A compilation that would generate different code for different facts says so: it attaches a
// LaunchForms to the code, which names the numbers that matter, divides each into classes, and gives the form of every
// combination of classes.
//
//   row_sum(x, out, n), 4 warps            axes: trips of `range(0, n, 1024)`, limits {1}
//   forms by class: {17, 13}               form 17 (sixteen blocks on a multiprocessor) where n <= 1024, else form 13
//   unknown: 13, form: 17                  this code was made for a launch with n <= 1024; code for nobody in particular would be form 13
//
// A launch evaluates the LaunchForms of the kernel that its key finds; if they select another form, it uses that one:
// api/Launch.cpp. The form is part of that kernel's key, the classes are not: classes with the same form share its
// code. A kernel without LaunchForms has one form, and its launches evaluate nothing. On GPUs results never depend on
// the form: passes may choose by it how many registers a thread has or how many blocks share iterations, never what is
// computed. On CPUs a launch with large strides needs its own form (targets/cpu/emit/LaunchFactors.h).
//
// If nothing is known (compiled ahead of time, bundles, tegula_compile without `programs`) the code has the form
// `unknown`, and launches of bundles keep it.
#pragma once
#include "support/Work.h"
#include <span>

namespace tegula {

/// Known facts about the launches that code is generated for.
struct LaunchFacts {
  static constexpr uint32_t usualCores = 132; // an H200's
  int64_t programs = 0;            // of the grid; 0: not known
  uint32_t cores = usualCores;     // multiprocessors of the device
  static constexpr int64_t notKnown = INT64_MIN;
  std::vector<int64_t> arguments;  // by index, the value of an integer, else notKnown; empty: none is known
  uint8_t form = 0;                // the form to generate, whatever the numbers; 0: the one that they select
};

struct LaunchForms {
  /// A number that matters, in classes: its class is how many of `limits`, which ascend, are less than it.
  struct Axis {
    static constexpr int32_t grid = -1; // programs on a multiprocessor if all ran at once, in sixteenths, rounded up
    int32_t number = grid;              // an expression
    std::vector<int64_t> limits;
    bool operator==(const Axis &) const = default;
  };
  static constexpr size_t mostExprs = 32, mostAxes = 4, mostForms = 256;

  /// Over arguments and NumPrograms of the first axis; program 0 represents all.
  std::vector<WorkExpr> exprs;
  std::vector<Axis> axes;
  std::vector<uint8_t> forms;    // by class, the last axis fastest; none is 0. Empty: there is one form
  uint8_t unknown = 0, form = 0; // where a number is not known; the form of this code
  bool operator==(const LaunchForms &) const = default;

  bool asks() const { return !forms.empty(); }
  /// The value of an argument (of an integer) by index, or LaunchFacts::notKnown.
  using Argument = int64_t (*)(const void *context, uint32_t index);
  /// Neither allocates nor locks. A number without a value (a quotient by 0) counts as not known.
  uint8_t formFor(int64_t programs, uint32_t cores, Argument argument, const void *context) const;
  uint8_t formFor(const LaunchFacts &facts) const;
  /// Are the sizes and indices valid for formFor, in a kernel with that many arguments?
  bool isValid(size_t arguments) const;
};

} // namespace tegula
