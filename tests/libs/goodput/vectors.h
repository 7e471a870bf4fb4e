// The reference's types from its JSON; and the data of the published simulators, when they are at hand
// (beside the source tree).

#ifndef ADAPTDL_TESTS_LIBS_GOODPUT_VECTORS_H_
#define ADAPTDL_TESTS_LIBS_GOODPUT_VECTORS_H_

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"
#include "nlohmann/json.hpp"
#include "tests/vectors/vectors.h"

namespace adaptdl::goodput {

inline std::string PeersFolder() { return std::string(ADAPTDL_SOURCE_DIR) + "/../shared/peers"; }

// What the reference answers for the applications of the published simulators. nullopt when it is not there:
// the test is skipped.
inline std::optional<nlohmann::json> LoadPeers(const std::string& name) {
  std::ifstream file(PeersFolder() + "/" + name);
  if (!file) return std::nullopt;
  return nlohmann::json::parse(file);
}

inline PerfParams PerfFromJson(const nlohmann::json& j) {
  if (j.is_array()) {
    const std::vector<double> v = j.get<std::vector<double>>();
    return {v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
  }
  return {j["alpha_c"], j["beta_c"], j["alpha_n"], j["beta_n"], j["alpha_r"], j["beta_r"], j["gamma"]};
}

inline GradParams GradFromJson(const nlohmann::json& j) {
  if (j.is_array()) return {j[0], j[1]};
  return {j["sqr"], j["var"]};
}

inline BatchLimits LimitsFromJson(const nlohmann::json& j) {
  BatchLimits limits;
  if (!j["max_batch_size"].is_null()) limits.max_batch_size = j["max_batch_size"];
  const nlohmann::json& range = j["atomic_bsz_range"];
  if (!range.is_null()) {
    if (!range[0].is_null()) limits.min_local = range[0];
    if (!range[1].is_null()) limits.max_local = range[1];
  }
  limits.accumulation = j["accumulation"];
  return limits;
}

// The model of the specification's inline anchors.
inline PerfParams AnchorPerf() { return {.121, .00568, .0236, .00634, .0118, .00317, 1.14}; }
inline GradParams AnchorGrad() { return {.00136, .000502}; }

// EXPECT_NEAR with a relative tolerance.
#define EXPECT_CLOSE(actual, expected, relative) \
  EXPECT_NEAR(actual, expected, (relative)*std::abs(static_cast<double>(expected)))

}  // namespace adaptdl::goodput

#endif  // ADAPTDL_TESTS_LIBS_GOODPUT_VECTORS_H_
