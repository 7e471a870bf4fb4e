// Tells streams that something has changed. Changes are collected and delivered by a thread of the hub's own,
// so that whoever causes a change neither waits for the readers nor calls them with a lock held; what comes
// while a delivery goes on is delivered together.
//
// Listeners are held weakly. Those that are gone are dropped with the next change that they would have heard
// of, or when there are as many of them as others: of a job that has finished, nothing changes any more.
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_CHANGE_HUB_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_CHANGE_HUB_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "adaptdl/v1/job.pb.h"
#include "libs/base/mutex.h"

namespace adaptdl::supervisor {

struct JobChange {
  std::string name_space;
  // Whether those who follow this job alone are to look at it again.
  bool for_followers = true;
};

struct Changes {
  // The jobs that changed, by uid.
  std::map<std::string, JobChange> jobs;
  // Jobs that were deleted, as they were last, by uid.
  std::map<std::string, v1::Job> deleted;
  // The nodes that changed or are gone, and whether quotas did.
  std::set<std::string> nodes;
  bool quotas = false;
  // Whether the allocator's snapshot looks different, and the version that it then has; 0: the one that it
  // had.
  bool cluster = false;
  int64_t version = 0;

  bool empty() const { return jobs.empty() && deleted.empty() && !cluster; }
  void Merge(const Changes& other);
};

// Of changes, what the allocator's snapshot is made of.
struct ClusterNews {
  std::set<std::string> jobs;   // uids; also of those that were deleted
  std::set<std::string> nodes;  // ids
  bool quotas = false;
  int64_t version = 0;

  void Add(const Changes& changes);
};

class ChangeListener {
 public:
  virtual ~ChangeListener() = default;
  // Called by the hub's thread, with no lock held.
  virtual void OnChanges(const Changes& changes) = 0;
};

class ChangeHub {
 public:
  ChangeHub();
  ~ChangeHub();

  // Every change.
  void Subscribe(std::weak_ptr<ChangeListener> listener);
  // Changes of one job only that are for those who follow it.
  void SubscribeToJob(const std::string& job_uid, std::weak_ptr<ChangeListener> listener);

  void Notify(const Changes& changes);

  // Listeners that are held, dead or alive.
  size_t size() const;

 private:
  using Listeners = std::list<std::weak_ptr<ChangeListener>>;
  static constexpr size_t kFewestSwept = 64;

  void Run();
  void Deliver(const Changes& changes);
  // Counts a new listener, and forgets the dead when there are many.
  void Grown() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those of one job.
  void CollectFollowers(const std::string& uid, std::list<std::shared_ptr<ChangeListener>>* living)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The living listeners; forgets the dead.
  static void Collect(Listeners* listeners, std::list<std::shared_ptr<ChangeListener>>* living);

  mutable Mutex mutex_;
  CondVar wake_;
  Changes pending_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Listeners all_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Listeners> by_job_ ABSL_GUARDED_BY(mutex_);
  // At least as many as there are listeners, and at how many they are swept.
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = kFewestSwept;
  std::thread thread_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_CHANGE_HUB_H_
