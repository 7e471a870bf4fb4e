// Submits a job file, follows the job with its output, and prints its curve:  submit_and_follow JOB_FILE
// The cluster, and who this is, are found as the command adaptdl finds them.
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "adaptdl/client.h"

namespace client = adaptdl::client;

int Fail(const absl::Status& status) {
  std::cerr << "submit_and_follow: " << status.message() << "\n";
  return 1;
}

int main(int argc, char** argv) {
  std::ifstream file(argc > 1 ? argv[1] : "adaptdljob.yaml");
  if (!file) return Fail(absl::NotFoundError("the job file can't be read"));
  const std::string text(std::istreambuf_iterator<char>(file), {});

  const auto cluster = client::Client::Open();
  if (!cluster.ok()) return Fail(cluster.status());
  auto job = (*cluster)->SubmitJobFile(text);
  if (!job.ok()) return Fail(job.status());
  const std::string name = job->name_space + "/" + job->name;
  std::cout << name << " is submitted" << std::endl;

  // Ends when the job does, also over restarts of the supervisor.
  const absl::Status logs = (*cluster)->Logs(name, {.follow = true}, [](const client::LogLine& line) {
    std::cout << "[" << line.rank << "] " << line.text << std::endl;
    return true;
  });
  if (!logs.ok()) return Fail(logs);
  job = (*cluster)->Wait(name);
  if (!job.ok()) return Fail(job.status());

  const auto history = (*cluster)->History(name);
  if (!history.ok()) return Fail(history.status());
  for (const client::HistoryPoint& point : *history) {
    std::cout << absl::FormatTime("%H:%M:%S", point.end, absl::LocalTimeZone()) << "  " << point.replicas
              << " replicas, " << point.goodput << " useful samples/s";
    if (const auto loss = point.metrics.find("loss"); loss != point.metrics.end()) {
      std::cout << ", loss " << loss->second.value;
    }
    std::cout << "\n";
  }
  std::cout << name << " has ended: " << client::NameOf(job->phase) << std::endl;
  return job->succeeded() ? 0 : 1;
}
