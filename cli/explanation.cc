#include "cli/explanation.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "cli/format.h"
#include "cli/pool_table.h"

namespace adaptdl::cli {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<std::string>;

// "3 on n0 (2), n1".
std::string ReplicasText(const Nodes& nodes) {
  std::map<std::string, int> counts;
  for (const std::string& node : nodes) ++counts[node];
  std::vector<std::string> parts;
  parts.reserve(counts.size());
  for (const auto& [node, count] : counts) {
    parts.push_back(count == 1 ? Printable(node) : absl::StrCat(Printable(node), " (", count, ")"));
  }
  return parts.empty() ? "none" : absl::StrCat(nodes.size(), " on ", absl::StrJoin(parts, ", "));
}

bool SameNodes(const Nodes& a, const Nodes& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

bool HasEnded(v1::JobPhase phase) {
  return phase == v1::JOB_PHASE_SUCCEEDED || phase == v1::JOB_PHASE_FAILED ||
         phase == v1::JOB_PHASE_CANCELLED;
}

// What the job itself waits for beyond the decision: room that others still hold, its next attempt after a failure.
bool WaitsBesides(const v1::JobStatus& status) {
  return status.phase() == v1::JOB_PHASE_PENDING && status.message() != status.allocation_reason() &&
         !status.message().empty();
}

// That a job which runs takes no steps, and what helps. Empty: it takes some.
std::string StandstillText(const v1::Job& job) {
  const v1::JobStatus& status = job.status();
  if (!Trains(status.phase()) || status.reason() != kNoSteps) return "";
  return absl::StrCat(Printable(status.message()), " (\"adaptdl logs ", Printable(job.name()),
                      "\" may say why; \"gdb -p\" or \"py-spy dump\" on its node say where)");
}

// The bound of the job's namespace, if there is one.
std::string QuotaText(const v1::Job& job, const v1::ListQuotasResponse& quotas) {
  for (const v1::NamespaceQuota& quota : quotas.quotas()) {
    if (quota.namespace_() != job.namespace_() || quota.gpus() == 0) continue;
    return absl::StrCat("all jobs of namespace ", Printable(job.namespace_()), " together get at most ",
                        quota.gpus(), " GPUs, or replicas without one (\"adaptdl quota ls\")");
  }
  return "";
}

}  // namespace

std::vector<std::string> WhyOf(const v1::Job& job, const v1::GetNodePoolsResponse& pools,
                               const v1::ListQuotasResponse& quotas) {
  const v1::JobStatus& status = job.status();
  std::vector<std::string> lines;
  const auto add = [&](std::string line) {
    if (!line.empty()) lines.push_back(std::move(line));
  };
  if (HasEnded(status.phase())) {
    // Of what went well nobody asks why.
    if (status.phase() != v1::JOB_PHASE_SUCCEEDED) add(Printable(status.message()));
    return lines;
  }
  if (status.cancel_requested()) {
    add("it was cancelled: its replicas are being stopped");
    return lines;
  }
  if (job.spec().suspend()) {
    add(absl::StrCat("it is held: \"adaptdl resume ", Printable(job.name()), "\" lets it go on"));
  }
  if (status.has_retry_time()) {
    add(absl::StrCat("it is tried again at ", FormatSecond(ToTime(status.retry_time())), " UTC, after ",
                     status.failures(), " failures of its own"));
  }
  if (status.allocation_reason().empty() && status.desired_allocation().empty()) {
    add("the allocator has not decided on this job yet (\"adaptdl doctor\" says whether it is there)");
  }
  add(StandstillText(job));
  add(Printable(status.allocation_reason()));
  if (WaitsBesides(status)) add(Printable(status.message()));
  for (const ShortPool& pool : ShortPoolsOf(job, pools)) add(Describe(pool));
  add(QuotaText(job, quotas));
  for (const std::string& sentence : status.allocation_explanation()) add(Printable(sentence));
  return lines;
}

std::string ExplainJob(const v1::Job& job, const v1::GetNodePoolsResponse& pools) {
  const v1::JobStatus& status = job.status();
  std::string text;
  const auto add = [&](absl::string_view name, absl::string_view value) {
    absl::StrAppend(&text, absl::StrFormat("%-11s %s\n", absl::StrCat(name, ":"), Printable(value)));
  };
  add("Job", absl::StrCat(job.namespace_(), "/", job.name()));
  add("Phase", StatusText(status));
  add("Replicas", ReplicasText(status.allocation()));
  if (HasEnded(status.phase())) {
    add("Reason", absl::StrCat("the job has ended and gets no more replicas",
                               status.message().empty() ? "" : ": ", status.message()));
    return text;
  }
  if (!SameNodes(status.allocation(), status.desired_allocation())) {
    add(status.allocation().empty() ? "Gets" : "Moves to", ReplicasText(status.desired_allocation()));
  }
  if (const std::string stands = StandstillText(job); !stands.empty()) add("Stands", stands);
  const auto add_pools = [&] {
    for (const ShortPool& pool : ShortPoolsOf(job, pools)) add("Pools", Describe(pool));
  };
  if (status.allocation_reason().empty() && status.desired_allocation().empty()) {
    add("Reason", "the allocator has not decided on this job yet");
    add_pools();
    return text;
  }
  add("Reason", status.allocation_reason().empty() ? "none was given" : status.allocation_reason());
  if (WaitsBesides(status)) add("Waits", status.message());
  add_pools();
  for (const std::string& sentence : status.allocation_explanation()) {
    absl::StrAppend(&text, "  - ", Printable(sentence), "\n");
  }
  return text;
}

}  // namespace adaptdl::cli
