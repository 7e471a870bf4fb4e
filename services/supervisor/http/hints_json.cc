#include "services/supervisor/http/hints_json.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace adaptdl::supervisor {
namespace {

using nlohmann::json;

constexpr size_t kMaxShown = 60;

// Reads fields and remembers the first that is wrong.
class Reader {
 public:
  // `path` begins the names of fields in errors. `object` outlives the reader.
  Reader(const json& object, std::string path, absl::Status* status)
      : object_(object), path_(std::move(path)), status_(status) {}

  // The field's value; null if it is absent.
  const json* Find(const char* name) const {
    const auto it = object_.find(name);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }

  std::optional<int64_t> Integer(const char* name) const {
    const json* value = Find(name);
    return value == nullptr ? std::nullopt : std::optional<int64_t>(ToInteger(*value, name));
  }

  int64_t ToInteger(const json& value, const std::string& name) const {
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() ||
                       value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    if (fits) return value.get<int64_t>();
    Refuse(name, value, "give a whole number");
    return 0;
  }

  double Number(const char* name) const {
    const json* value = Find(name);
    if (value == nullptr) {
      Miss(name);
      return 0;
    }
    if (value->is_number()) return value->get<double>();
    Refuse(name, *value, "give a number");
    return 0;
  }

  bool Truth(const char* name) const {
    const json* value = Find(name);
    if (value == nullptr) return false;
    if (value->is_boolean()) return value->get<bool>();
    Refuse(name, *value, "give true or false");
    return false;
  }

  // The object in the field; null if it is absent.
  const json* Object(const char* name) const {
    const json* value = Find(name);
    if (value == nullptr || value->is_object()) return value;
    Refuse(name, *value, "give an object");
    return nullptr;
  }

  void Miss(const std::string& name) const { Fail(absl::StrCat(path_, name, " is missing; it is needed")); }
  void Refuse(const std::string& name, const json& value, absl::string_view advice) const {
    // What is nested is not written out: that would take a stack as deep as a stranger likes.
    const std::string shown = value.is_structured()
                                  ? absl::StrCat("an ", value.type_name())
                                  : value.dump(-1, ' ', true, json::error_handler_t::replace);
    Fail(absl::StrCat(path_, name, ": ", shown.substr(0, kMaxShown), shown.size() > kMaxShown ? "..." : "",
                      " is not valid; ", advice));
  }

 private:
  void Fail(const std::string& message) const {
    if (status_->ok()) *status_ = absl::InvalidArgumentError(message);
  }

  const json& object_;
  const std::string path_;
  absl::Status* const status_;
};

void ReadLocalBounds(const Reader& reader, v1::Hints* hints) {
  const json* bounds = reader.Find("localBszBounds");
  if (bounds == nullptr) return;
  if (!bounds->is_array() || bounds->size() != 2) {
    reader.Refuse("localBszBounds", *bounds, "give two numbers, the smallest and the largest");
    return;
  }
  // The client allows each of them to be left open.
  const json& low = (*bounds)[0];
  const json& high = (*bounds)[1];
  if (!low.is_null()) hints->set_min_local_batch_size(reader.ToInteger(low, "localBszBounds[0]"));
  if (!high.is_null()) hints->set_max_local_batch_size(reader.ToInteger(high, "localBszBounds[1]"));
}

void ReadPerfParams(const json& object, absl::Status* status, v1::PerfParams* params) {
  const Reader reader(object, "perfParams.", status);
  params->set_alpha_c(reader.Number("alpha_c"));
  params->set_beta_c(reader.Number("beta_c"));
  params->set_alpha_n(reader.Number("alpha_n"));
  params->set_beta_n(reader.Number("beta_n"));
  params->set_alpha_r(reader.Number("alpha_r"));
  params->set_beta_r(reader.Number("beta_r"));
  params->set_gamma(reader.Number("gamma"));
}

void ReadGradParams(const json& object, absl::Status* status, v1::GradParams* params) {
  const Reader reader(object, "gradParams.", status);
  params->set_norm(reader.Number("norm"));
  params->set_var(reader.Number("var"));
}

}  // namespace

absl::StatusOr<v1::Hints> HintsFromJson(absl::string_view text) {
  const json parsed = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  // The parser takes a NUL for the end.
  if (!parsed.is_object() || text.find('\0') != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        "the body is no JSON object of finite numbers; send what json.dumps() makes of a dictionary without "
        "NaN");
  }
  absl::Status status;
  const Reader reader(parsed, "", &status);
  v1::Hints hints;
  if (const auto init = reader.Integer("initBatchSize")) {
    hints.set_init_batch_size(*init);
  } else {
    reader.Miss("initBatchSize");
  }
  if (const auto most = reader.Integer("maxBatchSize")) hints.set_max_batch_size(*most);
  // Declared by the client, which never fills it in; checked, and not used.
  (void)reader.Integer("globalBatchSize");
  ReadLocalBounds(reader, &hints);
  const int64_t replicas = reader.Integer("maxProfiledReplicas").value_or(0);
  if (replicas < 0 || replicas > std::numeric_limits<int32_t>::max()) {
    reader.Refuse("maxProfiledReplicas", replicas, "give a number of replicas");
  } else {
    hints.set_max_profiled_replicas(static_cast<int32_t>(replicas));
  }
  hints.set_gradient_accumulation(reader.Truth("gradientAccumulation"));
  if (const json* params = reader.Object("perfParams")) {
    ReadPerfParams(*params, &status, hints.mutable_perf_params());
  }
  if (const json* params = reader.Object("gradParams")) {
    ReadGradParams(*params, &status, hints.mutable_grad_params());
  }
  if (!status.ok()) return status;
  return hints;
}

}  // namespace adaptdl::supervisor
