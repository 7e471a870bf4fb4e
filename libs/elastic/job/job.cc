#include "adaptdl/job.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "libs/elastic/job/job_core.h"

namespace adaptdl {

Job::Job(std::unique_ptr<elastic::JobCore> core) : core_(std::move(core)) {}
Job::Job(Place place, Join join) : place_(std::move(place)), join_(std::move(join)) {}
Job::~Job() = default;

elastic::JobCore& Job::core() const {
  if (core_ == nullptr) core_ = join_(expected_);
  return *core_;
}

int Job::rank() const { return core_ ? core_->team().membership().rank : place_.rank; }
int Job::num_replicas() const { return core_ ? core_->team().membership().world_size : place_.num_replicas; }
int Job::num_nodes() const { return core_ ? core_->team().membership().num_nodes : place_.num_nodes; }
int64_t Job::optimizer_steps() const { return core().progress().optimizer_steps(); }
int Job::finished_epochs() const { return core().replay().finished_epochs(); }
const std::string& Job::share_path() const {
  return core_ ? core_->environment().share_path : place_.share_path;
}
bool Job::step_is_void() const { return core().step().is_void(); }

void Job::RequestCheckpoint() { core().RequestCheckpoint("by the program"); }
bool Job::SaveAll() { return core().loop().SaveNow(); }
void Job::RequestStop() { core().RequestStop("by the program"); }
void Job::Report(std::string_view name, double value, int64_t step) {
  core().metrics().Report({name.data(), name.size()}, value, step);
}
void Job::Synchronize() { core().loop().StepBoundary(); }

bool Job::Register(CheckpointState* state) {
  const absl::StatusOr<bool> loaded = core().states().Register(state, /*says=*/core().team().leads());
  if (!loaded.ok()) core().ending().FailUsage(std::string(loaded.status().message()));
  return *loaded;
}
void Job::Expect(CheckpointState* state) {
  if (core_ == nullptr) expected_.push_back(state);
}
void Job::Unregister(CheckpointState* state) { core().states().Unregister(state); }

}  // namespace adaptdl
