// What one client's reading costs another's, over real gRPC.
//
//   cmake --build --preset release --target reads_bench
//   build/release/bench/reads_bench [--jobs 9000] [--readers 8] [--seconds 5]
//
// One client asks for a job again and again; another one, with so many threads, lists jobs by a label that
// one of them has. The supervisor knows them apart by the way they come: TCP, and a Unix socket. Printed: the
// first one's latencies alone and beside the other, and their ratio, which is what counts: times depend on
// the machine.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "libs/base/clock.h"
#include "libs/base/random_id.h"
#include "libs/rpc/channel.h"
#include "libs/service/log.h"
#include "services/supervisor/store/memory_job_store.h"
#include "services/supervisor/supervisor.h"

namespace adaptdl::supervisor {
namespace {

struct Flags {
  int jobs = 9000;
  int readers = 8;
  int seconds = 5;
};

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "reads_bench: %s\n", what.c_str());
  std::exit(1);
}

void Fill(JobManager* manager, int jobs) {
  for (int i = 0; i < jobs; ++i) {
    v1::SubmitJobRequest request;
    request.set_request_id(absl::StrCat("submit-", i));
    v1::Job* job = request.mutable_job();
    job->set_name(absl::StrCat("job-", i));
    job->mutable_spec()->mutable_template_()->add_command("train");
    for (int k = 0; k < 16; ++k)
      (*job->mutable_labels())[absl::StrCat("label-", k)] = absl::StrCat("value-", i % 7);
    if (i == jobs - 1) (*job->mutable_labels())["wanted"] = "yes";
    const auto response = manager->SubmitJob(std::move(request), "");
    if (!response.ok()) Die(std::string(response.status().message()));
  }
}

// Latencies in milliseconds, ascending.
std::vector<double> AskForAJob(v1::JobService::Stub* stub, absl::Duration time) {
  std::vector<double> latencies;
  const absl::Time end = absl::Now() + time;
  while (absl::Now() < end) {
    grpc::ClientContext context;
    v1::GetJobRequest request;
    request.set_name("job-0");
    v1::GetJobResponse response;
    const absl::Time begin = absl::Now();
    const grpc::Status status = stub->GetJob(&context, request, &response);
    if (!status.ok()) Die(status.error_message());
    latencies.push_back(absl::ToDoubleMilliseconds(absl::Now() - begin));
  }
  std::sort(latencies.begin(), latencies.end());
  return latencies;
}

double Quantile(const std::vector<double>& sorted, double part) {
  return sorted[static_cast<size_t>(part * static_cast<double>(sorted.size() - 1))];
}

void Run(const Flags& flags) {
  const RealClock clock;
  SupervisorOptions options;
  options.admission.calls_per_second = 0;
  options.cluster.max_jobs_per_namespace = 0;
  auto supervisor = Supervisor::Create(options, std::make_unique<MemoryJobStore>(), &clock);
  if (!supervisor.ok()) Die(std::string(supervisor.status().message()));
  Fill((*supervisor)->cluster()->jobs(), flags.jobs);
  const std::string socket =
      absl::StrCat(std::filesystem::temp_directory_path().string(), "/reads-bench-", RandomHex(6));
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.AddListeningPort(absl::StrCat("unix:", socket), grpc::InsecureServerCredentials());
  for (grpc::Service* service : (*supervisor)->services()) builder.RegisterService(service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) Die("no server");

  const auto asker =
      v1::JobService::NewStub(rpc::CreateChannel(absl::StrCat("127.0.0.1:", port), rpc::Plaintext()));
  AskForAJob(asker.get(), absl::Seconds(1));  // Warm.
  const std::vector<double> alone = AskForAJob(asker.get(), absl::Seconds(flags.seconds));
  std::atomic<bool> done = false;
  std::atomic<int> lists = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < flags.readers; ++i) {
    readers.emplace_back([&] {
      const auto stub = v1::JobService::NewStub(
          grpc::CreateChannel(absl::StrCat("unix:", socket), grpc::InsecureChannelCredentials()));
      v1::ListJobsRequest request;
      request.set_namespace_("*");
      (*request.mutable_labels())["wanted"] = "yes";
      while (!done) {
        grpc::ClientContext context;
        v1::ListJobsResponse response;
        const grpc::Status status = stub->ListJobs(&context, request, &response);
        if (!status.ok() || response.jobs_size() != 1) Die("a list failed");
        ++lists;
      }
    });
  }
  const std::vector<double> beside = AskForAJob(asker.get(), absl::Seconds(flags.seconds));
  done = true;
  for (std::thread& reader : readers) reader.join();
  std::printf("%d jobs, %d readers, %.0f lists/s\n", flags.jobs, flags.readers,
              static_cast<double>(lists) / flags.seconds);
  for (const double part : {0.5, 0.99, 1.0}) {
    std::printf("GetJob, quantile %.2f: alone %.3f ms, beside readers %.3f ms, ratio %.1f\n", part,
                Quantile(alone, part), Quantile(beside, part),
                Quantile(beside, part) / Quantile(alone, part));
  }
  (*supervisor)->EndStreams();
  server->Shutdown();
  std::filesystem::remove(socket);
}

int Main(int argc, char** argv) {
  CLI::App app{"What one client's reading costs another's"};
  Flags flags;
  app.add_option("--jobs", flags.jobs, "Jobs")->check(CLI::Range(1, 1'000'000));
  app.add_option("--readers", flags.readers, "Threads of the other client")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", flags.seconds, "Of each measurement")->check(CLI::Range(1, 3600));
  CLI11_PARSE(app, argc, argv);
  log::Initialize({"console", "error", "supervisor"}).IgnoreError();
  Run(flags);
  return 0;
}

}  // namespace
}  // namespace adaptdl::supervisor

int main(int argc, char** argv) { return adaptdl::supervisor::Main(argc, argv); }
