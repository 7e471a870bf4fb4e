#include "simulator/traces/workload.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "simulator/random.h"
#include "simulator/traces/csv.h"

namespace adaptdl::simulator {
namespace {

absl::Status Check(const WorkloadJob& job) {
  const Application& application = *job.application;
  if (job.submitted < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(job.name, ": time is ", job.submitted, "; it must not be negative"));
  }
  if (job.replicas < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(job.name, ": num_replicas is ", job.replicas, "; at least 1"));
  }
  if (job.batch_size < application.init_batch_size() || job.batch_size > application.max_batch_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        job.name, ": batch_size is ", job.batch_size, "; ", application.name, " was measured from ",
        application.init_batch_size(), " to ", application.max_batch_size()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<WorkloadJob>> LoadWorkload(const WorkloadOptions& options) {
  absl::StatusOr<CsvTable> table =
      CsvTable::Read(options.path, {"name", "time", "application", "num_replicas", "batch_size"});
  if (!table.ok()) {
    return table.status();
  }
  std::map<std::string, std::shared_ptr<const Application>> applications;
  std::set<std::string> names;
  std::vector<WorkloadJob> jobs;
  for (size_t row = 0; row < table->rows(); ++row) {
    absl::StatusOr<double> time = table->Number(row, 1);
    absl::StatusOr<int64_t> replicas = table->Integer(row, 3);
    absl::StatusOr<int64_t> batch_size = table->Integer(row, 4);
    for (const absl::Status& status : {time.status(), replicas.status(), batch_size.status()}) {
      if (!status.ok()) {
        return status;
      }
    }
    const std::string& name = table->Text(row, 2);
    std::shared_ptr<const Application>& application = applications[name];
    if (application == nullptr) {
      absl::StatusOr<Application> loaded =
          LoadApplication(options.trace_folders, name, options.gpu_types, options.rules);
      if (!loaded.ok()) {
        return loaded.status();
      }
      application = std::make_shared<const Application>(*std::move(loaded));
    }
    WorkloadJob job{table->Text(row, 0), *time, application, static_cast<int>(*replicas), *batch_size};
    if (!names.insert(job.name).second) {
      return absl::InvalidArgumentError(absl::StrCat(options.path, ": two jobs are called ", job.name));
    }
    if (absl::Status status = Check(job); !status.ok()) {
      return status;
    }
    jobs.push_back(std::move(job));
  }
  if (jobs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(options.path, ": no jobs"));
  }
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const WorkloadJob& a, const WorkloadJob& b) { return a.submitted < b.submitted; });
  return jobs;
}

void MakePlain(double part, uint64_t seed, std::vector<WorkloadJob>* workload) {
  for (WorkloadJob& job : *workload) {
    job.plain = KeyedUniform(seed, absl::StrCat("plain:", job.name), 0) < part;
    if (job.plain) job.demand.min_replicas = job.demand.max_replicas = job.replicas;
  }
}

}  // namespace adaptdl::simulator
