#include "cli/support/checkup.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "cli/format.h"

namespace adaptdl::cli {
namespace {

// Clocks that are farther apart spoil the order of logs, and soon the validity of tokens.
constexpr absl::Duration kMaxSkew = absl::Seconds(5);
// Nodes are heard at least as often, by the supervisor's own setting.
constexpr absl::Duration kLongestSilence = absl::Seconds(60);
// The allocator decides on a new job within seconds.
constexpr absl::Duration kLongestDecision = absl::Minutes(2);
constexpr absl::Duration kLongestReport = absl::Minutes(5);
constexpr int64_t kLittleDisk = int64_t{2} << 30;
constexpr int64_t kNoDisk = int64_t{200} << 20;
// Of names in one line.
constexpr size_t kNamesShown = 5;

Check Well(std::string subject, std::string text) {
  return {Verdict::kOk, std::move(subject), std::move(text)};
}

Check Warning(std::string subject, std::string text, std::string remedy) {
  return {Verdict::kWarning, std::move(subject), std::move(text), std::move(remedy)};
}

Check Failure(std::string subject, std::string text, std::string remedy) {
  return {Verdict::kFailure, std::move(subject), std::move(text), std::move(remedy)};
}

// "n0, n1 and 7 more".
std::string NamesText(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kNamesShown);
  std::string text =
      Printable(absl::StrJoin(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) absl::StrAppend(&text, " and ", names.size() - shown, " more");
  return text;
}

Check CheckAddress(const AddressState& state) {
  const std::string subject = absl::StrCat("supervisor ", Printable(state.address));
  if (!state.connection.ok()) {
    return Failure(
        subject, Printable(state.connection.message()),
        "see that it runs, that the address is right (--supervisor), and that no firewall is between; "
        "\"adaptdl cluster up\" starts one here");
  }
  if (!state.health.ok()) {
    return Failure(
        subject,
        absl::StrCat("a server is there, but it does not say how it is: ",
                     Printable(state.health.status().message())),
        "see that --ca is the file of its authority and --tls-server-name its name; if it runs without "
        "TLS, --insecure");
  }
  if (*state.health != "SERVING") {
    // One of several that does not lead says so.
    return Warning(subject, absl::StrCat("it answers, and is ", Printable(*state.health)),
                   "nothing, if another supervisor leads; else its log says what it waits for");
  }
  return Well(subject, "reachable, and serves");
}

Check CheckIdentity(const ClusterState& state) {
  if (state.identity.ok()) {
    return Well("identity", absl::StrCat("you are ", Printable(state.identity->name()), ", ",
                                         Printable(state.identity->role()), " of namespace ",
                                         Printable(absl::StrJoin(state.identity->namespaces(), ", "))));
  }
  const absl::Status& status = state.identity.status();
  const bool is_token = absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
  return Failure(
      "identity", Printable(status.message()),
      is_token ? "get a token that is valid (--token-file, $ADAPTDL_TOKEN); an administrator makes one by "
                 "\"adaptdl admin token create\""
               : "mend what is said of the supervisor first");
}

// How far the supervisor's clock is from ours at least: it hears some node all the time, which can be neither in our
// future nor long ago.
Check CheckClocks(const ClusterState& state) {
  absl::Time newest = absl::InfinitePast();
  for (const v1::Node& node : state.nodes->nodes()) {
    if (node.status().phase() == v1::NODE_PHASE_LOST || !node.status().has_last_heartbeat()) continue;
    newest = std::max(newest, ToTime(node.status().last_heartbeat()));
  }
  if (newest == absl::InfinitePast())
    return Well("clocks", "no node is heard by whose messages to compare them");
  const std::string remedy = "have both machines ask a time server (systemd-timesyncd, chrony)";
  if (newest - state.now > kMaxSkew) {
    return Warning("clocks",
                   absl::StrCat("the supervisor's is ", DurationText(newest - state.now),
                                " ahead of this machine's, or more"),
                   remedy);
  }
  if (state.now - newest > kLongestSilence) {
    return Warning("clocks",
                   absl::StrCat("this machine's is up to ", DurationText(state.now - newest),
                                " ahead of the supervisor's, or no node is heard any more"),
                   remedy);
  }
  return Well("clocks", "the supervisor's and this machine's agree");
}

Check CheckVersions(const ClusterState& state) {
  std::map<std::string, std::vector<std::string>> others;
  for (const v1::Node& node : state.nodes->nodes()) {
    if (node.version() != state.version && !node.version().empty())
      others[node.version()].push_back(node.node_id());
  }
  if (others.empty())
    return Well("versions", absl::StrCat("this command and all nodes have ", state.version));
  std::vector<std::string> parts;
  parts.reserve(others.size());
  for (const auto& [version, nodes] : others) {
    parts.push_back(absl::StrCat(Printable(version), " (", NamesText(nodes), ")"));
  }
  return Warning(
      "versions",
      absl::StrCat("this command has ", state.version, ", nodes have ", absl::StrJoin(parts, "; ")),
      "upgrade what is older (docs/operations.md)");
}

void CheckNodes(const v1::ListNodesResponse& nodes, std::vector<Check>* checks) {
  std::map<v1::NodePhase, std::vector<std::string>> phases;
  std::set<std::string> pairs;
  std::vector<std::string> troubled;
  std::map<std::string, std::vector<std::string>> without_limits;
  for (const v1::Node& node : nodes.nodes()) {
    if (!node.limits_missing().empty()) without_limits[node.limits_missing()].push_back(node.node_id());
    phases[node.status().phase()].push_back(node.node_id());
    for (const std::string& other : node.status().unreachable_nodes()) {
      pairs.insert(absl::StrCat(std::min(node.node_id(), other), " and ", std::max(node.node_id(), other)));
    }
    for (const std::string& problem : node.problems()) {
      troubled.push_back(absl::StrCat(node.node_id(), ": ", problem));
    }
  }
  const size_t ready = phases[v1::NODE_PHASE_READY].size();
  if (ready == 0) {
    checks->push_back(Failure("nodes", nodes.nodes().empty() ? "there are none" : "none of them is ready",
                              "start workers, or let machines in (\"adaptdl node join\", docs/machines.md)"));
  } else {
    checks->push_back(Well("nodes", absl::StrCat(ready, " of ", nodes.nodes_size(), " are ready")));
  }
  if (const auto& lost = phases[v1::NODE_PHASE_LOST]; !lost.empty()) {
    checks->push_back(
        Warning("nodes", absl::StrCat("lost: ", NamesText(lost)),
                "look at their machines and workers; those that don't come back: \"adaptdl forget NODE\""));
  }
  if (const auto& bad = phases[v1::NODE_PHASE_QUARANTINED]; !bad.empty()) {
    checks->push_back(
        Warning("nodes", absl::StrCat("in quarantine, since several jobs failed there: ", NamesText(bad)),
                "\"adaptdl events\" says what failed on them; they are tried again by themselves"));
  }
  if (!pairs.empty()) {
    const std::vector<std::string> names(pairs.begin(), pairs.end());
    checks->push_back(
        Warning("network", absl::StrCat("replicas on these nodes don't reach each other: ", NamesText(names)),
                "let all ports through between nodes, and see that each one's --replica-host is an address "
                "that the others reach"));
  }
  if (!troubled.empty()) {
    checks->push_back(
        Warning("devices", absl::StrCat("out of use: ", NamesText(troubled)),
                "look at the driver's log on the node (dmesg, nvidia-smi); what works again is used again"));
  } else {
    checks->push_back(Well("devices", "no node says that anything is wrong with its GPUs or their driver"));
  }
  // A machine of one's own may well be without limits.
  for (const auto& [reason, names] : without_limits) {
    checks->push_back(Well("limits", absl::StrCat("replicas are not held to the memory that they ask for on ",
                                                  NamesText(names), ": ", Printable(reason))));
  }
}

void CheckJobs(const ClusterState& state, std::vector<Check>* checks) {
  std::vector<std::string> undecided, unschedulable, failing;
  for (const v1::Job& job : state.jobs->jobs()) {
    const v1::JobStatus& status = job.status();
    const bool waits = status.phase() == v1::JOB_PHASE_PENDING && !job.spec().suspend();
    const bool fits_nowhere = waits && status.reason() == "Unschedulable";
    const bool is_new = state.now - ToTime(status.submit_time()) < kLongestDecision;
    if (waits && !is_new && !fits_nowhere && status.allocation_reason().empty() &&
        status.desired_allocation().empty()) {
      undecided.push_back(job.name());
    }
    if (fits_nowhere) unschedulable.push_back(job.name());
    if (status.failures() > 0) failing.push_back(job.name());
  }
  if (!undecided.empty()) {
    checks->push_back(Failure(
        "allocator",
        absl::StrCat("it has not decided on jobs that were submitted long ago: ", NamesText(undecided)),
        "see that adaptdl-allocator runs, and what its log says; here: \"adaptdl cluster status\""));
  } else {
    checks->push_back(Well("allocator", "no job waits for a decision"));
  }
  if (!unschedulable.empty()) {
    checks->push_back(Warning("jobs", absl::StrCat("no node can hold: ", NamesText(unschedulable)),
                              "\"adaptdl describe JOB\" says what they ask for that no node has"));
  }
  if (!failing.empty()) {
    checks->push_back(Warning("jobs", absl::StrCat("have failed and are tried again: ", NamesText(failing)),
                              "\"adaptdl logs JOB --tail 50\" and \"adaptdl events JOB\" say how"));
  }
}

void CheckPools(const ClusterState& state, std::vector<Check>* checks) {
  if (!state.pools->has_report_time()) {
    checks->push_back(
        Well("autoscaler", "there is none, or it has not reported since the supervisor started"));
    return;
  }
  const absl::Duration age = state.now - ToTime(state.pools->report_time());
  if (age > kLongestReport) {
    checks->push_back(Warning("autoscaler",
                              absl::StrCat("it has reported ", DurationText(age), " ago for the last time"),
                              "see that adaptdl-autoscaler runs, and what its log says"));
  } else {
    checks->push_back(Well("autoscaler", absl::StrCat("it looks after ", state.pools->pools_size(),
                                                      state.pools->pools_size() == 1 ? " pool" : " pools")));
  }
  std::vector<std::string> troubled;
  for (const v1::NodePool& pool : state.pools->pools()) {
    if (!pool.conditions().empty()) {
      troubled.push_back(absl::StrCat(pool.name(), ": ", pool.conditions(0).type()));
    } else if (!pool.last_error().empty()) {
      troubled.push_back(absl::StrCat(pool.name(), ": ", pool.last_error()));
    }
  }
  if (!troubled.empty()) {
    checks->push_back(Warning("pools", NamesText(troubled), "\"adaptdl pools\" says more (docs/pools.md)"));
  }
}

Check CheckDisk(const DiskState& disk) {
  const std::string text = absl::StrCat(FormatBytes(disk.free_bytes), "B of ", FormatBytes(disk.all_bytes),
                                        "B are free at ", Printable(disk.folder));
  const std::string remedy =
      "delete finished jobs with their files (\"adaptdl delete\"), or make room beside them";
  if (disk.free_bytes < kNoDisk) return Failure("disk", text, remedy);
  return disk.free_bytes < kLittleDisk ? Warning("disk", text, remedy) : Well("disk", text);
}

Check Unknown(const std::string& subject, const absl::Status& status) {
  // Not everybody may see everything.
  if (absl::IsPermissionDenied(status)) return Well(subject, "you may not see them");
  return Failure(subject, Printable(status.message()), "mend what is said above first");
}

}  // namespace

std::vector<Check> CheckUp(const ClusterState& state) {
  std::vector<Check> checks;
  for (const AddressState& address : state.addresses) checks.push_back(CheckAddress(address));
  // Of several supervisors one is enough.
  const bool serves =
      std::any_of(checks.begin(), checks.end(), [](const Check& c) { return c.verdict == Verdict::kOk; });
  for (Check& check : checks) {
    if (serves && check.verdict == Verdict::kFailure) check.verdict = Verdict::kWarning;
  }
  for (const std::string& service : state.sick_services) {
    checks.push_back(
        Failure("local cluster", Printable(service), "\"adaptdl cluster up\" starts what is missing"));
  }
  if (state.disk.has_value()) checks.push_back(CheckDisk(*state.disk));
  checks.push_back(CheckIdentity(state));
  if (!state.identity.ok()) return checks;
  if (state.nodes.ok()) {
    checks.push_back(CheckClocks(state));
    checks.push_back(CheckVersions(state));
    CheckNodes(*state.nodes, &checks);
  } else {
    checks.push_back(Unknown("nodes", state.nodes.status()));
  }
  if (state.jobs.ok()) {
    CheckJobs(state, &checks);
  } else {
    checks.push_back(Unknown("jobs", state.jobs.status()));
  }
  if (state.pools.ok()) {
    CheckPools(state, &checks);
  } else {
    checks.push_back(Unknown("pools", state.pools.status()));
  }
  return checks;
}

std::string VerdictText(Verdict verdict) {
  return verdict == Verdict::kOk ? "ok" : verdict == Verdict::kWarning ? "warning" : "FAILURE";
}

Table CheckTable(const std::vector<Check>& checks) {
  Table table = {.headers = {"", "WHAT", "HOW IT IS"}, .rows = {}};
  for (const Check& check : checks) {
    const Colour colour = check.verdict == Verdict::kOk        ? Colour::kGreen
                          : check.verdict == Verdict::kWarning ? Colour::kYellow
                                                               : Colour::kRed;
    table.rows.push_back({{VerdictText(check.verdict), colour}, check.subject, check.text});
  }
  return table;
}

std::string Remedies(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks) {
    if (!check.remedy.empty()) absl::StrAppend(&text, "  ", check.subject, ": ", check.remedy, "\n");
  }
  return text.empty() ? "" : absl::StrCat("\nWhat helps\n", text);
}

Verdict WorstOf(const std::vector<Check>& checks) {
  Verdict worst = Verdict::kOk;
  for (const Check& check : checks) worst = std::max(worst, check.verdict);
  return worst;
}

}  // namespace adaptdl::cli
