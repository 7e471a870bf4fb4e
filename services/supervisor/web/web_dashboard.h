// The dashboard of "adaptdl dashboard", served by the supervisor itself to people who sign in with their tokens.
//
// It is a client of the supervisor's own services, by their address: each call is made with the token of whoever looks, and is
// allowed, limited and written to the audit log as any other call is.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_WEB_WEB_DASHBOARD_H_
#define ADAPTDL_SERVICES_SUPERVISOR_WEB_WEB_DASHBOARD_H_

#include <memory>
#include <utility>

#include "grpcpp/grpcpp.h"
#include "libs/base/clock.h"
#include "libs/dashboard/gateway.h"
#include "libs/dashboard/sessions.h"
#include "libs/httpd/http_server.h"

namespace adaptdl::supervisor {

class WebDashboard {
 public:
  // `services`: a channel without credentials of its own. `clock` outlives it.
  WebDashboard(std::shared_ptr<grpc::Channel> services, const Clock* clock);

  void Handle(const httpd::HttpRequest& request, std::shared_ptr<httpd::HttpExchange> exchange) {
    gateway_.Handle(request, std::move(exchange));
  }

  // Passes on what streams have gathered, about twice a second. Called now and then.
  void Step();

 private:
  const Clock& clock_;
  absl::Time next_ = absl::InfinitePast();  // Used in Step() only.
  dashboard::Sessions sessions_;
  dashboard::Gateway gateway_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_WEB_WEB_DASHBOARD_H_
