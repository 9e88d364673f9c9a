#include "Kernels.h"
#include "KernelTexts.h"

namespace llm {

Result<Kernels> Kernels::load(const tegula::Context &context) {
  Kernels k;
  struct Row {
    const char *file, *name;
    tegula::Function *to;
  };
  const Row rows[] = {{"norms", "rms_norm", &k.rmsNorm},
                      {"elementwise", "embedding", &k.embedding},
                      {"norms", "gather_rows", &k.gatherRows},
                      {"attention", "rope_append", &k.ropeAppend},
                      {"elementwise", "swiglu", &k.swiglu},
                      {"attention", "paged_attention", &k.attention},
                      {"attention", "decode_attention", &k.decodeAttention},
                      {"attention", "attention_parts", &k.attentionParts},
                      {"sampling", "argmax", &k.argmax},
                      {"sampling", "argmax_parts", &k.argmaxParts},
                      {"sampling", "argmax_join", &k.argmaxJoin},
                      {"sampling", "sample", &k.sample},
                      {"matmul", "gemv", &k.gemv},
                      {"matmul", "gemv_fused", &k.gemvFused},
                      {"matmul", "matmul", &k.matmul},
                      {"matmul", "tiled_matmul", &k.tiledMatmul},
                      {"quantized", "split_activations", &k.splitActivations},
                      {"quantized", "integer_matmul", &k.integerMatmul},
                      {"quantized", "widened_matmul", &k.widenedMatmul},
                      {"quantized", "shared_matmul", &k.sharedMatmul},
                      {"quantized", "widened_gemv", &k.widenedGemv},
                      {"quantized", "grouped_integer_matmul", &k.groupedIntegerMatmul},
                      {"quantized", "grouped_widened_matmul", &k.groupedWidenedMatmul},
                      {"quantized", "quantize_weights", &k.quantizeWeights},
                      {"quantized", "dequantize_weights", &k.dequantizeWeights},
                      {"moe", "moe_gate", &k.moeGate},
                      {"moe", "moe_align", &k.moeAlign},
                      {"moe", "grouped_matmul", &k.groupedMatmul},
                      {"moe", "moe_combine", &k.moeCombine}};
  for (const KernelText &text : kernelTexts) {
    Result<tegula::Module> m = context.loadText(std::string("llm/kernels/") + text.name + ".py", text.text);
    if (!m) return m.status();
    for (const Row &r : rows)
      if (std::string_view(r.file) == text.name) {
        Result<tegula::Function> f = m->kernel(r.name);
        if (!f) return f.status();
        *r.to = *f;
      }
  }
  return k;
}

} // namespace llm
