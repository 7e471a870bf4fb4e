// What changes, to a browser: a call that streams from the supervisor, passed on as server-sent events. Changes of a second are one
// event. When the call ends or the browser goes, so does the other.
//
// Owned by itself while the call runs. Thread-safe.

#ifndef ADAPTDL_LIBS_DASHBOARD_JOB_STREAM_H_
#define ADAPTDL_LIBS_DASHBOARD_JOB_STREAM_H_

#include <functional>
#include <memory>
#include <string>

#include "adaptdl/v1/job_service.grpc.pb.h"
#include "libs/httpd/http_server.h"

namespace adaptdl::dashboard {

// A call that passes something on to a browser.
class LiveStream {
 public:
  virtual ~LiveStream() = default;
  // Passes on what has gathered, or a sign of life. Called about once a second.
  virtual void Flush() = 0;
  // Ends the call; `done` is called when it has ended.
  virtual void Cancel() = 0;
};

// `bearer`: a token that the call is made with; empty: what the channel has.
// Tells "jobs" ({"jobs": [...], "deleted": [uid...], "initial": true once}), and "end" with the reason.
std::shared_ptr<LiveStream> StartJobStream(std::shared_ptr<grpc::Channel> channel, const std::string& bearer,
                                           const v1::WatchJobsRequest& request,
                                           std::unique_ptr<httpd::HttpStream> stream,
                                           std::function<void()> done);

// Tells "lines" ([{"rank", "text", "time"}]), and "end".
std::shared_ptr<LiveStream> StartLogStream(std::shared_ptr<grpc::Channel> channel, const std::string& bearer,
                                           const v1::StreamLogsRequest& request,
                                           std::unique_ptr<httpd::HttpStream> stream,
                                           std::function<void()> done);

}  // namespace adaptdl::dashboard

#endif  // ADAPTDL_LIBS_DASHBOARD_JOB_STREAM_H_
