// Answers that are streams, and header fields.

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/http/http_client.h"
#include "libs/httpd/http_server.h"

namespace adaptdl::httpd {
namespace {

class HttpStreamTest : public testing::Test {
 protected:
  // One that answers with a stream of "first".
  void Serve(size_t max_unread_bytes = size_t{1} << 20) {
    HttpServerOptions options;
    options.listen = "127.0.0.1:0";
    options.max_unread_bytes = max_unread_bytes;
    auto server = HttpServer::Start(
        options, [this](const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) {
          request_ = request;
          stream_ = exchange->Stream({200, "text/event-stream", "first\n", {{"X-Served-By", "test"}}});
          EXPECT_EQ(exchange->Stream({}), nullptr);
          begun_.Notify();
        });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::string url() const { return absl::StrCat("http://", server_->address(), "/events"); }

  absl::Notification begun_;
  adaptdl::httpd::HttpRequest request_;
  std::unique_ptr<HttpStream> stream_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpStreamTest, IsReadAsItIsWritten) {
  Serve();
  std::string read;
  const auto answer = adaptdl::HttpClient().Stream(
      {.url = url(), .headers = {"X-Asked-By: somebody"}}, [&](absl::string_view part) {
        read += std::string(part);
        // Each is written when the one before it was read: nothing waits for the end.
        const bool more = read != "first\n" || stream_->Write("second\n");
        EXPECT_TRUE(more);
        if (read == "first\nsecond\n") stream_.reset();
        return absl::OkStatus();
      });
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(read, "first\nsecond\n");
  EXPECT_EQ(answer->headers.at("x-served-by"), "test");
  EXPECT_EQ(request_.headers.at("x-asked-by"), "somebody");
}

TEST_F(HttpStreamTest, AReaderThatIsTooFarBehindIsSentAway) {
  Serve(/*max_unread_bytes=*/1 << 10);
  const auto answer = adaptdl::HttpClient().Stream({.url = url()}, [&](absl::string_view) {
    EXPECT_FALSE(stream_->Write(std::string(2 << 10, 'x')));
    EXPECT_FALSE(stream_->Write("y"));
    return absl::OkStatus();
  });
  EXPECT_FALSE(answer.ok());
}

TEST_F(HttpStreamTest, EndsWithTheServer) {
  Serve();
  const auto answer = adaptdl::HttpClient().Stream({.url = url()}, [&](absl::string_view) {
    begun_.WaitForNotification();
    return absl::CancelledError("gone");
  });
  EXPECT_FALSE(answer.ok());
  server_.reset();  // Does not wait for the stream, whose reader may or may not have been noticed to be gone.
  EXPECT_FALSE(stream_->Write("too late"));
}

}  // namespace
}  // namespace adaptdl::httpd
