// Who leads: of all supervisors of one state, one does at a time.
//
// Each leadership has a term, larger than all before it. Whoever is told something by a leader compares
// terms, and refuses a smaller one than it has seen. All implementations are thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_LEASE_LEADER_LEASE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_LEASE_LEADER_LEASE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace adaptdl::supervisor {

class LeaderLease {
 public:
  virtual ~LeaderLease() = default;

  // The term of the leadership of now.
  virtual int64_t term() const = 0;

  // Whether nobody else can have begun to lead up to now. What was done before it said yes, a later leader
  // sees.
  virtual bool Valid() const = 0;

  // Waits until Valid(). DEADLINE_EXCEEDED: it could not be renewed in time.
  virtual absl::Status AwaitValid(absl::Duration timeout) = 0;

  // The leader can't go on, for `why`. Ends the process, except in tests.
  virtual void GiveUp(const std::string& why) = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_LEASE_LEADER_LEASE_H_
