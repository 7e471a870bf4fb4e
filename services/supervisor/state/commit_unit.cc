#include "services/supervisor/state/commit_unit.h"

#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace adaptdl::supervisor {
namespace {

template <typename Value>
void Append(std::vector<Value> from, std::vector<Value>* to) {
  to->insert(to->end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

void Append(Effects from, Effects* to) {
  Append(std::move(from.fenced), &to->fenced);
  Append(std::move(from.ended_sessions), &to->ended_sessions);
  Append(std::move(from.launches), &to->launches);
  Append(std::move(from.stops), &to->stops);
  Append(std::move(from.commands), &to->commands);
  Append(std::move(from.acknowledgements), &to->acknowledgements);
  Append(std::move(from.deletions), &to->deletions);
  Append(std::move(from.restarts), &to->restarts);
  Append(std::move(from.rescale_phases), &to->rescale_phases);
  Append(std::move(from.reports), &to->reports);
}

void Append(CostChanges from, CostChanges* to) {
  Append(std::move(from.put_rows), &to->put_rows);
  Append(std::move(from.delete_hours), &to->delete_hours);
  Append(std::move(from.delete_totals), &to->delete_totals);
  if (from.nodes.has_value()) to->nodes = std::move(from.nodes);
  if (!from.currency.empty()) to->currency = std::move(from.currency);
}

void Append(WriteBatch from, WriteBatch* to) {
  Append(std::move(from.put_jobs), &to->put_jobs);
  Append(std::move(from.put_replicas), &to->put_replicas);
  Append(std::move(from.put_nodes), &to->put_nodes);
  Append(std::move(from.add_events), &to->add_events);
  Append(std::move(from.remove_events), &to->remove_events);
  if (from.put_request.has_value()) to->put_request = std::move(from.put_request);
  Append(std::move(from.add_deletions), &to->add_deletions);
  Append(std::move(from.delete_jobs), &to->delete_jobs);
  Append(std::move(from.delete_nodes), &to->delete_nodes);
  Append(std::move(from.finish_deletions), &to->finish_deletions);
  Append(std::move(from.remove_deletions), &to->remove_deletions);
  Append(std::move(from.put_quotas), &to->put_quotas);
  Append(std::move(from.delete_quotas), &to->delete_quotas);
  Append(std::move(from.costs), &to->costs);
  Append(std::move(from.put_joins), &to->put_joins);
  Append(std::move(from.delete_joins), &to->delete_joins);
}

}  // namespace

void CommitUnit::Merge(CommitUnit other) {
  Append(std::move(other.jobs), &jobs);
  others = others || other.others;
  Append(std::move(other.batch), &batch);
  Append(std::move(other.effects), &effects);
  scheduling_changed = scheduling_changed || other.scheduling_changed;
}

}  // namespace adaptdl::supervisor
