#include "cli/top/frame.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/job_order.h"
#include "cli/table.h"

namespace adaptdl::cli {
namespace {

// Heading, jobs, nodes, what is chosen or wrong; the columns' names; the keys.
constexpr int kLinesAbove = 5;
constexpr int kLinesBelow = 1;
// Data that is older than this is said to be.
constexpr absl::Duration kStale = absl::Seconds(10);

constexpr absl::string_view kHelp[] = {
    "Up, Down, j, k    choose a job, or scroll",
    "PgUp, PgDn        the same by a page",
    "Home, End         the first, the last",
    "Enter             all about the job",
    "Esc               back; no filter any more",
    "s                 sort by something else",
    "r                 the other way round",
    "/                 filter by name or status",
    "a                 ended jobs, too",
    "p                 hold still, and go on",
    "h                 this",
    "q                 quit",
    "",
    "GOODPUT: samples per second, each as far as it brings the training on",
    "BATCH: samples of a step of all replicas; LOSS: as the program says",
};

std::string Inverse(absl::string_view text) { return absl::StrCat("\x1b[7m", text, "\x1b[0m"); }

std::string Cut(absl::string_view text, int width) {
  return width > 0 ? Shortened(text, width) : std::string(text);
}

// Left and right in one line, of which the left one counts more.
std::string Sides(const std::string& left, const std::string& right, int width) {
  if (width <= 0) return absl::StrCat(left, "  ", right);
  const int gap = width - DisplayWidth(left) - DisplayWidth(right);
  return gap < 2 ? Shortened(left, width) : absl::StrCat(left, std::string(gap, ' '), right);
}

std::string JobsLine(const TopData& data) {
  int running = 0, waiting = 0, changing = 0, finished = 0, replicas = 0;
  for (const v1::Job& job : data.jobs.jobs()) {
    replicas += job.status().allocation_size();
    switch (job.status().phase()) {
      case v1::JOB_PHASE_RUNNING:
        ++running;
        break;
      case v1::JOB_PHASE_PENDING:
        ++waiting;
        break;
      default:
        ++(IsFinished(job.status().phase()) ? finished : changing);
    }
  }
  std::string text = absl::StrCat("Jobs: ", running, " running, ", waiting, " waiting");
  if (changing > 0) absl::StrAppend(&text, ", ", changing, " changing");
  if (finished > 0) absl::StrAppend(&text, ", ", finished, " ended");
  return absl::StrCat(text, "; ", replicas, replicas == 1 ? " replica" : " replicas");
}

std::string NodesLine(const TopData& data) {
  int ready = 0;
  int64_t gpus = 0, gpus_used = 0, cpus = 0, cpus_used = 0, memory = 0, memory_used = 0;
  double busy = 0, gpu_busy = 0;
  int reported = 0, gpus_reported = 0;
  int64_t reported_cpus = 0;
  for (const v1::Node& node : data.nodes.nodes()) {
    if (node.status().phase() == v1::NODE_PHASE_LOST) continue;
    ready += node.status().phase() == v1::NODE_PHASE_READY ? 1 : 0;
    gpus += node.capacity().gpus();
    gpus_used += node.status().allocated().gpus();
    cpus += node.capacity().cpu_millis();
    cpus_used += node.status().allocated().cpu_millis();
    if (!node.status().has_use()) continue;
    const v1::MachineUse& use = node.status().use();
    ++reported;
    busy += use.cpus();
    reported_cpus += node.capacity().cpu_millis();
    memory += use.memory_total_bytes();
    memory_used += use.memory_bytes();
    for (const v1::GpuUse& gpu : use.gpus()) gpu_busy += gpu.utilization();
    gpus_reported += use.gpus_size();
  }
  std::vector<std::string> parts;
  const int others = data.nodes.nodes_size() - ready;
  parts.push_back(
      absl::StrCat("Nodes: ", ready, " ready", others > 0 ? absl::StrCat(", ", others, " not") : ""));
  if (gpus > 0) parts.push_back(absl::StrCat("GPUs ", gpus_used, "/", gpus));
  parts.push_back(absl::StrCat("CPUs ", FormatCores(cpus_used), "/", FormatCores(cpus)));
  if (gpus_reported > 0) {
    parts.push_back(absl::StrFormat("GPU use %.0f%%", gpu_busy / gpus_reported * 100));
  }
  if (reported > 0 && reported_cpus > 0) {
    parts.push_back(
        absl::StrFormat("CPU use %.0f%%", busy * 1000 / static_cast<double>(reported_cpus) * 100));
  }
  if (memory > 0)
    parts.push_back(absl::StrCat("memory ", FormatBytes(memory_used), "/", FormatBytes(memory)));
  return absl::StrJoin(parts, "; ");
}

// What is wrong, or what was chosen.
std::string NoticeLine(const TopData& data, const TopView& view, size_t shown) {
  if (view.is_typing) return absl::StrCat("Filter: ", Printable(view.filter), "_");
  if (!data.was_heard && data.problem.empty()) return "Asking the supervisor ...";
  if (!data.problem.empty() || data.now - data.heard > kStale) {
    return absl::StrCat("As of ", DurationText(data.now - data.heard), " ago",
                        data.problem.empty() ? "" : ": ", Printable(data.problem));
  }
  if (view.filter.empty()) return "";
  return absl::StrCat("Filter: ", Printable(view.filter), " (", shown, " of ", data.jobs.jobs_size(),
                      " jobs)");
}

Table JobsTable(const std::vector<const v1::Job*>& shown, bool with_namespace, absl::Time now) {
  Table table;
  const auto add = [&](const char* header, ColumnRule rule = {}) {
    table.headers.push_back(header);
    table.rules.push_back(rule);
  };
  if (with_namespace) add("NAMESPACE", {.least_width = 7, .goes = 6});
  add("NAME", {.least_width = 8});
  add("STATUS", {.least_width = 9});
  add("REPLICAS", {.goes = 1});
  add("DONE", {.goes = 2});
  add("ETA", {.goes = 3});
  add("GOODPUT", {.goes = 4});
  add("SAMPLES/S", {.goes = 9});
  add("BATCH", {.goes = 5});
  add("LOSS", {.goes = 7});
  add("RUNTIME", {.goes = 8});
  add("RESTARTS", {.goes = 10});
  for (const v1::Job* job : shown) {
    const v1::JobStatus& status = job->status();
    const int64_t batch = status.progress().total_batch_size();
    std::vector<Cell> row;
    if (with_namespace) row.push_back(Printable(job->namespace_()));
    row.insert(row.end(), {Printable(job->name()),
                           {StatusText(status), StatusColour(status)},
                           absl::StrCat(status.allocation_size()),
                           DoneText(status),
                           EtaText(status, now),
                           FigureText(GoodputOf(status)),
                           FigureText(status.progress().throughput()),
                           batch > 0 ? absl::StrCat(batch) : "-",
                           LossCell(status),
                           RuntimeText(status, now),
                           RestartsCell(status)});
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<std::string> LinesOf(absl::string_view text) {
  return absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
}

// The part of `lines` that is seen.
void AppendPage(const std::vector<std::string>& lines, int first, int page, std::vector<std::string>* out) {
  const int count = static_cast<int>(lines.size());
  const int begin = page <= 0 ? 0 : std::clamp(first, 0, std::max(0, count - page));
  const int end = page <= 0 ? count : std::min(count, begin + page);
  out->insert(out->end(), lines.begin() + begin, lines.begin() + end);
}

void AppendJobs(const TopData& data, const TopView& view, const std::vector<const v1::Job*>& shown,
                const TopSize& size, bool colours, std::vector<std::string>* out) {
  const auto& jobs = data.jobs.jobs();
  const bool with_namespace = std::any_of(jobs.begin(), jobs.end(), [&](const v1::Job& job) {
    return job.namespace_() != jobs.begin()->namespace_();
  });
  const Table table = JobsTable(shown, with_namespace, data.now);
  std::vector<std::string> lines = LinesOf(Render(table, colours, size.width));
  for (std::string& line : lines) {
    if (!colours) line = Cut(line, size.width);
  }
  const std::string header = lines.front();
  lines.erase(lines.begin());
  if (lines.empty()) lines.push_back(!data.was_heard ? "" : view.filter.empty() ? "no jobs" : "no such jobs");
  const int selected = SelectedRow(shown, view);
  if (colours && !shown.empty()) {
    const std::vector<std::string> plain = LinesOf(Render(table, false, size.width));
    lines[selected] = Inverse(size.width > 0 ? Fitted(plain[selected + 1], size.width) : plain[selected + 1]);
  }
  out->push_back(header);
  const int page = PageOf(size);
  AppendPage(lines, page <= 0 ? 0 : selected - page / 2, page, out);
}

void AppendJob(const TopData& data, const TopView& view, const std::vector<const v1::Job*>& shown,
               const TopSize& size, std::vector<std::string>* out) {
  const v1::Job* job = nullptr;
  for (const v1::Job* candidate : shown) {
    if (NameOf(*candidate) == view.selected) job = candidate;
  }
  out->push_back(Cut(absl::StrCat("Job ", Printable(view.selected)), size.width));
  if (job == nullptr) {
    out->push_back("It is not there any more.");
    return;
  }
  std::vector<std::string> lines;
  for (const std::string& line : LinesOf(DescribeJob(*job, data.around, data.now, /*colours=*/false))) {
    lines.push_back(Cut(line, size.width));
  }
  AppendPage(lines, view.scroll, PageOf(size), out);
}

std::string KeysLine(const TopView& view) {
  if (view.pane != TopPane::kJobs) return "Esc back  Up/Down scroll  p pause  h help  q quit";
  return absl::StrCat("q quit  Enter details  s sort (", view.sort, view.reverse ? ", reversed" : "",
                      ")  r reverse  / filter  a ", view.finished_too ? "unfinished only" : "all",
                      "  p pause  h help");
}

}  // namespace

int PageOf(const TopSize& size) {
  return size.height <= 0 ? 0 : std::max(1, size.height - kLinesAbove - kLinesBelow);
}

std::vector<std::string> TopFrame(const TopData& data, const TopView& view, const TopSize& size,
                                  bool colours) {
  const int width = size.width;
  const std::vector<const v1::Job*> shown = ShownJobs(data.jobs, view, data.now);
  std::vector<std::string> lines;
  const std::string right = absl::StrCat(view.paused ? "paused  " : "",
                                         absl::FormatTime("%H:%M:%S UTC", data.now, absl::UTCTimeZone()));
  std::string heading = Sides(absl::StrCat("adaptdl top  ", Printable(data.supervisor)), right, width);
  lines.push_back(colours ? Coloured(heading, Colour::kBold) : std::move(heading));
  lines.push_back(Cut(JobsLine(data), width));
  lines.push_back(Cut(NodesLine(data), width));
  // Cut before it is coloured: its codes have no width.
  std::string notice = Cut(NoticeLine(data, view, shown.size()), width);
  const bool is_bad = !view.is_typing && absl::StartsWith(notice, "As of");
  lines.push_back(colours && is_bad ? Coloured(notice, Colour::kRed) : std::move(notice));
  switch (view.pane) {
    case TopPane::kJobs:
      AppendJobs(data, view, shown, size, colours, &lines);
      break;
    case TopPane::kJob:
      AppendJob(data, view, shown, size, &lines);
      break;
    case TopPane::kHelp: {
      lines.push_back("Keys");
      std::vector<std::string> help;
      for (const absl::string_view line : kHelp) help.push_back(Cut(line, width));
      AppendPage(help, view.scroll, PageOf(size), &lines);
      break;
    }
  }
  if (size.height <= 0) return lines;
  lines.resize(std::max(0, size.height - kLinesBelow));
  lines.push_back(Cut(KeysLine(view), width));
  return lines;
}

}  // namespace adaptdl::cli
