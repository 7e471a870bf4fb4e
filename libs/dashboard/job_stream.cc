#include "libs/dashboard/job_stream.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/dashboard/job_json.h"
#include "libs/dashboard/live_reactor.h"

namespace adaptdl::dashboard {
namespace {

class JobStream final : public LiveReactor<v1::WatchJobsResponse> {
 public:
  using LiveReactor::LiveReactor;

 private:
  bool Take(const v1::WatchJobsResponse& response) override {
    if (response.deleted()) {
      changed_.erase(response.job().uid());
      deleted_.push_back(response.job().uid());
      return false;
    }
    if (response.has_job()) changed_[response.job().uid()] = JobRow(response.job());
    for (const v1::Job& job : response.more()) changed_[job.uid()] = JobRow(job);
    if (!response.initial_list_done()) return false;
    initial_ = true;
    complete_ = true;
    return true;
  }

  std::pair<std::string, std::string> Gathered() override {
    // The first list is one event, so that nothing flickers.
    if (!complete_ || (changed_.empty() && deleted_.empty() && !initial_)) return {};
    nlohmann::json jobs = nlohmann::json::array();
    for (auto& [uid, row] : changed_) jobs.push_back(std::move(row));
    const nlohmann::json event = {{"jobs", jobs}, {"deleted", deleted_}, {"initial", initial_}};
    changed_.clear();
    deleted_.clear();
    initial_ = false;
    return {"jobs", ToText(event)};
  }

  // By uid.
  std::map<std::string, nlohmann::json> changed_;
  std::vector<std::string> deleted_;
  bool initial_ = false;
  bool complete_ = false;
};

}  // namespace

std::shared_ptr<LiveStream> StartJobStream(std::shared_ptr<grpc::Channel> channel, const std::string& bearer,
                                           const v1::WatchJobsRequest& request,
                                           std::unique_ptr<httpd::HttpStream> stream,
                                           std::function<void()> done) {
  auto reactor = std::make_shared<JobStream>(std::move(stream), std::move(done));
  reactor->SetBearer(bearer);
  v1::JobService::Stub(channel).async()->WatchJobs(reactor->context(), &request, reactor.get());
  reactor->Begin(reactor);
  return reactor;
}

}  // namespace adaptdl::dashboard
