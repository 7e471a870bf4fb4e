#include "libs/kube/json/json.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::kube {

absl::StatusOr<Json> ParseJson(absl::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::UnknownError("the answer is not JSON");
  return json;
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

const Json& At(const Json& json, JsonPath path) {
  static const Json* const kNothing = new Json();
  const Json* value = &json;
  for (const absl::string_view name : path) {
    if (!value->is_object()) return *kNothing;
    const auto field = value->find(std::string(name));
    if (field == value->end()) return *kNothing;
    value = &*field;
  }
  return *value;
}

std::string TextAt(const Json& json, JsonPath path) {
  const Json& value = At(json, path);
  return value.is_string() ? value.get<std::string>() : "";
}

int64_t IntegerAt(const Json& json, JsonPath path) {
  const Json& value = At(json, path);
  return value.is_number_integer() ? value.get<int64_t>() : 0;
}

bool BoolAt(const Json& json, JsonPath path) {
  const Json& value = At(json, path);
  return value.is_boolean() && value.get<bool>();
}

absl::StatusOr<absl::Time> TimeFromText(const std::string& text) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) {
    return absl::UnknownError(absl::StrCat("\"", text, "\" is no time: ", error));
  }
  return time;
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

std::string MicroTimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone());
}

}  // namespace adaptdl::kube
