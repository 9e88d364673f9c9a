// The steps of `run`, `tune` and `verify` between the command line and a launch: the device, names for the grid, the
// parameters in order, tensor descriptors, signals.
#pragma once
#include "cli/DeviceBuffers.h"
#include <deque>

namespace tegula::cli {

/// The device of --device, else the default one. False: the last error is set.
bool chooseDevice(const CommandLine &line, TegulaContext *context, TegulaLaunchOptions &options);

/// Values of integer arguments and constants by name.
NameLookup integersOf(const std::vector<ArgValue> &args, const Constants &constants);

/// The kernel's parameters in order, from named arguments and constants; those in `later` may be missing. False:
/// `error` has the message.
bool bindParameters(TegulaFunction *function, const std::vector<ArgValue> &args, const Constants &constants,
                    const std::vector<std::string> &later, std::vector<TegulaArg> &out, std::string &error);

/// Makes tensor descriptors of the buffers that are given as such; `packed` has their pointers.
class Descriptors {
public:
  bool make(TegulaFunction *function, const std::vector<ArgValue> &args, std::vector<TegulaArg> &packed,
            std::string &error);

private:
  bool wrap(const ArgValue &a, TegulaArg &arg);
  std::deque<TegulaTensorDescriptor> storage_; // arguments point into it
};

} // namespace tegula::cli
