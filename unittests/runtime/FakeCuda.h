/* The switches and the record of the stand-in for the CUDA driver (FakeCuda.cpp): reached through fakeCuda() of the
 * loaded library. */
#pragma once
#include "runtime/cuda/Driver.h"
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fakecuda {

using namespace tegula::runtime::cuda;

struct Launch {
  CUlaunchConfig config;
  std::vector<CUlaunchAttribute> attributes;
  std::vector<unsigned char> arguments;
  std::string function;
  CUcontext context; // that was current
};

struct FakeCuda {
  // What the driver is and does; fakeCudaReset() restores it.
  std::vector<size_t> parameterSizes; // of the launched kernel, for launches that pass parameters one by one
  int version = 12080, deviceCount = 1, capability = 90, maxShared = 232448;
  int initResult = 0, loadResult = 0, launchResult = 0, waitResult = 0, allocateResult = 0;
  int captureResult = 0, graphResult = 0; // of the end of a capture, and of making a graph executable
  std::string loadLog;
  std::function<void()> unloading; // what happens meanwhile
  int blocksThatFit = 2; // on a multiprocessor
  int registers = 32, localBytes = 0, fixedShared = 0, maxThreads = 1024, clustersThatFit = 1;
  int usedMiB = 0; // of the 128 GiB
  // What was called.
  std::vector<Launch> launches;
  std::vector<std::string> modules; // images, in order of loading
  std::map<int, int> functionAttributes;
  int mapsEncoded = 0;
  int modulesAlive = 0, pointerQueries = 0, allocations = 0, waits = 0;
  // executable graphs; operations that were captured
  int streamsAlive = 0, graphsAlive = 0, graphLaunches = 0, captured = 0;
  double ns = 0; // on the clock of its events: a launch takes 1000 and one for each block, a copy or a filling 100
  struct Range {
    uint64_t bytes;
    unsigned memoryType;
    int device;
  };
  std::map<uint64_t, Range> ranges;
  std::mutex mutex;

};

} // namespace fakecuda

extern "C" fakecuda::FakeCuda *fakeCuda();
extern "C" void fakeCudaReset();
