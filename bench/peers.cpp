// Peers of the CPU benchmark behind a C interface, loaded by bench/run.py into the process that also runs tegula: oneDNN
// (bf16 matmul, softmax, layer normalization), and plain C++ loops compiled with -O3 -march=native.
// Shapes are row-major; `threads` is the number of threads every peer uses. What a library cannot do on this CPU (oneDNN has no bf16 without
// AVX-512) gives a null pointer, and peer_error() says why: no exception leaves this file.
#include <cstdint>
#include <dnnl.hpp>
#include <memory>
#include <omp.h>
#include <string>
#include <unordered_map>
#include <vector>

namespace {
dnnl::engine &engine() {
  static dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}
dnnl::stream &stream() {
  static dnnl::stream s(engine());
  return s;
}
using Dims = dnnl::memory::dims;
using Dtype = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

// A oneDNN primitive with the descriptors of its arguments, made once per shape: creation is not timed.
struct Prepared {
  dnnl::primitive primitive;
  std::vector<std::pair<int, dnnl::memory>> args;
  void run(std::initializer_list<void *> data) {
    auto it = data.begin();
    std::unordered_map<int, dnnl::memory> map;
    for (auto &[id, m] : args) {
      m.set_data_handle(*it++);
      map.emplace(id, m);
    }
    primitive.execute(stream(), map);
    stream().wait();
  }
};
std::string lastError;

/// What `make` returns, or null if the library refuses.
template <typename Make> void *prepared(Make make) {
  try {
    return make().release();
  } catch (const dnnl::error &e) {
    lastError = e.message;
    return nullptr;
  }
}

dnnl::memory empty(const Dims &d, Dtype t, Tag tag) { return dnnl::memory({d, t, tag}, engine(), nullptr); }

} // namespace

extern "C" {

void peer_set_threads(int threads) {
  omp_set_num_threads(threads);
}

/// OpenMP keeps its threads between calls, which is what a fair C++ loop would do too.
void peer_add(const float *__restrict x, const float *__restrict y, float *__restrict out, int64_t n) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

void peer_copy(const float *__restrict x, float *__restrict out, int64_t n) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; ++i) out[i] = x[i];
}

void *peer_matmul_prepare(int64_t m, int64_t n, int64_t k, int bf16) {
  return prepared([&] {
    Dtype t = bf16 ? Dtype::bf16 : Dtype::f32;
    auto p = std::make_unique<Prepared>();
    dnnl::matmul::desc d({{m, k}, t, Tag::ab}, {{k, n}, t, Tag::ab}, {{m, n}, Dtype::f32, Tag::ab});
    p->primitive = dnnl::matmul(dnnl::matmul::primitive_desc(d, engine()));
    p->args = {{DNNL_ARG_SRC, empty({m, k}, t, Tag::ab)},
               {DNNL_ARG_WEIGHTS, empty({k, n}, t, Tag::ab)},
               {DNNL_ARG_DST, empty({m, n}, Dtype::f32, Tag::ab)}};
    return p;
  });
}
void peer_matmul_run(void *p, void *a, void *b, void *c) { static_cast<Prepared *>(p)->run({a, b, c}); }

void *peer_softmax_prepare(int64_t rows, int64_t cols) {
  return prepared([&] {
    auto p = std::make_unique<Prepared>();
    dnnl::memory::desc md({rows, cols}, Dtype::f32, Tag::ab);
    dnnl::softmax_forward::desc d(dnnl::prop_kind::forward_inference, md, 1);
    p->primitive = dnnl::softmax_forward(dnnl::softmax_forward::primitive_desc(d, engine()));
    p->args = {{DNNL_ARG_SRC, empty({rows, cols}, Dtype::f32, Tag::ab)},
               {DNNL_ARG_DST, empty({rows, cols}, Dtype::f32, Tag::ab)}};
    return p;
  });
}
void peer_softmax_run(void *p, void *x, void *out) { static_cast<Prepared *>(p)->run({x, out}); }

void *peer_layernorm_prepare(int64_t rows, int64_t cols) {
  return prepared([&] {
    auto p = std::make_unique<Prepared>();
    dnnl::memory::desc md({rows, cols}, Dtype::f32, Tag::ab);
    dnnl::layer_normalization_forward::desc d(dnnl::prop_kind::forward_inference, md, 1e-5f,
                                              dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift);
    p->primitive = dnnl::layer_normalization_forward(dnnl::layer_normalization_forward::primitive_desc(d, engine()));
    p->args = {{DNNL_ARG_SRC, empty({rows, cols}, Dtype::f32, Tag::ab)},
               {DNNL_ARG_SCALE, empty({cols}, Dtype::f32, Tag::a)},
               {DNNL_ARG_SHIFT, empty({cols}, Dtype::f32, Tag::a)},
               {DNNL_ARG_DST, empty({rows, cols}, Dtype::f32, Tag::ab)}};
    return p;
  });
}
void peer_layernorm_run(void *p, void *x, void *w, void *b, void *out) { static_cast<Prepared *>(p)->run({x, w, b, out}); }

/// Why the last preparation gave a null pointer.
const char *peer_error() { return lastError.c_str(); }

void peer_release(void *p) { delete static_cast<Prepared *>(p); }
}
