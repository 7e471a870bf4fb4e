#include "services/supervisor/kubernetes/store/fields.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace adaptdl::supervisor {

using kube::Json;

FieldReader::FieldReader(const Json& object, std::string where, absl::Status* status)
    : object_(object), where_(std::move(where)), status_(*status) {
  if (!object.is_object()) status_.Update(absl::InvalidArgumentError(absl::StrCat(where_, ": is no object")));
}

const Json* FieldReader::Find(const std::string& name) const {
  if (!object_.is_object()) return nullptr;
  const auto field = object_.find(name);
  return field == object_.end() || field->is_null() ? nullptr : &*field;
}

const Json* FieldReader::Raw(const std::string& name) {
  known_.insert(name);
  return Find(name);
}

const Json* FieldReader::Typed(const std::string& name, bool (Json::*is_type)() const noexcept,
                               absl::string_view type) {
  const Json* field = Raw(name);
  if (field == nullptr || (field->*is_type)()) return field;
  Fail(name, absl::StrCat("is no ", type));
  return nullptr;
}

void FieldReader::Fail(const std::string& name, absl::string_view what) {
  status_.Update(absl::InvalidArgumentError(absl::StrCat(where_, ".", name, ": ", what)));
}

std::string FieldReader::Text(const std::string& name) {
  const Json* field = Typed(name, &Json::is_string, "text");
  if (field == nullptr) return "";
  const auto& text = field->get_ref<const std::string&>();
  if (text.size() <= kLongestText) return text;
  Fail(name, "is too long");
  return "";
}

int64_t FieldReader::Integer(const std::string& name, int64_t least, int64_t most) {
  const Json* field = Typed(name, &Json::is_number_integer, "whole number");
  if (field == nullptr) return 0;
  const bool is_huge = field->is_number_unsigned() &&
                       field->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const int64_t value = is_huge ? std::numeric_limits<int64_t>::max() : field->get<int64_t>();
  if (value >= least && value <= most) return value;
  Fail(name, absl::StrCat("is not between ", least, " and ", most));
  return 0;
}

double FieldReader::Number(const std::string& name) {
  const Json* field = Typed(name, &Json::is_number, "number");
  return field == nullptr ? 0 : field->get<double>();
}

bool FieldReader::Flag(const std::string& name) {
  const Json* field = Typed(name, &Json::is_boolean, "boolean");
  return field != nullptr && field->get<bool>();
}

absl::Time FieldReader::Time(const std::string& name) {
  const std::string text = Text(name);
  if (text.empty()) return absl::InfinitePast();
  const absl::StatusOr<absl::Time> time = kube::TimeFromText(text);
  if (time.ok() && *time != absl::InfinitePast() && *time != absl::InfiniteFuture()) return *time;
  Fail(name, "is no time");
  return absl::InfinitePast();
}

absl::Duration FieldReader::Duration(const std::string& name) {
  const std::string text = Text(name);
  if (text.empty()) return absl::ZeroDuration();
  absl::Duration duration;
  const bool is_one = absl::ParseDuration(text, &duration) && duration >= absl::ZeroDuration() &&
                      duration != absl::InfiniteDuration();
  if (is_one) return duration;
  Fail(name, "is no duration");
  return absl::ZeroDuration();
}

std::vector<std::string> FieldReader::Texts(const std::string& name, size_t most) {
  const Json* field = Typed(name, &Json::is_array, "list");
  if (field == nullptr) return {};
  std::vector<std::string> texts;
  if (field->size() > most) Fail(name, absl::StrCat("has more than ", most, " entries"));
  for (size_t i = 0; i < std::min(most, field->size()); ++i) {
    const Json& entry = (*field)[i];
    const bool is_text = entry.is_string() && entry.get_ref<const std::string&>().size() <= kLongestText;
    if (!is_text) Fail(name, "has an entry that is no text, or too long");
    texts.push_back(is_text ? entry.get<std::string>() : "");
  }
  return texts;
}

void FieldReader::Object(const std::string& name, absl::FunctionRef<void(FieldReader*)> read) {
  const Json* field = Typed(name, &Json::is_object, "object");
  if (field == nullptr) return;
  FieldReader fields(*field, absl::StrCat(where_, ".", name), &status_);
  read(&fields);
  fields.Done();
}

void FieldReader::Objects(const std::string& name, size_t most, absl::FunctionRef<void(FieldReader*)> read) {
  const Json* field = Typed(name, &Json::is_array, "list");
  if (field == nullptr) return;
  if (field->size() > most) return Fail(name, absl::StrCat("has more than ", most, " entries"));
  for (size_t i = 0; i < field->size(); ++i) {
    FieldReader fields((*field)[i], absl::StrCat(where_, ".", name, "[", i, "]"), &status_);
    read(&fields);
    fields.Done();
  }
}

void FieldReader::Done() {
  if (!object_.is_object()) return;
  for (const auto& [name, value] : object_.items()) {
    if (!known_.contains(name)) return Fail(name.substr(0, 100), "is no field that this version knows");
  }
}

}  // namespace adaptdl::supervisor
