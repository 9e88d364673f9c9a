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
#elif defined NO_RESULT // and_then: the function must return a Result or a Status
  (void)tegula::Context::create().and_then([](const tegula::Context &) { return 1; });
#else
  std::vector<float> x(16);
  (void)f(1, {x, static_cast<float *>(p), text != nullptr, 1});
#endif
}
