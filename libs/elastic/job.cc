#include "adaptdl/job.h"

#include <memory>
#include <string>
#include <utility>

#include "libs/elastic/job_core.h"

namespace adaptdl {

Job::Job(std::unique_ptr<elastic::JobCore> core) : core_(std::move(core)) {}
Job::~Job() = default;

int Job::rank() const { return core_->membership().rank; }
int Job::num_replicas() const { return core_->membership().world_size; }
int Job::num_nodes() const { return core_->membership().num_nodes; }
int64_t Job::optimizer_steps() const { return core_->optimizer_steps(); }
int Job::finished_epochs() const { return core_->replay().finished_epochs(); }
const std::string& Job::share_path() const { return core_->environment().share_path; }

void Job::RequestCheckpoint() { core_->RequestCheckpoint("by the program"); }
bool Job::SaveAll() { return core_->SaveAll(); }
void Job::RequestStop() { core_->RequestStop("by the program"); }
void Job::Synchronize() { core_->StepBoundary(); }

bool Job::Register(CheckpointState* state) { return core_->Register(state); }
void Job::Unregister(CheckpointState* state) { core_->Unregister(state); }

}  // namespace adaptdl
