// When pools that had no capacity are asked again: after a pause that doubles with each refusal, up to a longest one. A
// pool that gives nodes is trusted at once.
//
// Not thread-safe.

#ifndef ADAPTDL_LIBS_NODEPOOLS_REFUSALS_H_
#define ADAPTDL_LIBS_NODEPOOLS_REFUSALS_H_

#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace adaptdl::nodepools {

struct RefusalOptions {
  absl::Duration first_pause = absl::Seconds(30);
  absl::Duration longest_pause = absl::Minutes(3);
};

class Refusals {
 public:
  explicit Refusals(const RefusalOptions& options) : options_(options) {}

  // `why`: for people.
  void Refused(const std::string& pool, const std::string& why, absl::Time now);
  void Gave(const std::string& pool) { refusals_.erase(pool); }

  struct Refusal {
    std::string why;
    // The first of those in a row.
    absl::Time since;
    // When the pool is asked again.
    absl::Time until;
  };
  // Absent: the pool refused nothing, since it last gave.
  std::optional<Refusal> Of(const std::string& pool) const;

 private:
  struct Entry {
    Refusal refusal;
    absl::Duration pause;
  };

  const RefusalOptions options_;
  std::map<std::string, Entry> refusals_;
};

}  // namespace adaptdl::nodepools

#endif  // ADAPTDL_LIBS_NODEPOOLS_REFUSALS_H_
