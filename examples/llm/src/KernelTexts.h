// The text of each file of ../kernels; CMakeLists.txt makes the definition.
#pragma once

namespace llm {

struct KernelText {
  const char *name, *text;
};
inline constexpr int kernelTextCount = 7;
extern const KernelText kernelTexts[kernelTextCount];

} // namespace llm
