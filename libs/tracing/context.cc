#include "libs/tracing/context.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "libs/base/random_id.h"

namespace adaptdl::tracing {
namespace {

constexpr int kTraceBytes = 16;
constexpr int kSpanBytes = 8;
// "00-" and two ids and "-01".
constexpr size_t kLength = 2 + 1 + 2 * kTraceBytes + 1 + 2 * kSpanBytes + 1 + 2;

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// A valid id of so many bytes.
bool IsId(absl::string_view text) {
  return IsHex(text) && text.find_first_not_of('0') != absl::string_view::npos;
}

std::string NewId(int bytes) {
  std::string id;
  while (!IsId(id) || id.empty()) id = RandomHex(bytes);
  return id;
}

}  // namespace

std::string Format(const Context& context) {
  if (!context.valid()) return "";
  return absl::StrCat("00-", context.trace_id, "-", context.span_id, context.sampled ? "-01" : "-00");
}

std::optional<Context> Parse(absl::string_view traceparent) {
  if (traceparent.size() < kLength) return std::nullopt;
  const absl::string_view version = traceparent.substr(0, 2);
  if (!IsHex(version) || version == "ff") return std::nullopt;
  if (version == "00" ? traceparent.size() != kLength
                      : traceparent.size() > kLength && traceparent[kLength] != '-') {
    return std::nullopt;
  }
  const absl::string_view trace = traceparent.substr(3, size_t{2} * kTraceBytes);
  const absl::string_view span = traceparent.substr(36, size_t{2} * kSpanBytes);
  const absl::string_view flags = traceparent.substr(53, 2);
  const bool dashes = traceparent[2] == '-' && traceparent[35] == '-' && traceparent[52] == '-';
  if (!dashes || !IsId(trace) || !IsId(span) || !IsHex(flags)) return std::nullopt;
  const char last = flags[1];
  const int bits = last <= '9' ? last - '0' : last - 'a' + 10;
  return Context{std::string(trace), std::string(span), (bits & 1) != 0};
}

Context NewTrace() { return {NewId(kTraceBytes), NewId(kSpanBytes), true}; }

Context NewSpan(const Context& parent) { return {parent.trace_id, NewId(kSpanBytes), parent.sampled}; }

}  // namespace adaptdl::tracing
