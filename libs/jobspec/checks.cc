#include "libs/jobspec/checks.h"

#include <algorithm>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/jobspec/limits.h"

namespace adaptdl::jobspec {
namespace {

bool IsDnsText(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return IsLowerAlnum(c) || c == '-'; });
}

}  // namespace

std::string Show(absl::string_view value) {
  constexpr size_t kLimit = 80;
  const std::string text = absl::CHexEscape(value.substr(0, kLimit));
  return absl::StrCat("\"", text, value.size() > kLimit ? "..." : "", "\"");
}

absl::Status Wrong(absl::string_view field, absl::string_view value, absl::string_view remedy) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ": ", remedy));
}

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Wrong(field, absl::StrCat(value), absl::StrCat("give a number from ", low, " to ", high));
}

bool IsLowerAlnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool HasControl(absl::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
}

absl::Status CheckNoNul(absl::string_view field, absl::string_view value) {
  if (!absl::StrContains(value, '\0')) return absl::OkStatus();
  return Wrong(field, Show(value), "holds a NUL byte; remove it");
}

bool IsDnsLabel(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxNameLength && IsDnsText(text) && text.front() != '-' &&
         text.back() != '-';
}

absl::Status CheckDnsLabel(absl::string_view field, absl::string_view value) {
  if (IsDnsLabel(value)) return absl::OkStatus();
  return Wrong(field, Show(value),
               "give 1 to 63 lower-case letters, digits and \"-\", with a letter or digit at both ends");
}

bool IsNamePrefix(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxPrefixLength && IsDnsText(text) && text.front() != '-';
}

absl::Status CheckLabels(const google::protobuf::Map<std::string, std::string>& labels) {
  if (labels.size() > kMaxLabels) {
    return Wrong("labels", absl::StrCat(labels.size(), " entries"), "give at most 64");
  }
  for (const auto& [key, value] : labels) {
    if (key.empty() || key.size() > kMaxLabelLength || HasControl(key)) {
      return Wrong("labels", absl::StrCat("key ", Show(key)), "give 1 to 63 printable characters");
    }
    if (value.size() > kMaxLabelLength || HasControl(value)) {
      return Wrong(absl::StrCat("labels[", key, "]"), Show(value), "give at most 63 printable characters");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckResources(absl::string_view field, const v1::Resources& resources) {
  absl::Status status = CheckRange(absl::StrCat(field, ".cpu_millis"), resources.cpu_millis(), 0, kMaxAmount);
  status.Update(CheckRange(absl::StrCat(field, ".memory_bytes"), resources.memory_bytes(), 0, kMaxAmount));
  status.Update(CheckRange(absl::StrCat(field, ".gpus"), resources.gpus(), 0, kMaxGpus));
  if (resources.extended_size() > kMaxExtendedResources) {
    status.Update(Wrong(absl::StrCat(field, ".extended"), absl::StrCat(resources.extended_size(), " entries"),
                        "give at most 64"));
  }
  for (const auto& [name, amount] : resources.extended()) {
    if (name.empty() || name.size() > 253 || HasControl(name)) {
      status.Update(
          Wrong(absl::StrCat(field, ".extended"), Show(name), "give a name of 1 to 253 characters"));
    }
    status.Update(
        CheckRange(absl::StrCat(field, ".extended[", absl::CHexEscape(name), "]"), amount, 0, kMaxAmount));
  }
  return status;
}

}  // namespace adaptdl::jobspec
