// Kernels in C++ that are none.
#include <tegula/tile.hpp>
#include <vector>

namespace tg = tegula::tile;

constexpr auto kernel = tg::kernel("k(x, out, f, n)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Float f, tg::Int n) {
  auto i = tg::arange(0, 64);
  auto v = tg::load(x + i, i < n);
#ifdef STORE_TO_CONST // a kernel does not write through a Ptr<const T>: make the parameter a Ptr<T>
  tg::store(x + i, v);
#elif defined ATOMIC_TO_CONST // a kernel does not write through a Ptr<const T>: make the parameter a Ptr<T>
  tg::atomic_add(x + i, v);
#elif defined FLOOR_OF_FLOATS // cdiv is of whole numbers
  tg::store(out + i, tg::cdiv(v, 2));
#elif defined BITS_OF_FLOATS // bits are of whole numbers: convert floats first, x.to<int>(), or x.bitcast<int>()
  tg::store(out + i, v & 1);
#elif defined REAL_OFFSET // an offset is a whole number
  tg::store(out + f, v);
#elif defined BOOL_FOR_POINTER // the first operand is an address: a Ptr<T>, perhaps with offsets
  tg::store(i < n, v);
#elif defined LOAD_OF_BOOL // the first operand is an address: a Ptr<T>, perhaps with offsets
  tg::store(out + i, tg::load(i < n));
#elif defined MASK_OF_INTS // a mask is a tile of bool: compare with 0
  tg::store(out + i, v, i);
#elif defined IF // what a tile holds is known when the kernel runs: use tg::if_, tg::while_ or tg::where
  if (n) tg::store(out + i, v);
#elif defined IF_COMPARISON // what a tile holds is known when the kernel runs: use tg::if_, tg::while_ or tg::where
  if (n > 0) tg::store(out + i, v);
#elif defined AND // both operands are computed anyway: write & between tiles of bool
  tg::store(out + i, v, i < n && i > 0);
#elif defined KNOWN_CONDITION // this condition is known to C++: write `if`
  tg::if_(true, [&] { tg::store(out + i, v); });
#elif defined IF_POINTER // a pointer is no condition: compare it
  if (x) tg::store(out + i, v);
#elif defined COMPARE_POINTERS // the language compares no addresses: compare p.to<int64_t>()
  tg::store(out + i, v, out + i == out);
#elif defined ORDER_POINTERS // the language compares no addresses: compare p.to<int64_t>()
  tg::store(out + i, v, out + i < out);
#elif defined WRITE_BY_CAST // what a kernel must not write to stays so
  tg::store(x.to<tg::Ptr<float>>() + i, v);
#elif defined STRUCT_OF_NUMBERS // a member of a struct of tiles is a tg::Tile<T>, a tg::Ptr<T>, a tg::Desc<T>, or a struct or std::tuple of them
  struct Pair { tg::Tile<float> a; int b; };
  (void)tg::reduce(Pair{v, 1}, 0, [](Pair l, Pair) { return l; });
#elif defined STRUCT_OF_POINTERS // what is combined is of tiles only
  struct Pair { tg::Tile<float> a; tg::Ptr<float> b; };
  (void)tg::reduce(Pair{v, out + i}, 0, [](Pair l, Pair) { return l; });
#elif defined COMBINES_OTHERS // the function must give elements of the types that it takes: a tile, or a struct or std::tuple of them
  struct Pair { tg::Tile<float> a, b; };
  (void)tg::reduce(Pair{v, v}, 0, [](Pair l, Pair r) { return l.a + r.b; });
#elif defined COMBINES_ONE // the function must take two elements of what is combined: two structs or tuples, or all elements of the left one and all of the right one
  struct Pair { tg::Tile<float> a, b; };
  (void)tg::reduce(Pair{v, v}, 0, [](Pair l) { return l; });
#elif defined MEMBERS // a struct of tiles has at most 16 members: put some of them into a struct
  struct Many { tg::Tile<float> a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q; };
  (void)tg::reduce(Many{v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v}, 0, [](Many l, Many) { return l; });
#elif defined OTHER_ELEMENT // a tile keeps its element type: convert it first, x.to<T>()
  tg::Tile<int> whole = v;
#elif defined ACCUMULATE // a tile keeps its element type: convert the operand first, x.to<T>()
  i += v;
#elif defined REAL_FOR_WHOLE // a real number for a tile of whole ones: convert it first
  tg::Tile<int> whole = 0.5;
#elif defined NO_COMMON_TYPE // these element types have no common type: convert one of the operands, x.to<T>()
  tg::store(out + i, v.to<tg::fp8e5>() + i);
#elif defined SIGNEDNESS // a signed integer divided by an unsigned one has no type: convert one of them, x.to<T>()
  tg::store(out + i, i / i.to<unsigned>());
#elif defined EXP_OF_INTS // exp is of real numbers: convert whole ones first, x.to<float>()
  tg::store(out + i, tg::exp(i));
#elif defined CONDITION_OF_WHERE // the condition of where is a tile of bool: compare with 0
  tg::store(out + i, tg::where(i, v, 0.0));
#elif defined REAL_BOUND // a range is of whole numbers
  tg::range(0, f, [&](tg::Int) {});
#elif defined BODY_WITHOUT_INDEX // the body of a range takes the index: [&](tg::Int i) { ... }
  tg::range(0, n, 1, {.num_stages = 2}, [&] {});
#elif defined BODY_WITHOUT_INDEX_OF_ONE // the body of a range takes the index: [&](tg::Int i) { ... }
  tg::range(n, {.num_stages = 2}, [&] {});
#elif defined BODY_WITHOUT_INDEX_OF_TWO // the body of a range takes the index: [&](tg::Int i) { ... }
  tg::range(0, n, {.flatten = true}, [&] {});
#elif defined WHERE_OF_CPP // this condition is known to C++: write `?:`
  tg::store(out + i, tg::where(true, v, 0.0));
#elif defined CONSTRUCTED // what is combined is a tile, or a std::tuple or struct of tiles: one without constructors
  struct One { tg::Tile<float> a; explicit One(tg::Tile<float> x) : a(x) {} };
  (void)tg::reduce(One(v), 0, [](One l, One) { return l; });
#elif defined CONSTANT_WHILE // the condition of while_ gives a scalar of the kernel: [&] { return i < n; }
  tg::while_([] { return true; }, [&] {});
#elif defined SPELLED_OTHERWISE // a `for` of C++ is unrolled
  tg::static_range(4);
#elif defined BLOCK_TO_CONST // a kernel does not write through a BlockPtr<const T>: make the parameter a Ptr<T>
  tg::store(tg::make_block_ptr(x, {n}, {1}, {0}, {64}, {0}), v);
#elif defined ATOMIC_STORE_TO_CONST // a kernel does not write through a Ptr<const T>: make the parameter a Ptr<T>
  tg::atomic_store(x + i, v);
#elif defined REAL_SEED // seed and offsets are whole numbers
  tg::store(out + i, tg::rand(f, i));
#elif defined SIGNED_COUNTERS // Philox counters are uint32 or uint64
  tg::store(out + i, std::get<0>(tg::philox_impl(i, i, i, i, 1, 2)));
#elif defined UNSAID_RESULT // say what it gives: inline_asm_elementwise<float>(...)
  tg::store(out + i, tg::inline_asm_elementwise("", "=r,r", std::tuple(i)));
#elif defined CALL_WITH_OTHER // the function takes a tile of another element type here: convert it, x.to<T>()
  tg::store(out + i, tg::python<tg::Tile<float>(tg::Tile<float>)>("k.py::f")(i));
#elif defined CALL_WRITES // the function writes to this parameter, and the argument is a Ptr<const T>
  tg::python<void(tg::Ptr<float>)>("k.py::f")(x);
#elif defined CALL_OF_TEXT // the function takes a tile here
  tg::store(out + i, tg::python<tg::Tile<float>(tg::Tile<float>)>("k.py::f")("x"));
#elif defined CALL_RESULT // a function of a .py file gives void, a tg::Tile<T>, a tg::Ptr<T>, or a struct or std::tuple of them
  tg::store(out + i, tg::python<float(tg::Tile<float>)>("k.py::f")(v));
#else
  tg::if_(n > 0, [&] { tg::store(out + i, v); });
#endif
});

#ifdef PARAMETERS // signature_names_another_number_of_parameters_than_the_lambda_has
[[maybe_unused]] constexpr auto named = tg::kernel("k(x)", [](tg::Ptr<float> x, tg::Int n) { tg::store(x, n.to<float>()); });
#elif defined SIGNATURE // signature_is_not_a_name_or_name_and_parameters
[[maybe_unused]] constexpr auto named = tg::kernel("k x", [](tg::Ptr<float> x) { tg::store(x, 1.0); });
#elif defined WORD // this_parameter_has_a_name_that_the_language_needs
[[maybe_unused]] constexpr auto named = tg::kernel("k(in)", [](tg::Ptr<float> in) { tg::store(in, 1.0); });
#elif defined PARAMETER // a kernel's parameter is a tg::Ptr<T>, tg::Int, tg::Float, tg::Tile<T>, tg::Desc<T> or tg::Constexpr<T>
[[maybe_unused]] constexpr auto named = tg::kernel("k(x)", [](int) {});
#elif defined GIVING // a kernel gives nothing: store what it computes
[[maybe_unused]] constexpr auto named = tg::kernel("k(x)", [](tg::Tile<float> x) { return x; });
#elif defined GIVING_NOTHING // a function gives a tile, or a struct or std::tuple of tiles: what only stores is made by tg::kernel
[[maybe_unused]] constexpr auto named = tg::function("k(x)", [](tg::Ptr<float> x) { tg::store(x, 1.0); });
#elif defined ELEMENT // no element type of tiles
[[maybe_unused]] constexpr auto named = tg::kernel("k(x)", [](tg::Ptr<char32_t>) {});
#endif

tegula::Status launch(const tegula::Context &context) {
  const std::vector<float> x(64);
  std::vector<float> out(64);
  std::vector<int> whole(64);
#ifdef CONST_OUTPUT // the kernel writes to this parameter, and the argument is const
  return kernel(context)[tg::grid(1)](x, x, 1.0f, 64);
#elif defined OTHER_ELEMENTS // the argument's elements are not those of the kernel's tg::Ptr<T>
  return kernel(context)[tg::grid(1)](whole, out, 1.0f, 64);
#elif defined ARGUMENT_BOOL // an argument for a tg::Ptr<T> is a range of T, a T*, a view or a buffer of T, a DLTensor*, or a tegula::Arg made of an address
  return kernel(context)[tg::grid(1)](true, out, 1.0f, 64);
#elif defined TOO_FEW // one argument for each parameter of the kernel
  return kernel(context)[tg::grid(1)](x, out, 1.0f);
#elif defined REAL_ARGUMENT // a real number for a parameter that is a whole one
  return kernel(context)[tg::grid(1)](x, out, 1.0f, 64.5);
#elif defined TEXT_ARGUMENT // an argument for a scalar parameter is a number
  return kernel(context)[tg::grid(1)](x, out, 1.0f, "64");
#elif defined CONST_BUFFER // the kernel writes to this parameter, and the argument is const
  const auto device = context.device().upload(out).value();
  return kernel(context)[tg::grid(1)](x, device, 1.0f, 64);
#elif defined OTHER_BUFFER // the argument's elements are not those of the kernel's tg::Ptr<T>
  auto device = context.device().upload(whole).value();
  return kernel(context)[tg::grid(1)](x, device, 1.0f, 64);
#elif defined TUNED_CONSTEXPR // one argument for each parameter of the kernel that is no tg::Constexpr: those are tuned
  static auto tuned = tg::autotune(kernel, {tg::Config{}});
  return tuned(context).grid([](tg::ConfigView) { return tg::grid(1); })(x, out, 1.0f);
#elif defined DYING_RANGE // an argument borrows its elements: this temporary would take them along; name it first
  return kernel(context)[tg::grid(1)](x, std::vector<float>(64), 1.0f, 64);
#else
  return kernel(context)[tg::grid(1)](x, out, 1.0f, 64);
#endif
}
