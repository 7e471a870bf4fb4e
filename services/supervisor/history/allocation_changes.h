// When a job has had how many replicas: a bounded list. Of a longer one, short-lived changes of long ago are left out.
//
// A plain value; thread-safe as such.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_HISTORY_ALLOCATION_CHANGES_H_
#define ADAPTDL_SERVICES_SUPERVISOR_HISTORY_ALLOCATION_CHANGES_H_

#include <cstddef>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/v1/event.pb.h"
#include "adaptdl/v1/history_service.pb.h"
#include "adaptdl/v1/job.pb.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace adaptdl::supervisor {

// What a job has from a time on.
struct Allocation {
  int replicas = 0;
  // Of how many nodes.
  int nodes = 0;
  v1::JobPhase phase = v1::JOB_PHASE_UNSPECIFIED;

  bool operator==(const Allocation&) const = default;
};

class AllocationChanges {
 public:
  static constexpr size_t kMost = 512;
  struct Change {
    absl::Time time;
    Allocation allocation;
  };

  // Whether that differs from the last one. Its time counts as no earlier than that of the last one.
  bool Add(absl::Time time, const Allocation& allocation);
  // Puts what was there before in front.
  void Precede(const AllocationChanges& earlier);
  // Leaves out more.
  void Limit(size_t most);

  const std::vector<Change>& all() const { return changes_; }
  bool empty() const { return changes_.empty(); }
  size_t size() const { return changes_.size(); }
  const Change& last() const { return changes_.back(); }

 private:
  std::vector<Change> changes_;
};

using ChangeMessages = google::protobuf::RepeatedPtrField<v1::AllocationChange>;
void Put(const AllocationChanges& changes, ChangeMessages* messages);
AllocationChanges FromMessages(const ChangeMessages& messages);
// As a job's events tell them, which know neither nodes nor phases: of jobs that nobody kept a history of.
AllocationChanges FromEvents(const std::vector<v1::Event>& events);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_HISTORY_ALLOCATION_CHANGES_H_
