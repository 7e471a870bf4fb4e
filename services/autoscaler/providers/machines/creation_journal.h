// What was asked of the cloud and is not known to be there yet, in files: so that a process that is killed at any moment leaves
// nothing behind that the next one doesn't know, and makes nothing twice.
//
//   <folder>/lock          held while somebody uses the folder: there is only one
//   <folder>/<key>.json    a creation
//
//   Write ──▶ unanswered ──1──▶ answered ──2──▶ Close
//                 └─────────────3──────────────────▲
//
//   1. the cloud has said which machines it makes     2. all of them have been seen
//   3. it has refused, or has made none
//
// A creation is written, and synced, before the cloud is called. One that is unanswered is called again, with the same
// parameters: the cloud knows it by its key.
//
// Thread-safety: none.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_MACHINES_CREATION_JOURNAL_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_MACHINES_CREATION_JOURNAL_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/unique_fd.h"

namespace adaptdl::autoscaler {

// What a cloud has made is shown within minutes. What it never shows has failed at its start.
inline constexpr absl::Duration kLongestUnseen = absl::Minutes(10);

struct Creation {
  // Unique; of letters, digits and "-".
  std::string key;
  // Machines that are wanted.
  int count = 0;
  // When it was written first. By the wall clock.
  absl::Time time;
  // Of the call, complete: names and values.
  std::vector<std::pair<std::string, std::string>> parameters = {};
  bool answered = false;
  // Of those that the answer named, the ones that have not been seen yet.
  std::set<std::string> unseen = {};

  friend bool operator==(const Creation&, const Creation&) = default;
};

class CreationJournal {
 public:
  // Creates the folder where it is missing. FAILED_PRECONDITION: another one uses it. DATA_LOSS: it holds what can't be read.
  static absl::StatusOr<std::unique_ptr<CreationJournal>> Open(const std::string& folder);

  // The open ones, by key. References last until the next change.
  const std::map<std::string, Creation>& open() const { return open_; }

  // Durable when it returns. Replaces the one of the same key. After an error it is as before.
  absl::Status Write(const Creation& creation);
  // Idempotent.
  absl::Status Close(const std::string& key);

 private:
  CreationJournal(std::string folder, UniqueFd lock) : folder_(std::move(folder)), lock_(std::move(lock)) {}
  absl::Status Read();
  std::string FileOf(const std::string& key) const;

  const std::string folder_;
  const UniqueFd lock_;
  std::map<std::string, Creation> open_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_MACHINES_CREATION_JOURNAL_H_
