// The job, its epochs, and what replicas tell each other.

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "adaptdl/epochs.h"
#include "adaptdl/job.h"
#include "libs/comm/communicator.h"
#include "libs/comm/socket.h"
#include "libs/elastic/job/init.h"
#include "libs/elastic/job/job_core.h"
#include "libs/elastic/job/step_sums.h"
#include "python/engine/calls.h"
#include "python/engine/shared_signals.h"
#include "python/engine/state_calls.h"

using adaptdl::python::Call;
using adaptdl::python::CallBack;
using adaptdl::python::CallFromAnyThread;
using adaptdl::python::InterpreterHost;

struct adaptdl_epochs {
  adaptdl_job* job = nullptr;
  std::unique_ptr<adaptdl::EpochRange::Iterator> iterator = {};
};

struct adaptdl_gathered {
  std::vector<std::string> bytes = {};
};

struct adaptdl_sums final : adaptdl::elastic::StepSums {
  adaptdl_sums(adaptdl_job* job, const adaptdl_sums_calls& calls) : job(job), calls(calls) {}

  void Merge() override { CallBack(job, calls.merge); }
  void KeepStep() override {
    if (*calls.in_step != 0) CallBack(job, calls.keep_step);
  }
  void DropStep() override {
    if (*calls.in_step != 0) CallBack(job, calls.drop_step);
  }

  adaptdl_job* const job;
  const adaptdl_sums_calls calls;
};

namespace {

void Describe(const adaptdl_job& job, adaptdl_place* place) {
  *place = {};
  place->met = job.met ? 1 : 0;
  place->rank = job.job->rank();
  place->replicas = job.job->num_replicas();
  place->nodes = job.job->num_nodes();
  place->current_epoch = -1;
  if (!job.met) return;
  adaptdl::elastic::JobCore& core = job.job->core();
  place->current_epoch = core.replay().current_epoch();
  place->finished_epochs = core.replay().finished_epochs();
  place->in_loop = core.replay().in_loop() ? 1 : 0;
  place->replaying = core.replay().replaying() ? 1 : 0;
  place->is_void = core.step().is_void() ? 1 : 0;
  place->joined = core.states().has_others_state() ? 1 : 0;
  const adaptdl::elastic::MicroBatch& batch = core.step().micro_batch();
  place->stand_in = batch.step_total > 0 && batch.local == 0 ? 1 : 0;
  place->optimizer_steps = core.progress().optimizer_steps();
  place->group = core.team().membership().group;
}

int EpochOf(adaptdl_epochs* epochs) {
  return *epochs->iterator != adaptdl::EpochRange::End() ? **epochs->iterator : -1;
}

}  // namespace

// --- Life ---

int adaptdl_job_open(const char* backend, const char* address, int world_size, int rank, adaptdl_job** job) {
  auto opened = std::make_unique<adaptdl_job>();
  opened->host = std::make_shared<InterpreterHost>();
  const int status = Call(opened.get(), [&] {
    opened->job = adaptdl::elastic::InitOn(opened->host, {backend, address, world_size, rank});
  });
  if (status == ADAPTDL_OK) *job = opened.release();
  return status;
}

int adaptdl_job_meet(adaptdl_job* job, adaptdl_state* const* expected, int64_t count) {
  if (job->met) return ADAPTDL_OK;
  return Call(job, [&] {
    for (int64_t i = 0; i < count; ++i) job->job->Expect(adaptdl::python::StateOf(expected[i]));
    job->host->SetMeeting(true);
    job->job->core();
    job->met = true;
    job->training_thread = std::this_thread::get_id();
    if (job->host->SetMet()) job->job->RequestStop();
  });
}

int adaptdl_job_close(adaptdl_job* job) {
  job->exit_code = -1;
  const int status = Call(job, [&] { job->job.reset(); });
  delete job;
  return status;
}

void adaptdl_job_forget_in_child(adaptdl_job* job) {
  job->host->ForgetSignals();
  adaptdl::comm::CloseSocketsOfParent();
}

void adaptdl_ignore_stops_of_others(void) { adaptdl::python::IgnoreStopsOfOthers(); }

int adaptdl_job_place(adaptdl_job* job, adaptdl_place* place) {
  // Who the replica is its program may ask while it ends.
  if (job->exit_code >= 0) {
    Describe(*job, place);
    return ADAPTDL_OK;
  }
  return Call(
      job, [&] { Describe(*job, place); }, /*keeps_plain=*/true);
}

// --- Requests ---

int adaptdl_job_request_stop(adaptdl_job* job) {
  return CallFromAnyThread(job, [&] { job->job->RequestStop(); });
}

int adaptdl_job_request_checkpoint(adaptdl_job* job) {
  return CallFromAnyThread(job, [&] { job->job->RequestCheckpoint(); });
}

int adaptdl_job_report(adaptdl_job* job, const char* name, double value, int64_t step) {
  const auto report = [&] { job->job->Report(name, value, step); };
  if (std::this_thread::get_id() != job->training_thread) return CallFromAnyThread(job, report);
  // It is told what step it is of, so that those that were taken count before.
  return Call(job, report, /*keeps_plain=*/true);
}

int adaptdl_job_synchronize(adaptdl_job* job) {
  return Call(job, [&] { job->job->Synchronize(); });
}

int adaptdl_job_save_all(adaptdl_job* job, int* saved) {
  return Call(job, [&] { *saved = job->job->SaveAll() ? 1 : 0; });
}

void adaptdl_job_busy(adaptdl_job* job, int busy) {
  if (!job->met) return;
  adaptdl::elastic::TrainingWatch& watch = job->job->core().watch();
  busy != 0 ? watch.BeginStorage() : watch.EndStorage();
}

// --- What replicas tell each other ---

int adaptdl_job_gather(adaptdl_job* job, const char* bytes, int64_t size, adaptdl_gathered** gathered) {
  return Call(job, [&] {
    auto all = std::make_unique<adaptdl_gathered>();
    all->bytes = job->job->core().team().Gather(std::string(bytes, static_cast<size_t>(size)));
    *gathered = all.release();
  });
}

int64_t adaptdl_gathered_count(const adaptdl_gathered* gathered) {
  return static_cast<int64_t>(gathered->bytes.size());
}

const char* adaptdl_gathered_bytes(const adaptdl_gathered* gathered, int64_t index, int64_t* size) {
  const std::string& bytes = gathered->bytes[static_cast<size_t>(index)];
  *size = static_cast<int64_t>(bytes.size());
  return bytes.data();
}

void adaptdl_gathered_close(adaptdl_gathered* gathered) { delete gathered; }

int adaptdl_job_broadcast(adaptdl_job* job, void* data, int64_t size) {
  return Call(job, [&] {
    adaptdl::elastic::JobCore& core = job->job->core();
    if (core.team().communicator().size() == 1) return;
    const adaptdl::comm::Buffer bytes{data, size, adaptdl::comm::DataType::kUint8};
    core.ending().Check(core.team().communicator().Broadcast(bytes, 0));
  });
}

// --- Epochs ---

int adaptdl_epochs_open(adaptdl_job* job, int total, adaptdl_epochs** epochs, int* epoch) {
  return Call(job, [&] {
    auto opened = std::make_unique<adaptdl_epochs>();
    opened->job = job;
    opened->iterator = std::make_unique<adaptdl::EpochRange::Iterator>(job->job.get(), total);
    *epoch = EpochOf(opened.get());
    *epochs = opened.release();
  });
}

int adaptdl_epochs_next(adaptdl_epochs* epochs, int* epoch) {
  return Call(epochs->job, [&] {
    ++*epochs->iterator;
    *epoch = EpochOf(epochs);
  });
}

int adaptdl_epochs_close(adaptdl_epochs* epochs) {
  delete epochs;
  return ADAPTDL_OK;
}

// --- Sums ---

int adaptdl_sums_open(adaptdl_job* job, const adaptdl_sums_calls* calls, adaptdl_sums** sums) {
  return Call(job, [&] {
    auto opened = std::make_unique<adaptdl_sums>(job, *calls);
    job->job->core().loop().Attach(opened.get());
    *sums = opened.release();
  });
}

int adaptdl_sums_close(adaptdl_sums* sums) {
  sums->job->job->core().loop().Detach(sums);
  delete sums;
  return ADAPTDL_OK;
}
