// Which of the names that there are somebody meant who wrote another one.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_BASE_NEAREST_H_
#define ADAPTDL_LIBS_BASE_NEAREST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace adaptdl {

// The name of `known` that `name` was meant to be, "" if none is near.
absl::string_view Nearest(absl::string_view name, const std::vector<absl::string_view>& known);

// "; did you mean --cpus?", for the nearest of `known`, or else for those few that `name` is a part of. "": none.
std::string DidYouMean(absl::string_view name, const std::vector<absl::string_view>& known);

// The same for a flag of a command line, which may hold a value ("--cpu=2"), among flags ("--cpus", "-f").
std::string DidYouMeanFlag(absl::string_view flag, const std::vector<absl::string_view>& known);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_NEAREST_H_
