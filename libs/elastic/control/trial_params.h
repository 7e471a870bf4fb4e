// The variables of a trial (adaptdl/trial.h): which search it is of, and the values of its parameters.
//
// Thread-safety: values; the functions are thread-safe.

#ifndef ADAPTDL_LIBS_ELASTIC_CONTROL_TRIAL_PARAMS_H_
#define ADAPTDL_LIBS_ELASTIC_CONTROL_TRIAL_PARAMS_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "libs/elastic/control/environment.h"

namespace adaptdl::elastic {

// std::monostate: none, as a choice may be.
using TrialValue = std::variant<std::monostate, bool, int64_t, double, std::string>;

struct TrialParams {
  // Empty: this is no trial.
  std::string search;
  int number = 0;
  std::map<std::string, TrialValue> values;
};

// INVALID_ARGUMENT names a variable with a wrong value.
absl::StatusOr<TrialParams> ReadTrialParams(const GetVariable& get);

// The value of the parameter; `otherwise` if there is none. INVALID_ARGUMENT: it is of another kind.
absl::StatusOr<double> NumberOf(const TrialParams& params, const std::string& name, double otherwise);
absl::StatusOr<int64_t> IntegerOf(const TrialParams& params, const std::string& name, int64_t otherwise);
absl::StatusOr<std::string> TextOf(const TrialParams& params, const std::string& name,
                                   const std::string& otherwise);
absl::StatusOr<bool> FlagOf(const TrialParams& params, const std::string& name, bool otherwise);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CONTROL_TRIAL_PARAMS_H_
