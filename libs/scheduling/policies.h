// Allocation policies by name. Thread-safe.
//
// A target of its own: it links every policy, with the solver that one of them needs.

#ifndef ADAPTDL_LIBS_SCHEDULING_POLICIES_H_
#define ADAPTDL_LIBS_SCHEDULING_POLICIES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {

// In alphabetical order.
std::vector<std::string> PolicyNames();

// The policy with its default settings. INVALID_ARGUMENT: there is none of that name; names them all.
absl::StatusOr<std::unique_ptr<AllocationPolicy>> MakePolicy(absl::string_view name);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_POLICIES_H_
