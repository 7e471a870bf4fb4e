// Prints docs/metrics.md: every family of metrics that the programs show, as the code that registers it says. So that a
// family has labels to be read off, something of it is counted.

#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "libs/service/metrics_page.h"
#include "libs/service/process_metrics.h"
#include "libs/service/rpc_metrics.h"
#include "prometheus/registry.h"
#include "services/allocator/metrics.h"
#include "services/autoscaler/metrics.h"
#include "services/supervisor/state/metrics.h"
#include "services/supervisor/web/job_series.h"
#include "services/worker/worker_metrics.h"

namespace adaptdl {
namespace {

using prometheus::MetricFamily;

constexpr char kIntroduction[] = R"(# Metrics

Every service serves `/metrics` in Prometheus' format; what the supervisor knows of each job is at `/metrics/jobs` of its
HTTPS port, for whoever has a token. [How to set up Prometheus and Grafana](monitoring.md); [alerts](operations.md#alerts).

This page is made of the code by `scripts/update-metrics-docs.sh`: a name, a type or a label that is not here does not exist.
Histograms have the series `_bucket`, `_sum` and `_count`. Labels take words of the program, and names that the cluster's operator gives; no
label names a job or a user but those of the series of jobs, and `namespace` of `adaptdl_supervisor_cost_total`, which takes at most a thousand values.
)";

const char* TypeName(prometheus::MetricType type) {
  switch (type) {
    case prometheus::MetricType::Counter:
      return "counter";
    case prometheus::MetricType::Gauge:
      return "gauge";
    case prometheus::MetricType::Histogram:
      return "histogram";
    default:
      return "other";
  }
}

std::string Row(const std::string& name, const std::string& type, const std::vector<std::string>& labels,
                const std::string& help) {
  std::vector<std::string> quoted;
  for (const std::string& label : labels) quoted.push_back(absl::StrCat("`", label, "`"));
  return absl::StrCat("| `", name, "` | ", type, " | ", absl::StrJoin(quoted, ", "), " | ",
                      absl::StrReplaceAll(help, {{"|", "\\|"}, {"<", "\\<"}}), " |\n");
}

constexpr char kHead[] = "\n| metric | type | labels | meaning |\n|---|---|---|---|\n";

std::string Section(const std::string& title, const std::string& about, std::vector<MetricFamily> families) {
  std::string text = absl::StrCat("\n## ", title, "\n\n", about, "\n", kHead);
  std::sort(families.begin(), families.end(),
            [](const MetricFamily& a, const MetricFamily& b) { return a.name < b.name; });
  for (const MetricFamily& family : families) {
    std::set<std::string> labels;
    for (const prometheus::ClientMetric& metric : family.metric) {
      for (const auto& label : metric.label) labels.insert(label.name);
    }
    absl::StrAppend(&text,
                    Row(family.name, TypeName(family.type), {labels.begin(), labels.end()}, family.help));
  }
  return text;
}

// A call and a stream of a service that does nothing.
void Call(const std::shared_ptr<prometheus::Registry>& registry) {
  v1::NodeService::Service service;
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> factories;
  factories.push_back(service::MakeRpcMetrics(registry));
  builder.experimental().SetInterceptorCreators(std::move(factories));
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub = v1::NodeService::NewStub(server->InProcessChannel({}));
  grpc::ClientContext of_call;
  v1::ListNodesResponse response;
  stub->ListNodes(&of_call, {}, &response);
  grpc::ClientContext of_stream;
  stub->Connect(&of_stream)->Finish();
  server->Shutdown();
}

std::string OfAll() {
  const auto page = service::MetricsPage::Create("", "supervisor");
  Call((*page)->registry());
  std::vector<MetricFamily> families = (*page)->registry()->Collect();
  for (MetricFamily& family : service::ProcessMetrics().Collect()) families.push_back(std::move(family));
  return Section("All services", "The program, its process, and the calls of gRPC that it answers.",
                 std::move(families));
}

std::string OfSupervisor() {
  const auto registry = std::make_shared<prometheus::Registry>();
  supervisor::Metrics metrics(registry);
  metrics.SetJobs({{"", 1}});
  metrics.SetNodes({{"", 1}});
  metrics.SetWaiting({{"", 1}});
  metrics.SetQueue("", 1);
  metrics.CountAllocation("");
  metrics.CountRestart("");
  metrics.CountRefused("");
  metrics.CountRefusedReport("");
  metrics.CountBrokenInvariant("");
  metrics.CountDamagedRow("", true);
  metrics.CountCost("", "", 1);
  metrics.ObserveRescale("", absl::Seconds(1));
  return Section("Supervisor",
                 "The control plane. A supervisor that waits for its turn to lead serves nothing.",
                 registry->Collect());
}

std::string OfJobs() {
  std::string text = absl::StrCat(
      "\n## Jobs\n\nThe supervisor's `/metrics/jobs`, by HTTPS and with a token: the jobs that its holder "
      "may see, with the labels "
      "`namespace` and `job` besides these. They\nare gone ten minutes after the job's end. Jobs beyond the "
      "page's bound are counted by `adaptdl_jobs_without_series`.\n",
      kHead);
  for (const supervisor::JobSeriesFamily& family : supervisor::JobSeriesFamilies()) {
    std::vector<std::string> labels;
    if (*family.labels != '\0') labels.emplace_back(family.labels);
    absl::StrAppend(&text, Row(family.name, family.type, labels, family.help));
  }
  return text;
}

std::string OfAllocator() {
  prometheus::Registry registry;
  allocator::Metrics metrics(&registry);
  allocator::RoundResult result;
  result.jobs = {{"", 1}};
  metrics.Decided(result, absl::Seconds(1));
  return Section("Allocator", "Who decides which job gets which nodes.", registry.Collect());
}

std::string OfAutoscaler() {
  const auto registry = std::make_shared<prometheus::Registry>();
  autoscaler::Metrics metrics(registry);
  nodepools::Pool pool;
  pool.price_per_hour = 1;
  metrics.AddPool("");
  metrics.SetNodes(pool, 1);
  return Section("Autoscaler", "Pools of nodes, and what is done with them.", registry->Collect());
}

std::string OfWorker() {
  prometheus::Registry registry;
  worker::WorkerMetrics metrics(&registry);
  worker::MachineFigures figures;
  figures.gpus.push_back({.index = 0, .uuid = "", .figures = {}});
  figures.gpus[0].figures = {0.5, 1, 2, 50, 100};
  metrics.Update({}, true);
  metrics.UpdateMachine(figures);
  return Section("Worker",
                 "A node: its replicas, and how much of its machine is in use, by whomever. GPUs are looked "
                 "at every ten "
                 "seconds; one that does not\nanswer is not shown.",
                 registry.Collect());
}

}  // namespace
}  // namespace adaptdl

int main() {
  std::cout << adaptdl::kIntroduction << adaptdl::OfAll() << adaptdl::OfSupervisor() << adaptdl::OfJobs()
            << adaptdl::OfAllocator() << adaptdl::OfAutoscaler() << adaptdl::OfWorker();
}
