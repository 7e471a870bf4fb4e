// Answers that are remembered for a while, by a key, and never more than so many of them: a full one forgets those
// that are over, and if that does not help, all. Not thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_IDENTITY_ANSWERS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_IDENTITY_ANSWERS_H_

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/time/time.h"

namespace adaptdl::supervisor {

template <typename Answer>
class Answers {
 public:
  // `lifetime`: how long one counts; `memory`, no shorter: how long it can be recalled.
  Answers(size_t most, absl::Duration lifetime, absl::Duration memory)
      : most_(most), lifetime_(lifetime), memory_(memory) {}

  // Null: there is none that counts.
  const Answer* Find(const std::string& key, absl::Time now) const { return FindWithin(lifetime_, key, now); }
  // Null: there is none, however old.
  const Answer* Recall(const std::string& key, absl::Time now) const { return FindWithin(memory_, key, now); }

  void Keep(const std::string& key, Answer answer, absl::Time now) {
    if (entries_.size() >= most_) {
      std::erase_if(entries_, [&](const auto& entry) { return entry.second.since + memory_ <= now; });
    }
    if (entries_.size() >= most_) entries_.clear();
    entries_.insert_or_assign(key, Entry{std::move(answer), now});
  }

  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Answer answer;
    absl::Time since;
  };

  const Answer* FindWithin(absl::Duration age, const std::string& key, absl::Time now) const {
    const auto found = entries_.find(key);
    return found == entries_.end() || found->second.since + age <= now ? nullptr : &found->second.answer;
  }

  const size_t most_;
  const absl::Duration lifetime_;
  const absl::Duration memory_;
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_IDENTITY_ANSWERS_H_
