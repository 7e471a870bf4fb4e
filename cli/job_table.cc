#include "cli/job_table.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "cli/format.h"
#include "cli/job_order.h"
#include "cli/pool_table.h"
#include "libs/jobspec/placement.h"

namespace adaptdl::cli {
namespace {

// Names the pool of a node.
constexpr char kPoolLabel[] = "adaptdl.petuum.com/pool";

// Whether there is something about the node that its pool says.
bool CostsOrGoes(const v1::Node& node) { return node.preemptible() || node.status().has_price_per_hour(); }

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

Cell NodeStatus(const v1::Node& node) {
  const v1::NodeStatus& status = node.status();
  std::string text = EnumText(v1::NodePhase_Name(status.phase()), "NODE_PHASE_");
  if (status.phase() == v1::NODE_PHASE_QUARANTINED) {
    absl::StrAppend(&text, " until ", FormatMinute(ToTime(status.quarantine_end_time())));
  }
  switch (status.phase()) {
    case v1::NODE_PHASE_READY:
      if (!node.problems().empty()) return {absl::StrCat(text, " (problems)"), Colour::kYellow};
      return {text, Colour::kGreen};
    case v1::NODE_PHASE_LOST:
    case v1::NODE_PHASE_QUARANTINED:
      return {text, Colour::kRed};
    default:
      return {text, Colour::kYellow};
  }
}

std::string LabelsAndTaints(const v1::Node& node) {
  // Protobuf's maps have no order of their own.
  std::vector<std::string> parts;
  for (const auto& [key, value] : node.labels()) parts.push_back(Printable(absl::StrCat(key, "=", value)));
  std::sort(parts.begin(), parts.end());
  for (const v1::Taint& taint : node.taints()) parts.push_back(Printable(jobspec::Describe(taint)));
  return OrDash(absl::StrJoin(parts, ","));
}

std::string PartText(int64_t part, int64_t whole) {
  return whole > 0 ? absl::StrCat(FormatBytes(part), "/", FormatBytes(whole)) : "-";
}

// What its machine says of itself; of several GPUs the mean, the sum and the hottest.
void AddUseCells(const v1::NodeStatus& status, std::vector<Cell>* row) {
  const v1::MachineUse& use = status.use();
  double busy = 0, celsius = 0;
  int64_t memory = 0, memory_total = 0;
  for (const v1::GpuUse& gpu : use.gpus()) {
    busy += gpu.utilization();
    memory += gpu.memory_bytes();
    memory_total += gpu.memory_total_bytes();
    celsius = std::max(celsius, gpu.temperature_celsius());
  }
  row->push_back(status.has_use() ? absl::StrFormat("%.1f", use.cpus()) : "-");
  row->push_back(PartText(use.memory_bytes(), use.memory_total_bytes()));
  row->push_back(use.gpus().empty() ? "-" : absl::StrFormat("%.0f%%", busy / use.gpus_size() * 100));
  row->push_back(PartText(memory, memory_total));
  row->push_back(celsius > 0 ? absl::StrFormat("%.0f °C", celsius) : "-");
}

// "n0 n1(2)": nodes in order of their names, with how many replicas.
std::string NodesText(const v1::JobStatus& status) {
  std::map<std::string, int> counts;
  for (const std::string& node : status.allocation()) ++counts[node];
  std::vector<std::string> parts;
  for (const auto& [node, count] : counts) {
    parts.push_back(absl::StrCat(Printable(node), count == 1 ? "" : absl::StrCat("(", count, ")")));
  }
  return OrDash(absl::StrJoin(parts, " "));
}

void AddWideCells(const v1::Job& job, std::vector<Cell>* row) {
  const v1::JobStatus& status = job.status();
  const v1::TrainingProgress& progress = status.progress();
  row->push_back(DoneText(status));
  row->push_back(progress.total_batch_size() > 0 ? absl::StrCat(progress.total_batch_size()) : "-");
  row->push_back(FigureText(progress.throughput()));
  row->push_back(FigureText(GoodputOf(status)));
  row->push_back(LossCell(status));
  row->push_back(absl::StrCat(job.spec().priority()));
  row->push_back(status.has_cost() ? MoneyText(status.cost(), "") : "-");
  row->push_back(NodesText(status));
}

Cell ReplicaState(const v1::Replica& replica) {
  const std::string state = EnumText(v1::ReplicaState_Name(replica.state()), "REPLICA_STATE_");
  switch (replica.state()) {
    case v1::REPLICA_STATE_RUNNING:
      return {replica.joined() ? absl::StrCat(state, " (joined)") : state, Colour::kGreen};
    case v1::REPLICA_STATE_EXITED:
      if (replica.signal() != 0)
        return {absl::StrCat(state, " (signal ", replica.signal(), ")"), Colour::kRed};
      return {absl::StrCat(state, " (code ", replica.exit_code(), ")"),
              replica.exit_code() == 0 ? Colour::kGreen : Colour::kRed};
    case v1::REPLICA_STATE_LOST:
      return {state, Colour::kRed};
    default:
      return {state, Colour::kYellow};
  }
}

}  // namespace

Table JobTable(const v1::ListJobsResponse& jobs, JobTableOptions options, absl::Time now) {
  Table table;
  const auto add = [&](const char* header, ColumnRule rule = {}) {
    table.headers.push_back(header);
    table.rules.push_back(rule);
  };
  // Of a narrow line, the name, the status and the replicas are left.
  if (options.with_namespace) add("NAMESPACE", {.least_width = 9, .goes = 1});
  add("NAME", {.least_width = 10});
  add("STATUS", {.least_width = 10});
  add("START(UTC)", {.goes = 4});
  add("RUNTIME", {.goes = 2});
  add("REPLICAS");
  add("RESTARTS", {.goes = 5});
  add("ETA", {.goes = 3});
  if (options.wide) {
    add("DONE", {.goes = 6});
    add("BATCH", {.goes = 8});
    add("SAMPLES/S", {.goes = 10});
    add("GOODPUT", {.goes = 7});
    add("LOSS", {.goes = 9});
    add("PRIORITY", {.goes = 13});
    add("COST", {.goes = 11});
    add("NODES", {.least_width = 12, .goes = 12});
  }
  for (const v1::Job& job : jobs.jobs()) {
    const v1::JobStatus& status = job.status();
    std::vector<Cell> row;
    if (options.with_namespace) row.push_back(Printable(job.namespace_()));
    row.push_back(Printable(job.name()));
    row.push_back({StatusText(status), StatusColour(status)});
    row.push_back(status.has_start_time() ? FormatMinute(ToTime(status.start_time())) : "-");
    row.push_back(RuntimeText(status, now));
    row.push_back(absl::StrCat(status.allocation_size()));
    row.push_back(RestartsCell(status));
    row.push_back(EtaText(status, now));
    if (options.wide) AddWideCells(job, &row);
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table NodeTable(const v1::ListNodesResponse& nodes, bool wide, absl::Time now) {
  Table table;
  table.headers = {"NAME", "STATUS", "REPLICAS", "CPU", "MEMORY", "GPUS", "AGE"};
  const bool with_pools = std::any_of(nodes.nodes().begin(), nodes.nodes().end(), CostsOrGoes);
  if (with_pools) table.headers.insert(table.headers.end(), {"POOL", "SPOT", "PRICE/H"});
  if (wide)
    table.headers.insert(table.headers.end(),
                         {"CPU BUSY", "MEMORY IN USE", "GPU BUSY", "GPU MEMORY", "HOTTEST GPU"});
  table.headers.push_back("LABELS, TAINTS");
  for (const v1::Node& node : nodes.nodes()) {
    const v1::NodeStatus& status = node.status();
    const v1::Resources& used = status.allocated();
    const v1::Resources& offered = node.capacity();
    const std::string gpu_type = node.gpu_type().empty() ? "" : absl::StrCat(" ", Printable(node.gpu_type()));
    std::vector<Cell> row = {
        Printable(node.node_id()),
        NodeStatus(node),
        absl::StrCat(status.replicas()),
        absl::StrCat(FormatCores(used.cpu_millis()), "/", FormatCores(offered.cpu_millis())),
        absl::StrCat(FormatBytes(used.memory_bytes()), "/", FormatBytes(offered.memory_bytes())),
        absl::StrCat(used.gpus(), "/", offered.gpus(), gpu_type),
        status.has_register_time() ? DurationText(now - ToTime(status.register_time())) : "-"};
    if (with_pools) {
      const auto pool = node.labels().find(kPoolLabel);
      row.push_back(pool == node.labels().end() ? "-" : OrDash(Printable(pool->second)));
      row.push_back(node.preemptible() ? "yes" : "no");
      row.push_back(status.has_price_per_hour() ? MoneyText(status.price_per_hour(), "") : "-");
    }
    if (wide) AddUseCells(status, &row);
    row.push_back(LabelsAndTaints(node));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string NodeProblems(const v1::ListNodesResponse& nodes) {
  std::string lines;
  for (const v1::Node& node : nodes.nodes()) {
    for (const std::string& problem : node.problems()) {
      absl::StrAppend(&lines, Printable(node.node_id()), ": ", Printable(problem), "\n");
    }
  }
  return lines.empty() ? "" : absl::StrCat("\n", lines);
}

Table ReplicaTable(const v1::JobStatus& status) {
  Table table;
  table.headers = {"RANK", "NODE", "STATE", "STARTED(UTC)", "REPLICA", "MESSAGE"};
  for (const v1::Replica& replica : status.replicas()) {
    table.rows.push_back({absl::StrCat(replica.rank()), Printable(replica.node_id()), ReplicaState(replica),
                          replica.has_start_time() ? FormatSecond(ToTime(replica.start_time())) : "-",
                          Printable(replica.replica_id()), OrDash(Printable(replica.message()))});
  }
  return table;
}

Table EventTable(const v1::ListEventsResponse& events, bool with_job) {
  Table table;
  table.headers = {"TIME(UTC)", "TYPE", "REASON"};
  if (with_job) table.headers.push_back("JOB");
  table.headers.push_back("GROUP");
  table.headers.push_back("MESSAGE");
  for (const v1::Event& event : events.events()) {
    const bool warning = event.type() == v1::EVENT_TYPE_WARNING;
    std::vector<Cell> row = {FormatSecond(ToTime(event.time())),
                             {warning ? "Warning" : "Normal", warning ? Colour::kYellow : Colour::kNone},
                             Printable(event.reason())};
    if (with_job) row.push_back(Printable(event.job()));
    row.push_back(event.group() == 0 ? "-" : absl::StrCat(event.group()));
    std::string message = Printable(event.message());
    if (event.count() > 1) {
      const absl::Time first = ToTime(event.has_first_time() ? event.first_time() : event.time());
      absl::StrAppend(&message, " (", event.count(), " times since ", FormatSecond(first), ")");
    }
    row.push_back(std::move(message));
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace adaptdl::cli
