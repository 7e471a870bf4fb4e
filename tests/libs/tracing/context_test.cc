#include "libs/tracing/context.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/tracing/scope.h"

namespace adaptdl::tracing {
namespace {

// The example of the W3C's recommendation.
constexpr char kExample[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceContextTest, ReadsAndWritesTheHeader) {
  const std::optional<Context> context = Parse(kExample);
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(context->trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(context->span_id, "b7ad6b7169203331");
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(Format(*context), kExample);
  EXPECT_EQ(Format({}), "");
}

TEST(TraceContextTest, KnowsWhetherSpansAreWanted) {
  EXPECT_FALSE(Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")->sampled);
  EXPECT_TRUE(Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff")->sampled);
  EXPECT_FALSE(Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0a")->sampled);
}

TEST(TraceContextTest, ReadsLaterVersionsAsFarAsTheyAreKnown) {
  EXPECT_TRUE(Parse("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").has_value());
  EXPECT_TRUE(Parse("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more").has_value());
  EXPECT_FALSE(Parse("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more").has_value());
}

TEST(TraceContextTest, RefusesWhatIsNone) {
  for (const char* text : {"", "00", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                           "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                           "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
                           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
                           "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                           "0g-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}) {
    EXPECT_FALSE(Parse(text).has_value()) << text;
  }
}

TEST(TraceContextTest, SpansOfATraceDiffer) {
  const Context trace = NewTrace();
  ASSERT_EQ(Parse(Format(trace)), trace);
  const Context span = NewSpan(trace);
  EXPECT_EQ(span.trace_id, trace.trace_id);
  EXPECT_NE(span.span_id, trace.span_id);
  EXPECT_NE(NewTrace().trace_id, trace.trace_id);
  EXPECT_FALSE(NewSpan({trace.trace_id, trace.span_id, false}).sampled);
}

TEST(TraceScopeTest, InnerScopesCountAndEachThreadHasItsOwn) {
  EXPECT_FALSE(Current().valid());
  const Context outer = NewTrace();
  const Context inner = NewTrace();
  {
    const Scope scope(outer);
    EXPECT_EQ(Current(), outer);
    {
      const Scope narrower(inner);
      EXPECT_EQ(Current(), inner);
    }
    EXPECT_EQ(Current(), outer);
    std::thread([] { EXPECT_FALSE(Current().valid()); }).join();
  }
  EXPECT_FALSE(Current().valid());
}

}  // namespace
}  // namespace adaptdl::tracing
