// The page /metrics of a process: its registry, its resources and its build, over HTTP.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_SERVICE_METRICS_PAGE_H_
#define ADAPTDL_LIBS_SERVICE_METRICS_PAGE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/service/process_metrics.h"
#include "prometheus/exposer.h"
#include "prometheus/registry.h"

namespace adaptdl::service {

class MetricsPage {
 public:
  // Serves at `listen` ("host:port"; port 0: any free one; empty: nowhere, but the registry works). `service`
  // is the program's name, a label of adaptdl_build_info. UNAVAILABLE: the address can't be bound.
  static absl::StatusOr<std::unique_ptr<MetricsPage>> Create(const std::string& listen,
                                                             const std::string& service);

  // Ends the page.
  ~MetricsPage();

  // "host:port" with the real port. Empty: nowhere.
  const std::string& address() const { return address_; }
  const std::shared_ptr<prometheus::Registry>& registry() const { return registry_; }

 private:
  MetricsPage() = default;
  absl::Status Listen(const std::string& listen);

  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  const std::shared_ptr<ProcessMetrics> process_ = std::make_shared<ProcessMetrics>();
  std::string address_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_METRICS_PAGE_H_
