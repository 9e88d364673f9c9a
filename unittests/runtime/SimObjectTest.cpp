// Objects for the simulator: the loader resolves the functions of SimAbi.h, and the kernel runs.
#include "TestObjects.h"
#include "runtime/ObjectLoader.h"
#include "sim/Machine.h"

using namespace tegula;

TEST(SimObject, LoadsAndRuns) {
  runtime::Status status;
  std::vector<char> bytes = runtime::testObject("sim");
  auto object = runtime::LoadedObject::load(bytes, status);
  ASSERT_TRUE(object) << status.text;
  std::vector<int32_t> data(128);
  for (int32_t i = 0; i < 128; ++i) data[size_t(i)] = i;
  int32_t *args = data.data();
  sim::Extent extent{reinterpret_cast<uint64_t>(data.data()), data.size() * 4};
  sim::LaunchConfig config;
  config.entry = reinterpret_cast<TegulaSimEntry>(object->symbol("reverse"));
  config.args = &args;
  config.sharedBytes = 512;
  config.buffers = {&extent, 1};
  sim::Report r = sim::launch(config);
  EXPECT_FALSE(r.fault) << r.fault.text;
  for (int32_t i = 0; i < 128; ++i) EXPECT_EQ(data[size_t(i)], 127 - i);
}
