// quantize: reads a model's safetensors and writes them with int8 or int4 weights, beside copies of its config.json, generation_config.json and tokenizer.json.
#include "Options.h"
#include <cstdio>
#include <sys/stat.h>

using namespace llm;

int main(int argc, char **argv) {
  ModelOptions options;
  std::string output;
  CommandLine line("quantize", "writes a model with int8 or int4 weights (scales of groups of 64 inputs, bf16)");
  line.text("model", options.model, "folder with config.json and *.safetensors");
  line.text("precision", options.precision, "int8 or int4");
  line.text("output", output, "folder to write to");
  line.number("threads", options.threads, "CPU threads, 0 for all cores");
  int code = 0;
  if (!line.parse(argc, argv, code)) return code;
  if (options.model.empty() || output.empty()) return std::fprintf(stderr, "quantize: --model and --output are needed; --help lists the options\n"), 2;
  Result<Precision> precision = parsePrecision(options.precision);
  if (!precision) return complain("quantize", precision.status());
  if (*precision != Precision::Int8 && *precision != Precision::Int4) return complain("quantize", invalid("--precision must be int8 or int4"));
  Result<Config> config = options.config();
  if (!config) return complain("quantize", config.status());
  if (Result<std::optional<Precision>> stored = storedPrecision(options.model); !stored || *stored)
    return complain("quantize", stored ? invalid(options.model + " has " + std::string(precisionName(**stored)) + " weights already") : stored.status());

  TegulaContextOptions contextOptions = TEGULA_CONTEXT_OPTIONS_INIT;
  contextOptions.num_threads = int32_t(options.threads);
  Result<tegula::Context> context = tegula::Context::create(contextOptions);
  if (!context) return complain("quantize", context.status());
  Result<Device> device = Device::open(*context, "cpu");
  if (!device) return complain("quantize", device.status());
  Result<Kernels> kernels = Kernels::load(*context);
  if (!kernels) return complain("quantize", kernels.status());
  int64_t needed = expectedWeightBytes(*config, *precision);
  Result<uint64_t> available = device->availableBytes();
  if (!available) return complain("quantize", available.status());
  if (uint64_t(needed) > *available)
    return complain("quantize", fail(TEGULA_OUT_OF_RESOURCES, "the quantized weights take " + readableBytes(uint64_t(needed)) + ", but " + readableBytes(*available) + " are free"));
  Weights::Options load{options.model};
  load.keep = true;
  load.progress = [](const std::string &text) { std::fprintf(stderr, "\r%s ", text.c_str()); };
  Result<Weights> weights = Weights::load(*config, *precision, load, *kernels, *device);
  std::fprintf(stderr, "\n");
  if (!weights) return complain("quantize", weights.status());

  std::map<std::string, Tensor> tensors;
  weights->visit(
      [&](const std::string &name, Matrix &m) {
        size_t experts = name.find(".experts."); // one matrix of all of them here, one each in files
        for (int64_t e = 0; e < m.experts; ++e) {
          auto part = [&](const Tensor &all) {
            Tensor t = all;
            t.shape[0] /= m.experts;
            t.data = static_cast<const char *>(all.data) + e * t.bytes();
            return t;
          };
          std::string one = experts == std::string::npos ? name : name.substr(0, experts + 9) + std::to_string(e) + name.substr(experts + 8);
          tensors[m.bits ? one + ".q" : one] = part(m.values);
          if (m.bits) tensors[one + ".scales"] = part(m.scales);
        }
      },
      [&](const std::string &name, Tensor &t, Buffer &) { tensors[name] = t; });
  mkdir(output.c_str(), 0777);
  Status written = writeSafetensors(output + "/model.safetensors", tensors, {{"tegula_llm.precision", precisionName(*precision)}});
  if (!written) return complain("quantize", written);
  for (const char *name : {"/config.json", "/generation_config.json", "/tokenizer.json"}) {
    Result<std::string> text = readFile(options.model + name);
    if (!text && text.status().code() == TEGULA_NOT_FOUND) continue;
    if (Status s = text ? writeFile(output + name, *text) : text.status(); !s) return complain("quantize", s);
  }
  std::printf("%s: %s of %s weights\n", output.c_str(), readableBytes(uint64_t(weights->bytes())).c_str(), precisionName(*precision));
  return 0;
}
