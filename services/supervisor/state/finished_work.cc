#include "services/supervisor/state/finished_work.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace adaptdl::supervisor {
namespace {

// Of a kind, the newest so many count: what it took long ago says little.
constexpr int kNewest = 64;
// So many jobs of the very same command say more than all of the program.
constexpr int kEnough = 3;

std::vector<absl::string_view> WordsOf(const v1::ReplicaTemplate& replica) {
  std::vector<absl::string_view> words(replica.command().begin(), replica.command().end());
  words.insert(words.end(), replica.args().begin(), replica.args().end());
  return words;
}

// What the program is told to run. Empty: nothing that can be told from other arguments.
absl::string_view ScriptOf(const std::vector<absl::string_view>& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    if ((words[i] == "-m" || words[i] == "-c") && i + 1 < words.size()) return words[i + 1];
    if (absl::EndsWith(words[i], ".py") || absl::EndsWith(words[i], ".sh")) return words[i];
  }
  return "";
}

// Samples that it took, each step at the initial batch size. nullopt: it has not told, or has not come to its end.
std::optional<double> WorkOf(const JobRecord& record) {
  if (record.state.phase != jobs::Phase::kSucceeded || !record.progress.has_value() ||
      !record.hints.has_value()) {
    return std::nullopt;
  }
  // The last steps before its end may not have been told.
  const double steps =
      std::max(record.progress->scale_invariant_steps(), record.progress->total_scale_invariant_steps());
  const double samples = steps * static_cast<double>(record.hints->init_batch_size());
  return samples > 0 && std::isfinite(samples) ? std::optional<double>(samples) : std::nullopt;
}

}  // namespace

JobKind CommandKind(const v1::Job& job) {
  const v1::ReplicaTemplate& replica = job.spec().template_();
  return absl::HashOf("command", job.namespace_(), replica.image(), WordsOf(replica));
}

JobKind ProgramKind(const v1::Job& job) {
  const v1::ReplicaTemplate& replica = job.spec().template_();
  const std::vector<absl::string_view> words = WordsOf(replica);
  return absl::HashOf("program", job.namespace_(), replica.image(), words.empty() ? "" : words.front(),
                      ScriptOf(words));
}

void FinishedWork::Put(const JobRecord& record) {
  const std::optional<double> work = WorkOf(record);
  if (!work.has_value()) return;
  PutInto(CommandKind(*record.job), record.sequence, *work);
  PutInto(ProgramKind(*record.job), record.sequence, *work);
}

void FinishedWork::Erase(const JobRecord& record) {
  if (record.state.phase != jobs::Phase::kSucceeded) return;
  EraseFrom(CommandKind(*record.job), record.sequence);
  EraseFrom(ProgramKind(*record.job), record.sequence);
}

void FinishedWork::Kind::Count() {
  past = {};
  for (const auto& [sequence, one] : work) past.Add(one);
}

void FinishedWork::PutInto(JobKind name, int64_t sequence, double work) {
  Kind& kind = kinds_[name];
  kind.work[sequence] = work;
  if (kind.work.size() > kNewest) kind.work.erase(kind.work.begin());
  kind.Count();
}

void FinishedWork::EraseFrom(JobKind name, int64_t sequence) {
  const auto found = kinds_.find(name);
  if (found == kinds_.end() || found->second.work.erase(sequence) == 0) return;
  if (found->second.work.empty()) {
    kinds_.erase(found);
    return;
  }
  found->second.Count();
}

std::optional<pastwork::PastWork> FinishedWork::Of(const JobRecord& record) const {
  if (!record.progress.has_value() || record.progress->total_scale_invariant_steps() > 0) return std::nullopt;
  const auto same = kinds_.find(CommandKind(*record.job));
  if (same != kinds_.end() && same->second.past.jobs >= kEnough) return same->second.past;
  const auto similar = kinds_.find(ProgramKind(*record.job));
  if (similar == kinds_.end()) return std::nullopt;
  return similar->second.past;
}

}  // namespace adaptdl::supervisor
