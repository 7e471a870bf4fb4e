#include "libs/elastic/control/trial_params.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

constexpr char kParams[] = "ADAPTDL_TRIAL_PARAMS";
constexpr char kNumber[] = "ADAPTDL_TRIAL_NUMBER";
constexpr char kSearch[] = "ADAPTDL_TRIAL_SEARCH";
constexpr size_t kShownBytes = 60;

std::optional<TrialValue> ValueOf(const nlohmann::json& json) {
  if (json.is_null()) return TrialValue();
  if (json.is_boolean()) return TrialValue(json.get<bool>());
  if (json.is_number_integer()) return TrialValue(json.get<int64_t>());
  if (json.is_number()) return TrialValue(json.get<double>());
  if (json.is_string()) return TrialValue(json.get<std::string>());
  return std::nullopt;
}

absl::Status ReadValues(const std::string& text, std::map<std::string, TrialValue>* values) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(kParams, "=\"", text.substr(0, kShownBytes),
                                                   "\": give a mapping of names to values, as JSON"));
  }
  for (const auto& [name, value] : json.items()) {
    std::optional<TrialValue> known = ValueOf(value);
    if (!known.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(kParams, ": the parameter \"", name, "\" is ",
                                                     value.type_name(),
                                                     ": give a number, a text or a boolean"));
    }
    (*values)[name] = *std::move(known);
  }
  return absl::OkStatus();
}

std::string Shown(const TrialValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return absl::StrCat("the text \"", *text, "\"");
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<int64_t>(&value)) return absl::StrCat(*whole);
  if (const auto* number = std::get_if<double>(&value)) return absl::StrCat(*number);
  return "none";
}

absl::Status OfAnotherKind(const TrialParams& params, const std::string& name, const TrialValue& value,
                           absl::string_view kind) {
  return absl::InvalidArgumentError(absl::StrCat("the parameter \"", name, "\" of trial ", params.number,
                                                 " of the search \"", params.search, "\" is ", Shown(value),
                                                 ", and the program asks for ", kind,
                                                 ": change the search's file, or what the program asks for"));
}

// Null: this trial does not have it.
const TrialValue* Find(const TrialParams& params, const std::string& name) {
  const auto found = params.values.find(name);
  if (found == params.values.end()) return nullptr;
  return std::holds_alternative<std::monostate>(found->second) ? nullptr : &found->second;
}

template <typename Kind>
absl::StatusOr<Kind> ExactlyOf(const TrialParams& params, const std::string& name, const Kind& otherwise,
                               absl::string_view kind) {
  const TrialValue* value = Find(params, name);
  if (value == nullptr) return otherwise;
  if (const Kind* exact = std::get_if<Kind>(value)) return *exact;
  return OfAnotherKind(params, name, *value, kind);
}

}  // namespace

absl::StatusOr<TrialParams> ReadTrialParams(const GetVariable& get) {
  TrialParams params;
  params.search = get(kSearch).value_or("");
  const std::string number = get(kNumber).value_or("");
  if (!number.empty() && (!absl::SimpleAtoi(number, &params.number) || params.number < 1)) {
    return absl::InvalidArgumentError(absl::StrCat(kNumber, "=\"", number, "\": give a whole number from 1"));
  }
  const std::string values = get(kParams).value_or("");
  if (values.empty()) return params;
  if (absl::Status status = ReadValues(values, &params.values); !status.ok()) return status;
  return params;
}

absl::StatusOr<double> NumberOf(const TrialParams& params, const std::string& name, double otherwise) {
  const TrialValue* value = Find(params, name);
  if (value == nullptr) return otherwise;
  if (const auto* whole = std::get_if<int64_t>(value)) return static_cast<double>(*whole);
  return ExactlyOf<double>(params, name, otherwise, "a number");
}

absl::StatusOr<int64_t> IntegerOf(const TrialParams& params, const std::string& name, int64_t otherwise) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond, doubles leave whole numbers out
  const TrialValue* value = Find(params, name);
  // Samplers may write a whole number as 8.0.
  if (const auto* number = value == nullptr ? nullptr : std::get_if<double>(value)) {
    if (*number == std::trunc(*number) && std::abs(*number) <= kExact) return static_cast<int64_t>(*number);
  }
  return ExactlyOf<int64_t>(params, name, otherwise, "a whole number");
}

absl::StatusOr<std::string> TextOf(const TrialParams& params, const std::string& name,
                                   const std::string& otherwise) {
  return ExactlyOf<std::string>(params, name, otherwise, "a text");
}

absl::StatusOr<bool> FlagOf(const TrialParams& params, const std::string& name, bool otherwise) {
  return ExactlyOf<bool>(params, name, otherwise, "true or false");
}

}  // namespace adaptdl::elastic
