#include "adaptdl/env.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/say.h"
#include "libs/elastic/control/environment.h"

namespace adaptdl::env {
namespace {

elastic::Environment Read() {
  absl::StatusOr<elastic::Environment> environment = elastic::ReadVariables(elastic::GetFromProcess);
  if (environment.ok()) return *std::move(environment);
  Say(Severity::kError, environment.status().ToString());
  std::fflush(nullptr);
  std::_Exit(1);
}

}  // namespace

std::string CheckpointPath() { return Read().checkpoint_path; }
std::string StartPath() { return Read().start_path; }
std::string SharePath() { return Read().share_path; }
std::string TensorBoardLogDir() { return Read().tensorboard_logdir; }
std::string JobId() {
  const elastic::Environment environment = Read();
  if (environment.job.empty()) return "";
  return absl::StrCat(environment.job_namespace, "/", environment.job);
}
std::string SupervisorAddress() { return Read().supervisor_address; }
std::string MasterAddr() {
  const std::string host = Read().master_host;
  return host.empty() ? "127.0.0.1" : host;
}
int MasterPort() { return Read().master_port; }
int ReplicaRank() { return Read().replica_rank; }
int NumReplicas() { return Read().num_replicas; }
int NumNodes() { return Read().num_nodes; }
int NumRestarts() { return Read().num_restarts; }
double CheckpointPeriodSeconds() { return absl::ToDoubleSeconds(Read().checkpoint_period); }
int64_t CheckpointPeriodSteps() { return Read().checkpoint_period_steps; }
int CheckpointKeep() { return Read().checkpoint_keep; }
double HintsPeriodSeconds() { return absl::ToDoubleSeconds(Read().hints_period); }
double CollectiveTimeoutSeconds() { return absl::ToDoubleSeconds(Read().collective_timeout); }

}  // namespace adaptdl::env
