// Calls between kernels in C++ and functions of .py files. Included by tegula/tile.hpp.
//
//   constexpr auto gelu = tg::python<tg::Tile<float>(tg::Tile<float>)>("helpers.py::gelu");
//   ... auto y = gelu(x);    // in a kernel
#pragma once
#include "tegula/tile/functions.hpp"

namespace tegula {
inline namespace v0 {
namespace tile {

namespace detail {

/// What a function gives back, as its last statement.
template <typename R> void giveBack(Trace &trace, const Place &at, R result) {
  std::vector<Part> parts = partsOf(std::move(result));
  std::string format = "return $";
  for (size_t i = 1; i < parts.size(); ++i) format += ", $";
  trace.effect(at, format, std::move(parts));
}

/// A parameter of a function of a .py file: the arguments that it takes.
template <typename P> struct CallParameter {
  static_assert(sizeof(P) == 0, "a parameter of a function of a .py file is a tg::Tile<T>, tg::Ptr<T>, tg::Int, tg::Float, tg::Constexpr<T> or a number");
};
template <typename T> struct CallParameter<Tile<T>> {
  template <typename A> static Part part(A &&a) {
    static_assert(Operand<A>, "the function takes a tile here");
    if constexpr (AnyTile<A>)
      static_assert(codeOf<A> == CodeOf<T>::code || (std::same_as<T, integer> && isIntCode(codeOf<A>)), "the function takes a tile of another element type here: convert it, x.to<T>()");
    return partOf(std::forward<A>(a));
  }
};
template <typename T> struct CallParameter<Ptr<T>> {
  template <typename A> static Part part(A &&a) {
    static_assert(AnyPtr<A>, "the function takes an address here");
    if constexpr (AnyPtr<A>) {
      using Given = typename std::remove_cvref_t<A>::element;
      static_assert(CodeOf<std::remove_const_t<Given>>::code == CodeOf<std::remove_const_t<T>>::code, "the function takes the address of other elements here");
      static_assert(std::is_const_v<T> || !std::is_const_v<Given>, "the function writes to this parameter, and the argument is a Ptr<const T>");
    }
    return partOf(std::forward<A>(a));
  }
};
template <typename T> struct CallParameter<Constexpr<T>> {
  template <typename A> static Part part(A &&a) {
    static_assert(Number<A>, "the function takes a number that is known while the kernel is compiled here");
    return partOf(static_cast<T>(a));
  }
};
template <typename T>
  requires std::is_arithmetic_v<T>
struct CallParameter<T> : CallParameter<Constexpr<T>> {};

/// An argument of such a function, which has a place of its own and needs none of its parameters for it.
template <typename P> struct CallArgument {
  template <typename A> CallArgument(A &&a) : part(CallParameter<P>::part(std::forward<A>(a))) {}
  Part part;
};

/// What it gives: nothing, a tile, a pointer, or a struct or std::tuple of them.
template <typename R> R resultOf(const Place &at, std::string_view format, std::vector<Part> parts) {
  if constexpr (std::is_void_v<R>) {
    trace().effect(at, format, std::move(parts));
  } else {
    static_assert(Leaf<R> || Bundle<R>, "a function of a .py file gives void, a tg::Tile<T>, a tg::Ptr<T>, or a struct or std::tuple of them");
    if constexpr (Leaf<R> || Bundle<R>) return valueOf<R>(at, format, std::move(parts));
  }
}

} // namespace detail

template <typename Signature> class PythonFunction {
  static_assert(sizeof(Signature) == 0, "a function of a .py file has a function type: tg::python<tg::Tile<float>(tg::Tile<float>)>(\"file.py::name\")");
};
/// A jit function of a .py file, or of a module of the context, with the types that C++ takes it for. It is compiled into the kernel that calls it.
template <typename R, typename... P> class PythonFunction<R(P...)> {
public:
  constexpr PythonFunction(const char *name, Place at) : name_(name), at_(at) {}
  R operator()(detail::CallArgument<std::remove_cvref_t<P>>... arguments, Place at = Place::current()) const {
    std::string format = detail::trace().external(name_, at_) + "(";
    for (size_t i = 0; i < sizeof...(P); ++i) format += i ? ", $" : "$";
    return detail::resultOf<R>(at, format + ")", std::vector<detail::Part>{std::move(arguments.part)...});
  }

private:
  const char *name_;
  Place at_;
};
/// `name`: "helpers.py::gelu", beside the C++ file or else where the program runs; "gelu" of a module that the program loaded into the context and holds.
template <typename Signature> constexpr PythonFunction<Signature> python(const char *name, Place at = Place::current()) { return PythonFunction<Signature>(name, at); }

} // namespace tile
} // inline namespace v0
} // namespace tegula
