#include "services/supervisor/state/core.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/clock.h"
#include "libs/service/log.h"

namespace adaptdl::supervisor {
namespace {

ReadIndex::Node Describe(const Tables& tables, const std::shared_ptr<const NodeEntry>& node) {
  const NodeUse::Use* use = tables.use.Find(node->id());
  return {node, use == nullptr ? NodeUse::Use() : *use};
}

void Log(const v1::Event& event) {
  log::Info(event.message(), {{"job", absl::StrCat(event.namespace_(), "/", event.job())},
                              {"event", event.reason()},
                              {"group", absl::StrCat(event.group())}});
}

}  // namespace

absl::Status Core::UnavailableUnlessLeading(const absl::Status& status) const {
  if (status.ok() || leads()) return status;
  return absl::UnavailableError(
      absl::StrCat("this supervisor may not lead any more; try again (", status.message(), ")"));
}

void Core::Fill(Tables tables, JobNames unreadable_jobs) {
  unreadable_jobs_ = std::move(unreadable_jobs);
  MutexLock lock(&mutex_);
  tables_ = std::move(tables);
  ReadIndex::Update update;
  update.version = tables_.version;
  for (const auto& [uid, job] : tables_.jobs) update.jobs.push_back(job);
  (void)tables_.use.TakeChanged();
  for (const auto& [id, node] : tables_.nodes) update.nodes.push_back(Describe(tables_, node));
  update.has_quotas = true;
  update.quotas = tables_.quotas;
  index_.Publish(std::move(update));
}

void Core::Publish(const Changes& changes) {
  ReadIndex::Update update;
  update.version = tables_.version;
  for (const auto& [uid, change] : changes.jobs) update.jobs.push_back(tables_.jobs.at(uid));
  for (const auto& [uid, job] : changes.deleted) update.gone_jobs.push_back(uid);
  std::set<std::string> nodes = tables_.use.TakeChanged();
  nodes.insert(changes.nodes.begin(), changes.nodes.end());
  for (const std::string& id : nodes) {
    const auto node = tables_.nodes.find(id);
    if (node == tables_.nodes.end()) {
      update.gone_nodes.push_back(id);
    } else {
      update.nodes.push_back(Describe(tables_, node->second));
    }
  }
  update.has_quotas = changes.quotas;
  if (changes.quotas) update.quotas = tables_.quotas;
  index_.Publish(std::move(update));
}

void Core::Read(absl::FunctionRef<void(const Tables&)> look) const {
  MutexLock lock(&mutex_);
  look(tables_);
}

absl::Status Core::Update(Change change) {
  MutexLock lock(&mutex_);
  Transaction transaction(tables_, Now());
  if (const absl::Status status = change(&transaction); !status.ok()) return status;
  return transaction.changes_nothing() ? absl::OkStatus() : Commit(&transaction);
}

absl::Status Core::Commit(Transaction* transaction) {
  if (transaction->TakeRoomFreed() && follow_up_) follow_up_(transaction);
  std::vector<CommitUnit> units =
      transaction->Finish(parts_.store->atomic_batches() ? UnitOfCommit::kTransaction : UnitOfCommit::kJob);
  if (transaction->texts_mended() > 0) {
    invariants()->Broken("text", "a text that was to be stored is no UTF-8, or far too long; it was mended");
  }
  absl::Status first_error;
  for (CommitUnit& unit : units) {
    if (unit.closes && !first_error.ok()) break;
    const absl::Status status = CommitUnitOf(transaction, std::move(unit));
    first_error.Update(status);
    if (absl::IsUnavailable(status)) break;
  }
  return first_error;
}

absl::Status Core::CommitUnitOf(Transaction* transaction, CommitUnit unit) {
  const absl::Time begin = SteadyNow();
  const absl::Status status = parts_.store->Commit(unit.batch);
  if (Metrics* metrics = metrics_) metrics->ObserveCommit(SteadyNow() - begin, status.ok());
  if (!status.ok()) {
    log::Error("a change could not be stored", {{"error", status.ToString()}});
    return status;
  }
  Changes changes = transaction->Apply(unit, &tables_);
  for (const v1::Event& event : unit.batch.add_events) Log(event);
  if (!unit.batch.empty()) parts_.durability->Committed();
  // Only now: whoever reads it waits until it is durable, as long as the store was told of before.
  Publish(changes);
  parts_.durability->WhenDurable([this, effects = std::move(unit.effects), changes = std::move(changes)] {
    if (run_effects_) run_effects_(effects);
    parts_.hub->Notify(changes);
  });
  return status;
}

absl::StatusOr<std::optional<RequestRecord>> Core::FindAnswer(const RequestKey& key, absl::Time now) const {
  using Found = absl::StatusOr<std::optional<RequestRecord>>;
  const auto fresh = [&](const Found& found) {
    return found.ok() && found->has_value() && now - (*found)->time < request_lifetime_;
  };
  Found found = parts_.store->FindRequest(key.caller, key.name_space, key.request_id);
  if (!found.ok()) return found;
  if (fresh(found) && !(*found)->key.content.empty()) {
    const RequestKey& known = (*found)->key;
    if (known.method == key.method && known.content == key.content) return found;
    return absl::InvalidArgumentError(absl::StrCat("request_id: \"", key.request_id, "\" was used for ",
                                                   known.method == key.method ? "another content of " : "",
                                                   known.method, "; choose a new one for every call"));
  }
  // A call that an older version has answered.
  if (!fresh(found)) found = parts_.store->FindRequest("", "", key.request_id);
  if (!found.ok()) return found;
  const bool ours = fresh(found) && (*found)->key.content.empty() && (*found)->key.method == key.method;
  return ours ? found : std::optional<RequestRecord>();
}

}  // namespace adaptdl::supervisor
