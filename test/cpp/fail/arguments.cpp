// Arguments of launches that are none.
#include <tegula/tegula.hpp>
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
