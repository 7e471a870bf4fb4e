#include <memory>
#include <string>
#include <utility>

#include "libs/dashboard/job_json.h"
#include "libs/dashboard/job_stream.h"
#include "libs/dashboard/live_reactor.h"

namespace adaptdl::dashboard {
namespace {

// Lines that are passed on at once: what a page can show.
constexpr size_t kMostLines = 2000;

class LogStream final : public LiveReactor<v1::StreamLogsResponse> {
 public:
  using LiveReactor::LiveReactor;

 private:
  bool Take(const v1::StreamLogsResponse& response) override {
    for (const v1::LogLine& line : response.lines()) {
      lines_.push_back({{"rank", line.rank()}, {"time", line.time().seconds()}, {"text", line.text()}});
    }
    if (!response.warning().empty()) lines_.push_back({{"rank", -1}, {"text", response.warning()}});
    return lines_.size() >= kMostLines;
  }

  std::pair<std::string, std::string> Gathered() override {
    if (lines_.empty()) return {};
    return {"lines", ToText(std::exchange(lines_, nlohmann::json::array()))};
  }

  nlohmann::json lines_ = nlohmann::json::array();
};

}  // namespace

std::shared_ptr<LiveStream> StartLogStream(std::shared_ptr<grpc::Channel> channel, const std::string& bearer,
                                           const v1::StreamLogsRequest& request,
                                           std::unique_ptr<httpd::HttpStream> stream,
                                           std::function<void()> done) {
  auto reactor = std::make_shared<LogStream>(std::move(stream), std::move(done));
  reactor->SetBearer(bearer);
  v1::JobService::Stub(channel).async()->StreamLogs(reactor->context(), &request, reactor.get());
  reactor->Begin(reactor);
  return reactor;
}

}  // namespace adaptdl::dashboard
