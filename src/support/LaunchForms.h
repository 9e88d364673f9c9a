// Forms of a kernel's code: what only a launch knows decides which of them runs.
//
// How many programs a grid has, and how often a loop runs that an argument bounds, decide between more warps and more
// loads ahead of them. A compilation that would make other code for other answers says so: it leaves a LaunchForms with
// the code, which names the numbers it wants to know, cuts each into classes, and gives the form of every combination.
//
//   row_sum(x, out, n), 4 warps            axes: trips of `range(0, n, 1024)`, limits {1}
//   forms by class: {17, 13}               form 17 (sixteen blocks on a multiprocessor) where n <= 1024, else form 13
//   unknown: 13, form: 17                  this code was made for a launch with n <= 1024; code for nobody in particular would be form 13
//
// A launch evaluates that of the kernel which its key finds, and where it wants another form takes that one:
// api/Launch.cpp. A form is part of that kernel's key, classes are not: those that want the same form share its code. A
// kernel that asks nothing has one form, and its launches evaluate nothing. On GPUs results never depend on the form:
// passes may choose by it how many registers a thread has or how many blocks share iterations, never what is computed.
// On CPUs a launch with large strides needs its own (targets/cpu/emit/LaunchFactors.h).
//
// Where nothing is known (compiled ahead of time, bundles, tegula_compile without `programs`) code is made in form
// `unknown`, and launches of bundles keep it.
#pragma once
#include "support/Work.h"
#include <span>

namespace tegula {

/// What is known of the launches that code is made for.
struct LaunchFacts {
  static constexpr uint32_t usualCores = 132; // an H200's
  int64_t programs = 0;            // of the grid; 0: not known
  uint32_t cores = usualCores;     // multiprocessors of the device
  static constexpr int64_t notKnown = INT64_MIN;
  std::vector<int64_t> arguments;  // by index, of integers the value or notKnown; empty: none is known
  uint8_t form = 0;                // the form to make, whatever the numbers say; 0: as they say
};

struct LaunchForms {
  /// A number that decides, in classes: how many of `limits`, which ascend, are less than it.
  struct Axis {
    static constexpr int32_t grid = -1; // programs on a multiprocessor if all ran at once, in sixteenths, rounded up
    int32_t number = grid;              // an expression
    std::vector<int64_t> limits;
    bool operator==(const Axis &) const = default;
  };
  static constexpr size_t mostExprs = 32, mostAxes = 4, mostForms = 256;

  /// Over arguments and NumPrograms of the first axis; program 0 stands for all.
  std::vector<WorkExpr> exprs;
  std::vector<Axis> axes;
  std::vector<uint8_t> forms;    // by class, that of the last axis fastest; none 0. Empty: nothing is asked
  uint8_t unknown = 0, form = 0; // where a number is not known; that of this code
  bool operator==(const LaunchForms &) const = default;

  bool asks() const { return !forms.empty(); }
  /// The value of an argument (of an integer) by index, or LaunchFacts::notKnown.
  using Argument = int64_t (*)(const void *context, uint32_t index);
  /// Neither allocates nor locks. A number that has no value (a quotient by 0) is taken for not known.
  uint8_t formFor(int64_t programs, uint32_t cores, Argument argument, const void *context) const;
  uint8_t formFor(const LaunchFacts &facts) const;
  /// Are the sizes and indices those of a table that formFor can use, for a kernel with so many arguments?
  bool isValid(size_t arguments) const;
};

} // namespace tegula
