// The model of goodput that a job's hints say: from the protocol's messages to libs/goodput.
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_HINTS_HINTS_H_
#define ADAPTDL_LIBS_HINTS_HINTS_H_

#include <optional>

#include "adaptdl/v1/hints.pb.h"
#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"

namespace adaptdl::hints {

// As they are; nothing is checked.
goodput::PerfParams ToPerfParams(const v1::PerfParams& params);
goodput::BatchLimits ToLimits(const v1::Hints& hints);

// nullopt: there are no parameters yet, or they cannot be used. Without statistics of gradients: perfect scaling.
std::optional<goodput::GoodputFunction> ModelOf(const v1::Hints& hints);

}  // namespace adaptdl::hints

#endif  // ADAPTDL_LIBS_HINTS_HINTS_H_
