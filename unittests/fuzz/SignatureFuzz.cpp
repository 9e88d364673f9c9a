// Texts that describe arguments, one kind a line:
//   s:x:*f32:16, n:i32, BLOCK:128     a signature of the C interface
//   v:0x7f                            a constant (`-c NAME=...`)
//   t:*fp16                           a data type
//   a:x=randn:f32[cdiv(n, 4), 2]      an argument of the command line (`-a`); those of all lines are parsed together
//   g:cdiv(n, B), 4                   a grid
// Nothing is compiled. Buffers are small: a size that passes the parser is taken off the machine's memory.
#include "Check.h"
#include "api/Compile.h"
#include "api/Specialize.h"
#include "cli/ArgValue.h"
#include <cstdlib>
#include <sstream>

using namespace tegula;

using fuzz::check;

/// A kernel with every kind of parameter.
static TegulaFunction &function() {
  static sema::ModuleLoader loader;
  static TegulaFunction *f = [] {
    DiagEngine diag;
    auto m = loader.loadText(
        "k.py",
        "import triton\nimport triton.language as tl\n@triton.jit\n"
        "def k(x, y, n, m: tl.int64, d, BLOCK: tl.constexpr = 16, T: tl.constexpr = None, *rest):\n    pass\n",
        diag);
    auto *made = new TegulaFunction;
    made->fn = sema::ModuleLoader::kernel(*m, "k", diag);
    return made;
  }();
  return *f;
}

static void signature(const std::string &text) {
  tegula_clear_error();
  std::vector<sema::ParamSpec> specs;
  TegulaFunction &f = function();
  if (!api::parseSignature(f, text, nullptr, 0, specs)) {
    check(*tegula_last_error(), "refused without a message");
    return;
  }
  // What a kernel says of itself is a signature again, and of the same kernel.
  std::string said = api::signatureText(f.params(), specs), key = api::specKey(specs);
  check(!key.empty(), "no key");
  std::vector<sema::ParamSpec> again;
  check(api::parseSignature(f, said, nullptr, 0, again), "cannot be read back: " + said + ": " + tegula_last_error());
  check(api::specKey(again) == key,
        "reads back as another signature: " + said + " as " + api::signatureText(f.params(), again));
}

static void value(const std::string &text) {
  TegulaValue *v = tegula_value_parse(text.c_str());
  if (!v)
    return;
  int64_t i;
  double d;
  tegula_value_as_int(v, &i);
  tegula_value_as_float(v, &d);
  // repr() of a number, a bool, None or a data type reads back as the same value.
  int32_t kind = tegula_value_kind(v);
  if (kind == TEGULA_VALUE_INT || kind == TEGULA_VALUE_BOOL || kind == TEGULA_VALUE_NONE) {
    TegulaValue *again = tegula_value_parse(tegula_value_repr(v));
    check(again && lang::equal(v->value, again->value), "reads back as another value: " + text);
    tegula_value_release(again);
  }
  tegula_value_release(v);
}

static void dtype(const std::string &text) {
  TegulaDtype d;
  int32_t pointer;
  if (tegula_dtype_parse(text.c_str(), &d, &pointer) != TEGULA_OK || d == TEGULA_VOID)
    return;
  TegulaDtype again;
  check(tegula_dtype_parse(tegula_dtype_name(d), &again, nullptr) == TEGULA_OK && again == d, "data type: " + text);
}

/// Buffers of the command line are as large as the user says: large ones count as memory that is not to be had.
/// libFuzzer itself wants 21 MB in one piece.
extern "C" const char *__asan_default_options() { return "allocator_may_return_null=1:max_allocation_size_mb=32"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > 4000)
    return 0;
  std::istringstream in(std::string(reinterpret_cast<const char *>(data), size));
  std::vector<std::string> arguments, constants;
  std::string error;
  NameLookup names = [](std::string_view name) { return name == "n" ? std::optional<int64_t>(7) : std::nullopt; };
  for (std::string line; std::getline(in, line);) {
    if (line.size() < 2 || line[1] != ':')
      continue;
    std::string rest = line.substr(2);
    switch (line[0]) {
    case 's':
      signature(rest);
      break;
    case 'v':
      value(rest);
      constants.push_back("c" + std::to_string(constants.size()) + "=" + rest);
      break;
    case 't':
      dtype(rest);
      break;
    case 'g':
      for (const std::string &item : splitList(rest))
        check(evaluate(item, names, error) || !error.empty(), "refused without a message");
      break;
    case 'a':
      // Files are the part of the npy fuzzer.
      if (rest.find("=@") == rest.npos)
        arguments.push_back(rest);
    }
  }
  cli::Constants c;
  std::vector<cli::ArgValue> values;
  if (!cli::parseConstants(constants, c, error))
    check(!error.empty(), "refused without a message");
  error.clear();
  if (!cli::parseArguments(arguments, c, values, error)) {
    check(!error.empty(), "refused without a message");
    return 0;
  }
  for (const cli::ArgValue &v : values)
    if (v.isBuffer)
      check(cli::formatBuffer(v).size() < 1 << 20, "a page of text for a buffer");
  return 0;
}
