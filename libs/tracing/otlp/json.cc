#include "libs/tracing/otlp/json.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/version.h"
#include "nlohmann/json.hpp"

namespace adaptdl::tracing {
namespace {

using Json = nlohmann::json;

// Numbers of the protocol.
constexpr int kKinds[] = {1, 2, 3};  // internal, server, client
constexpr int kStatusError = 2;

Json ToJson(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return {{"stringValue", *text}};
  // 64-bit integers are texts there.
  if (const auto* number = std::get_if<int64_t>(&value)) return {{"intValue", absl::StrCat(*number)}};
  if (const auto* number = std::get_if<double>(&value)) return {{"doubleValue", *number}};
  return {{"boolValue", std::get<bool>(value)}};
}

Json Attribute(const std::string& key, const Value& value) {
  return {{"key", key}, {"value", ToJson(value)}};
}

std::string Nanoseconds(absl::Time time) { return absl::StrCat(absl::ToUnixNanos(time)); }

Json ToJson(const Span& span) {
  Json attributes = Json::array();
  for (const auto& [key, value] : span.attributes) attributes.push_back(Attribute(key, value));
  Json json = {{"traceId", span.context.trace_id},
               {"spanId", span.context.span_id},
               {"name", span.name},
               {"kind", kKinds[static_cast<int>(span.kind)]},
               {"startTimeUnixNano", Nanoseconds(span.begin)},
               {"endTimeUnixNano", Nanoseconds(span.end)},
               {"attributes", attributes}};
  if (!span.parent_span_id.empty()) json["parentSpanId"] = span.parent_span_id;
  if (!span.error.empty()) json["status"] = {{"code", kStatusError}, {"message", span.error}};
  for (const Context& link : span.links) {
    json["links"].push_back({{"traceId", link.trace_id}, {"spanId", link.span_id}});
  }
  return json;
}

}  // namespace

std::string ToOtlpJson(absl::Span<const Span> spans,
                       const std::vector<std::pair<std::string, std::string>>& resource) {
  Json attributes = Json::array();
  for (const auto& [key, value] : resource) attributes.push_back(Attribute(key, value));
  Json list = Json::array();
  for (const Span& span : spans) list.push_back(ToJson(span));
  const Json scope = {{"scope", {{"name", "adaptdl"}, {"version", Version()}}}, {"spans", list}};
  const Json json = {
      {"resourceSpans", {{{"resource", {{"attributes", attributes}}}, {"scopeSpans", {scope}}}}}};
  // Text that is no UTF-8 is mended, not thrown about.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace adaptdl::tracing
