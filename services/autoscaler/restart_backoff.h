// When to start again a node that died: at once, unless it dies at once; then after 1, 2, 4, ... times the
// first delay.
//
// Pure. Thread-safety: none.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_RESTART_BACKOFF_H_
#define ADAPTDL_SERVICES_AUTOSCALER_RESTART_BACKOFF_H_

#include <map>
#include <set>
#include <string>

#include "absl/time/time.h"

namespace adaptdl::autoscaler {

struct RestartBackoffOptions {
  // A node that lived for less "dies at once".
  absl::Duration stable = absl::Seconds(10);
  absl::Duration first_delay = absl::Seconds(1);
  absl::Duration max_delay = absl::Seconds(60);
};

class RestartBackoff {
 public:
  explicit RestartBackoff(const RestartBackoffOptions& options) : options_(options) {}

  // The node was started, or it was tried.
  void Started(const std::string& node_id, absl::Time now);

  // The node is dead. Returns when to start it again: `now` or earlier means now.
  absl::Time NextStart(const std::string& node_id, absl::Time now);

  // How often in a row it died at once.
  int Failures(const std::string& node_id) const;

  // Forgets all nodes but these.
  void KeepOnly(const std::set<std::string>& node_ids);

 private:
  struct Entry {
    absl::Time started;
    int failures = 0;
    // When to start it again, once its death was noticed.
    absl::Time next;
    bool dead = false;
  };

  const RestartBackoffOptions options_;
  std::map<std::string, Entry> entries_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_RESTART_BACKOFF_H_
