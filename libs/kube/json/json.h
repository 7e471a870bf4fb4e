// Kubernetes' objects are JSON here, so that nothing of them is lost which this code does not know. What is
// read from them is read by these functions, none of which throws: what is missing, or of another type, reads
// as empty.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_KUBE_JSON_JSON_H_
#define ADAPTDL_LIBS_KUBE_JSON_JSON_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace adaptdl::kube {

using Json = nlohmann::json;
using JsonPath = std::initializer_list<absl::string_view>;

// UNKNOWN: it is none.
absl::StatusOr<Json> ParseJson(absl::string_view text);

// On one line. What is no UTF-8 is replaced.
std::string Dump(const Json& json);

// The value at the path of field names; null if it is not there.
const Json& At(const Json& json, JsonPath path);

// Of another type, or not there: "", 0, false.
std::string TextAt(const Json& json, JsonPath path);
int64_t IntegerAt(const Json& json, JsonPath path);
bool BoolAt(const Json& json, JsonPath path);

// "2026-01-02T03:04:05Z", with or without a fraction. UNKNOWN: it is no time.
absl::StatusOr<absl::Time> TimeFromText(const std::string& text);
// With seconds, and with microseconds (MicroTime: Leases, Events). In UTC.
std::string TimeText(absl::Time time);
std::string MicroTimeText(absl::Time time);

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_JSON_JSON_H_
