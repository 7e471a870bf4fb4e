#include "libs/tracing/scope.h"

#include <utility>

namespace adaptdl::tracing {
namespace {

// What belongs to a thread is no argument of all that it calls.
thread_local const Context* current = nullptr;

}  // namespace

const Context& Current() {
  static const Context none;
  return current == nullptr ? none : *current;
}

Scope::Scope(Context context) : context_(std::move(context)), outer_(current) { current = &context_; }

Scope::~Scope() { current = outer_; }

}  // namespace adaptdl::tracing
