// The trace that a thread works on: what is called from here on is part of it.
//
//   const tracing::Scope scope(context);
//   ... calls that are made now carry `context` (rpc::SetTimeout()) ...
//
// Each thread has its own.

#ifndef ADAPTDL_LIBS_TRACING_SCOPE_H_
#define ADAPTDL_LIBS_TRACING_SCOPE_H_

#include "libs/tracing/context.h"

namespace adaptdl::tracing {

// Of the innermost scope. Not valid outside of all.
const Context& Current();

class Scope {
 public:
  explicit Scope(Context context);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const Context context_;
  const Context* const outer_;
};

}  // namespace adaptdl::tracing

#endif  // ADAPTDL_LIBS_TRACING_SCOPE_H_
