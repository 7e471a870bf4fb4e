// The job of failover_test: takes cheap steps until the file "<folder>/finish" is there, and notes them in
// "<folder>/<job>.<pid>", a line "STEP" per step. It talks to the supervisor as all programs of the training
// library do; what that has to say is noted as well: "fenced ...", "stop ...", "checkpoint ...", "plan ...".
//
//   step_job FOLDER

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "libs/elastic/control/environment.h"
#include "libs/elastic/control/grpc/grpc_control_plane.h"

namespace {

using adaptdl::elastic::ControlObserver;
using adaptdl::elastic::Environment;
using adaptdl::elastic::GroupPlan;

// Twenty of them must leave two cores at leisure.
constexpr auto kStepTime = std::chrono::milliseconds(20);

// Whole lines, each with one write.
class Record final : public ControlObserver {
 public:
  Record(const std::string& folder, const std::string& job)
      : file_(open(absl::StrCat(folder, "/", job, ".", getpid()).c_str(), O_WRONLY | O_CREAT | O_APPEND,
                   0644)) {}

  void Write(const std::string& text) const {
    const std::string line = text + "\n";
    if (write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::exit(3);
  }
  void OnCheckpointCommand(const std::string& reason) override { Write("checkpoint " + reason); }
  void OnStopCommand(const std::string& reason) override { Write("stop " + reason); }
  void OnFenced(const std::string& reason) override { Write("fenced " + reason); }
  void OnPlan(const GroupPlan& plan) override { Write("plan " + plan.reason); }

 private:
  const int file_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const auto environment = adaptdl::elastic::ReadEnvironment(adaptdl::elastic::GetFromProcess);
  if (!environment.ok()) {
    std::fprintf(stderr, "%s\n", environment.status().ToString().c_str());
    return 2;
  }
  Record record(folder, environment->job);
  adaptdl::elastic::GrpcControlPlaneOptions options;
  options.supervisor_address = environment->supervisor_address;
  options.supervisor_ca = environment->supervisor_ca;
  options.supervisor_tls_name = environment->supervisor_tls_name;
  options.job_namespace = environment->job_namespace;
  options.job = environment->job;
  options.replica_id = environment->replica_id;
  options.group = environment->group;
  options.token = environment->group_token;
  const auto control = adaptdl::elastic::CreateGrpcControlPlane(options);
  const auto membership = control->JoinGroup("127.0.0.1:1");
  if (!membership.ok()) {
    record.Write("refused " + membership.status().ToString());
    return 75;
  }
  control->Start(&record);
  adaptdl::elastic::Progress progress;
  while (!std::filesystem::exists(folder + "/finish")) {
    std::this_thread::sleep_for(kStepTime);
    record.Write(absl::StrCat(++progress.optimizer_steps));
    control->UpdateProgress(progress);
  }
  control->Shutdown();
  return 0;
}
