// SPDX-License-Identifier: BSD-3-Clause
// FunctionRef: a borrowed callable, valid until the call it is passed to returns. Never stored.
// Owner: none; it refers to an object of the caller. The thread of that call.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace farcached {

template <class Signature>
class FunctionRef;

template <class Return, class... Args>
class FunctionRef<Return(Args...)> {
  public:
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
    FunctionRef(F&& f)  // NOLINT: implicit on purpose, it is an argument type
        : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
          call_([](void* object, Args... args) -> Return {
              return (*static_cast<std::remove_reference_t<F>*>(object))(
                  std::forward<Args>(args)...);
          }) {}

    Return operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

  private:
    void* object_;
    Return (*call_)(void*, Args...);
};

}  // namespace farcached
