#include "libs/service/metrics_page.h"

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/version.h"
#include "libs/service/listen_address.h"
#include "prometheus/gauge.h"

namespace adaptdl::service {

absl::StatusOr<std::unique_ptr<MetricsPage>> MetricsPage::Create(const std::string& listen,
                                                                 const std::string& service) {
  std::unique_ptr<MetricsPage> page(new MetricsPage);
  prometheus::BuildGauge()
      .Name("adaptdl_build_info")
      .Help("Always 1; the labels say what runs here.")
      .Register(*page->registry_)
      .Add({{"service", service}, {"version", Version()}})
      .Set(1);
  if (listen.empty()) return page;
  if (const absl::Status status = page->Listen(listen); !status.ok()) return status;
  return page;
}

MetricsPage::~MetricsPage() {
  if (exposer_ == nullptr) return;
  const absl::StatusOr<ListenAddress> address = ParseListenAddress("--metrics-listen", address_);
  // The HTTP server looks for its end every two seconds, or when somebody connects.
  std::future<void> ended = std::async(std::launch::async, [this] { exposer_.reset(); });
  while (ended.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
    if (address.ok()) Knock(*address);
  }
}

absl::Status MetricsPage::Listen(const std::string& listen) {
  const absl::StatusOr<ListenAddress> address = ParseListenAddress("--metrics-listen", listen);
  if (!address.ok()) return address.status();
  try {
    exposer_ = std::make_unique<prometheus::Exposer>(listen);
  } catch (const std::exception&) {
    // Its text says only that it failed.
    return ListenError("--metrics-listen", *address);
  }
  exposer_->RegisterCollectable(registry_);
  exposer_->RegisterCollectable(process_);
  address_ = absl::StrCat(address->host, ":", exposer_->GetListeningPorts().front());
  return absl::OkStatus();
}

}  // namespace adaptdl::service
