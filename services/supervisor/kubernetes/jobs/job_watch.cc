#include "services/supervisor/kubernetes/jobs/job_watch.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "libs/kube/json/object.h"
#include "libs/kubejobs/job_object.h"
#include "libs/service/log.h"
#include "services/supervisor/kubernetes/store/object_types.h"

namespace adaptdl::supervisor {
namespace {

// The job with the bounds, the priority and the hold of another one.
v1::Job WithUpdateOf(v1::Job job, const v1::JobSpec& spec) {
  job.mutable_spec()->set_min_replicas(spec.min_replicas());
  job.mutable_spec()->set_max_replicas(spec.max_replicas());
  job.mutable_spec()->set_priority(spec.priority());
  job.mutable_spec()->set_suspend(spec.suspend());
  return job;
}

// What is known of a job whose specification makes no sense.
v1::Job Nameless(const kube::Json& object) {
  v1::Job job;
  const kube::ObjectKey key = kube::KeyOf(object);
  job.set_namespace_(key.name_space);
  job.set_name(key.name);
  job.set_uid(kube::UidOf(object));
  jobspec::FillDefaults(job.mutable_spec());
  return job;
}

}  // namespace

JobWatch::JobWatch(const kube::Client* client, Core* core, JobManager* jobs,
                   std::function<void(const kube::Json&)> seen, JobWatchOptions options)
    : options_(std::move(options)),
      core_(*core),
      jobs_(*jobs),
      seen_(std::move(seen)),
      objects_({.parse = [](const kube::Json& object) {
        return Object{object, kube::UidOf(object)};
      }}) {
  objects_.AddHandler([this](const auto& change) {
    if (change.after != nullptr) seen_(change.after->json);
    if (change.before != nullptr) Mark(change.before->uid, change.key);
    if (change.after != nullptr) Mark(change.after->uid, change.key);
  });
  kube::ReflectorOptions reflector;
  reflector.report = options_.report;
  reflector_ = std::make_unique<kube::Reflector>(client, kube::Collection(AdaptDLJobs(), options_.name_space),
                                                 reflector, &objects_);
}

void JobWatch::Mark(const std::string& uid, const kube::ObjectKey& key) {
  MutexLock lock(&mutex_);
  marked_[uid] = key;
}

bool JobWatch::AwaitSynced(const std::stop_token& stop) {
  if (!objects_.AwaitSynced(stop)) return false;
  Step();
  return true;
}

void JobWatch::Step() {
  if (!objects_.synced()) return;
  MarkOrphans();
  std::map<std::string, kube::ObjectKey> marked;
  {
    MutexLock lock(&mutex_);
    marked.swap(marked_);
  }
  for (const auto& [uid, key] : marked) {
    if (!Follow(uid, key)) Mark(uid, key);
  }
}

void JobWatch::MarkOrphans() {
  if (std::exchange(looked_for_orphans_, true)) return;
  for (const std::string& uid : jobs_.JobUids("*")) {
    const std::shared_ptr<const JobEntry> job = core_.index().FindJob(uid);
    if (job != nullptr) Mark(uid, {job->record.job->namespace_(), job->record.job->name()});
  }
}

bool JobWatch::Follow(const std::string& uid, const kube::ObjectKey& key) {
  const auto object = objects_.Find(key);
  if (object == nullptr || object->uid != uid) return Abandon(uid);
  const absl::Status status = Take(*object);
  // A name that is still taken is waited for in silence.
  if (!status.ok() && !absl::IsUnavailable(status)) {
    log::Warning("what an object says can't be taken over; it is tried again",
                 {{"job", key.ToString()}, {"error", status.ToString()}});
  }
  // One that goes by its finalizers is gone for us: nobody is to start anything for it.
  if (status.ok() && kube::IsBeingDeleted(object->json)) return Abandon(uid);
  return status.ok();
}

bool JobWatch::Abandon(const std::string& uid) {
  const absl::StatusOr<bool> gone = jobs_.AbandonJob(uid);
  return gone.ok() && *gone;
}

absl::Status JobWatch::Take(const Object& object) {
  absl::StatusOr<v1::Job> job = kubejobs::JobFromObject(object.json, options_.default_resources);
  if (core_.index().FindJob(object.uid) != nullptr) {
    return job.ok() ? TakeChange(object.uid, *job) : absl::OkStatus();
  }
  if (kube::IsBeingDeleted(object.json)) return absl::OkStatus();
  const absl::StatusOr<absl::Time> created =
      kube::TimeFromText(kube::TextAt(object.json, {"metadata", "creationTimestamp"}));
  const absl::Status valid = job.status();
  return jobs_.AdoptJob(job.ok() ? *std::move(job) : Nameless(object.json),
                        created.ok() ? *created : core_.Now().wall, valid);
}

absl::Status JobWatch::TakeChange(const std::string& uid, const v1::Job& job) {
  return core_.Update([&](Transaction* transaction) {
    const JobEntry* entry = transaction->FindJob(uid);
    if (entry == nullptr || jobs::IsTerminal(entry->record.state.phase)) return absl::OkStatus();
    auto wanted = std::make_shared<v1::Job>(WithUpdateOf(*entry->record.job, job.spec()));
    using google::protobuf::util::MessageDifferencer;
    if (!MessageDifferencer::Equals(wanted->spec(), job.spec())) {
      transaction->AddRepeatedEvent(
          uid,
          {true, "SpecImmutable",
           "the specification was changed where it can't change; what it was at first stays in force", "",
           ""},
          {});
    }
    jobs_.TakeUpdate(transaction, std::move(wanted));
    return absl::OkStatus();
  });
}

}  // namespace adaptdl::supervisor
