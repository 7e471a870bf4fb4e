#include "services/supervisor/web/web_dashboard.h"

namespace adaptdl::supervisor {
namespace {

constexpr absl::Duration kFlushPeriod = absl::Milliseconds(500);

dashboard::GatewayOptions OptionsFor(std::shared_ptr<grpc::Channel> services) {
  dashboard::GatewayOptions options;
  options.channel = [services = std::move(services)] { return services; };
  options.max_calls = 256;
  options.max_streams = 512;
  options.max_calls_of_guest = 32;
  options.max_streams_of_guest = 32;
  return options;
}

}  // namespace

WebDashboard::WebDashboard(std::shared_ptr<grpc::Channel> services, const Clock* clock)
    : clock_(*clock), sessions_({}, clock), gateway_(OptionsFor(std::move(services)), &sessions_) {}

void WebDashboard::Step() {
  const absl::Time now = clock_.Steady();
  if (now < next_) return;
  next_ = now + kFlushPeriod;
  gateway_.Step();
}

}  // namespace adaptdl::supervisor
