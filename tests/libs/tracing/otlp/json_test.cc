#include "libs/tracing/otlp/json.h"

#include "gtest/gtest.h"
#include "libs/base/version.h"
#include "nlohmann/json.hpp"

namespace adaptdl::tracing {
namespace {

using nlohmann::json;

const Context kContext = {"0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"};

TEST(OtlpJsonTest, IsWhatTheProtocolSays) {
  const Span span{.name = "launch",
                  .context = kContext,
                  .parent_span_id = "00f067aa0ba902b7",
                  .kind = Kind::kServer,
                  .begin = absl::FromUnixNanos(1'700'000'000'000'000'001),
                  .end = absl::FromUnixNanos(1'700'000'001'000'000'001),
                  .attributes = {{"job", std::string("digits")},
                                 {"replicas", int64_t{9'007'199'254'740'993}},
                                 {"pause", 0.25},
                                 {"elastic", true}},
                  .error = "no room",
                  .links = {{"ffffffffffffffffffffffffffffffff", "eeeeeeeeeeeeeeee"}}};
  const json found = json::parse(ToOtlpJson({span}, {{"service.name", "adaptdl-supervisor"}}));
  const json wanted = json::parse(R"({"resourceSpans": [{
    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "adaptdl-supervisor"}}]},
    "scopeSpans": [{"scope": {"name": "adaptdl", "version": "VERSION"}, "spans": [{
      "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331",
      "parentSpanId": "00f067aa0ba902b7", "name": "launch", "kind": 2,
      "startTimeUnixNano": "1700000000000000001", "endTimeUnixNano": "1700000001000000001",
      "attributes": [{"key": "job", "value": {"stringValue": "digits"}},
                     {"key": "replicas", "value": {"intValue": "9007199254740993"}},
                     {"key": "pause", "value": {"doubleValue": 0.25}},
                     {"key": "elastic", "value": {"boolValue": true}}],
      "status": {"code": 2, "message": "no room"},
      "links": [{"traceId": "ffffffffffffffffffffffffffffffff", "spanId": "eeeeeeeeeeeeeeee"}]}]}]}]})");
  json versioned = wanted;
  versioned["resourceSpans"][0]["scopeSpans"][0]["scope"]["version"] = std::string(Version());
  EXPECT_EQ(found, versioned) << found.dump(1);
}

TEST(OtlpJsonTest, TextThatIsNoUtf8IsMended) {
  const Span span{.name = "a\xff", .context = kContext, .begin = absl::UnixEpoch(), .end = absl::UnixEpoch()};
  const json found = json::parse(ToOtlpJson({span}, {}));
  EXPECT_EQ(found["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"], "a\xef\xbf\xbd");
}

}  // namespace
}  // namespace adaptdl::tracing
