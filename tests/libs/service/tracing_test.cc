#include "libs/service/tracing.h"

#include <memory>
#include <variant>

#include "gmock/gmock.h"
#include "libs/base/file.h"
#include "libs/tracing/fake_tracer.h"
#include "libs/tracing/scope.h"
#include "tests/libs/service/server_fixture.h"

namespace adaptdl::service {
namespace {

using ::testing::HasSubstr;

class CallSpansTest : public ServerTest {
 protected:
  CallSpansTest() { options_.tracer = tracer_; }

  const std::shared_ptr<tracing::FakeTracer> tracer_ = std::make_shared<tracing::FakeTracer>();
};

TEST_F(CallSpansTest, ACallOfATraceBecomesASpanOfIt) {
  Start();
  const tracing::Context caller = tracing::NewTrace();
  const tracing::Scope scope(caller);
  EXPECT_TRUE(ListNodes().ok());
  ASSERT_TRUE(tracer_->Await("adaptdl.v1.NodeService/ListNodes"));
  const tracing::Span span = tracer_->spans()[0];
  EXPECT_EQ(span.context.trace_id, caller.trace_id);
  EXPECT_EQ(span.parent_span_id, caller.span_id);
  EXPECT_EQ(span.kind, tracing::Kind::kServer);
  EXPECT_LE(span.begin, span.end);
  EXPECT_EQ(span.error, "");
}

TEST_F(CallSpansTest, AFailedCallSaysWhy) {
  Start();
  const tracing::Scope scope(tracing::NewTrace());
  EXPECT_FALSE(RemoveNode().ok());
  ASSERT_TRUE(tracer_->Await("adaptdl.v1.NodeService/RemoveNode"));
  EXPECT_EQ(tracer_->spans()[0].error, "no such node");
}

TEST_F(CallSpansTest, CallsWithoutATraceAndThoseNotWantedLeaveNone) {
  Start();
  EXPECT_TRUE(ListNodes().ok());
  {
    tracing::Context unwanted = tracing::NewTrace();
    unwanted.sampled = false;
    const tracing::Scope scope(unwanted);
    EXPECT_TRUE(ListNodes().ok());
  }
  {
    grpc::ClientContext context;
    context.AddMetadata("traceparent", "00-nonsense");
    v1::ListNodesResponse response;
    EXPECT_TRUE(stub_->ListNodes(&context, {}, &response).ok());
  }
  const tracing::Scope scope(tracing::NewTrace());
  EXPECT_FALSE(RemoveNode().ok());
  ASSERT_TRUE(tracer_->Await("adaptdl.v1.NodeService/RemoveNode"));
  EXPECT_EQ(tracer_->spans().size(), 1u);
}

TEST_F(CallSpansTest, OptionsThatAreWrongAreNamed) {
  const auto none = MakeTracer({}, "tester");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, nullptr);
  EXPECT_THAT(MakeTracer({.otlp_endpoint = "nowhere", .otlp_headers_file = ""}, "tester").status().message(),
              HasSubstr("--otlp-endpoint \"nowhere\""));
  const std::string file = folder_ + "/headers";
  EXPECT_THAT(MakeTracer({"http://127.0.0.1:1", file}, "tester").status().message(),
              HasSubstr("--otlp-headers-file"));
  ASSERT_TRUE(WriteFileAtomically(file, "Authorization: Bearer x\nno header\n").ok());
  EXPECT_THAT(MakeTracer({"http://127.0.0.1:1", file}, "tester").status().message(), HasSubstr("no header"));
  ASSERT_TRUE(WriteFileAtomically(file, "Authorization: Bearer x\n\n").ok());
  EXPECT_TRUE(MakeTracer({"http://127.0.0.1:1", file}, "tester").ok());
}

}  // namespace
}  // namespace adaptdl::service
