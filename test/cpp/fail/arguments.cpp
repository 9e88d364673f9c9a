// Arguments of launches that are none.
#include <tegula/tegula.hpp>
#include <array>
#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

void launch(const tegula::Function &f, void *p, const char *text, float **table) {
#ifdef UNTYPED_POINTER // a pointer to what is no element type of kernels; name the type
  (void)f(1, {p, 1});
#elif defined TEXT // a pointer to what is no element type of kernels; name the type
  (void)f(1, {text});
#elif defined POINTERS // a pointer to what is no element type of kernels; name the type
  (void)f(1, {table});
#elif defined DYING_VECTOR // an argument borrows its elements: this temporary would take them along; name it first
  (void)f(1, {std::vector<float>(16)});
#elif defined DYING_BUFFER // an argument borrows its elements: this temporary would take them along; name it first
  (void)f(1, {tegula::Buffer<float>()});
#elif defined BUFFER_OF_TEXT // a buffer is of elements that kernels know
  tegula::Buffer<char> buffer;
#elif defined SIGNATURE // a kernel's signature is a function type: function<void(std::span<const float>, int)>
  (void)tegula::Context().function<int>("k");
#elif defined SIGNATURE_PARAMETER // a parameter of a kernel's signature is a std::span, a pointer to elements, a BufferView, a Buffer &, a number, or a TensorDescriptor &
  (void)tegula::Context().function<void(std::vector<float>)>("k");
#elif defined SIGNATURE_NUMBER // a number of a kernel's signature is a bool, an integer, a float or a double
  (void)tegula::Context().function<void(char)>("k");
#elif defined NO_RESULT // and_then: the function must return a Result or a Status
  (void)tegula::Context::create().and_then([](const tegula::Context &) { return 1; });
#else
  std::vector<float> x(16);
  (void)f(1, {x, static_cast<float *>(p), text != nullptr, 1});
#endif
}

// What an argument is made of, and what it is not: a bool is made of bools only.
enum class Scoped { A };
struct Any {};
template <typename... T> constexpr bool taken = (std::is_constructible_v<tegula::Arg, T> && ...);
template <typename... T> constexpr bool refused = (!std::is_constructible_v<tegula::Arg, T> && ...);
static_assert(taken<bool, const bool &, int, long long, unsigned long long, float, double, std::nullptr_t>);
static_assert(taken<bool *, std::byte *, const std::byte *, long *, long long *, unsigned long long *, signed char *, unsigned char *, tegula::tile::half *, const tegula::tile::bf16 *>);
static_assert(taken<float (&)[4], const float (&)[4], std::array<float, 4> &, std::span<float>, std::span<float, 4>, std::span<const std::byte>, std::vector<float> &, const std::vector<long long> &>);
#ifdef __FLT16_MANT_DIG__
static_assert(taken<_Float16 *, std::vector<_Float16> &>);
#endif
static_assert(refused<void *, const void *, char *, const char *, wchar_t *, char8_t *, float **, void (*)(int), int Any::*, Any *, volatile float *, std::atomic<float> *>);
static_assert(refused<Scoped, Any, std::string &, std::string, std::string_view, const char (&)[4], std::vector<bool> &, std::vector<char> &, std::vector<float *> &, std::vector<std::string> &>);
static_assert(refused<std::vector<float>, std::array<float, 4>, std::deque<float> &, std::list<float> &, std::unique_ptr<float[]> &, std::shared_ptr<float> &>);
