// Answers the browser: static files, and the JSON interface under /api, by calls of the public gRPC interface.
//
//   Access access;
//   Gateway gateway({.channel = [&] { return client.channel(); }}, &access);
//   server = httpd::HttpServer::Start(options, [&](const auto& request, auto exchange) {
//     gateway.Handle(request, std::move(exchange)); });
//   access.set_port(server->port());
//   ... gateway.Step() about once a second ...
//
// Thread-safe. The server is destroyed first.

#ifndef ADAPTDL_LIBS_DASHBOARD_GATEWAY_H_
#define ADAPTDL_LIBS_DASHBOARD_GATEWAY_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "libs/base/mutex.h"
#include "libs/dashboard/doorkeeper.h"
#include "libs/dashboard/job_stream.h"
#include "libs/httpd/http_server.h"

namespace adaptdl::dashboard {

struct GatewayOptions {
  // The supervisor's; calls are made with the guest's token, if it has one. Must not wait.
  std::function<std::shared_ptr<grpc::Channel>()> channel;
  // A call has failed such that another supervisor may do better. Null: there is none.
  std::function<void()> go_on = nullptr;
  // Namespace that the pages begin with. "*": all.
  std::string name_space = "default";
  absl::Duration call_timeout = absl::Seconds(10);
  // Calls at the same time, and streams. More are answered 503.
  size_t max_calls = 64;
  size_t max_streams = 32;
  // Of one guest: nobody takes the others' places.
  int max_calls_of_guest = 64;
  int max_streams_of_guest = 32;
};

class Gateway {
 public:
  // What GET /api/... there is.
  static const std::vector<std::string>& Endpoints();

  // `doorkeeper` outlives it.
  Gateway(GatewayOptions options, Doorkeeper* doorkeeper)
      : options_(std::move(options)), doorkeeper_(doorkeeper) {}
  // Ends all calls, and waits for their end.
  ~Gateway();

  void Handle(const httpd::HttpRequest& request, const std::shared_ptr<httpd::HttpExchange>& exchange);

  // Passes on what streams have gathered. Called about once a second.
  void Step();

 private:
  using Exchange = std::shared_ptr<httpd::HttpExchange>;
  template <typename Request, typename Response>
  struct Pending;

  void Ask(const Proof& proof, const Exchange& exchange);
  void HandleApi(const httpd::HttpRequest& request, const Guest& guest, const Exchange& exchange);
  void HandleChange(const httpd::HttpRequest& request, const Guest& guest, const Exchange& exchange);
  void Stream(const httpd::HttpRequest& request, const Guest& guest, const Exchange& exchange);
  template <typename Async, typename Request, typename Response>
  using AsyncMethod = void (Async::*)(grpc::ClientContext*, const Request*, Response*,
                                      grpc::ClientUnaryReactor*);
  // Makes a call; `then` gets what comes of it. False: there are too many, or it ends.
  template <typename Stub, typename Request, typename Response, typename Async>
  bool Start(AsyncMethod<Async, Request, Response> method, const Request& request, const std::string& bearer,
             std::function<void(const absl::Status&, const Response&)> then);
  // The same for a guest; `render` makes JSON of what it answers.
  template <typename Stub, typename Request, typename Response, typename Async>
  void Call(AsyncMethod<Async, Request, Response> method, const Request& request, const Guest& guest,
            const Exchange& exchange, std::function<std::string(const Response&)> render);
  // False: there are too many, or it ends.
  bool Enter(grpc::ClientContext* context, const std::string& bearer);
  void Leave(grpc::ClientContext* context, const std::string& bearer, const absl::Status& status,
             const std::function<void()>& release);
  bool TakePlace(const std::string& bearer);

  const GatewayOptions options_;
  Doorkeeper* const doorkeeper_;
  mutable Mutex mutex_;
  // A call or a stream has ended.
  CondVar idle_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
  // Of each guest, by their tokens.
  std::map<std::string, int> calls_of_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> places_of_ ABSL_GUARDED_BY(mutex_);
  // Places that are taken, also before the stream is among `streams_`.
  size_t places_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::shared_ptr<LiveStream>, Guest> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::dashboard

#endif  // ADAPTDL_LIBS_DASHBOARD_GATEWAY_H_
