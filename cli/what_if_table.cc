#include "cli/what_if_table.h"

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "cli/format.h"
#include "cli/table.h"

namespace adaptdl::cli {
namespace {

using simulator::Figures;
using simulator::WhatIfReport;

using Value = std::function<double(const Figures&)>;
using Writer = std::function<std::string(double)>;

std::string Time(double seconds) { return DurationText(absl::Seconds(std::round(seconds))); }
std::string Number(double value) { return absl::StrFormat("%.2f", value); }

std::string Difference(double before, double after) {
  if (before == after) return "0 %";
  return before == 0 ? "-" : absl::StrFormat("%+.0f %%", 100 * (after / before - 1));
}

std::vector<Cell> Row(const WhatIfReport& report, const std::string& name, const Value& value,
                      const Writer& write) {
  const double before = value(report.before);
  const double after = value(report.after);
  return {name, report.recorded ? write(value(*report.recorded)) : "-", write(before), write(after),
          Difference(before, after)};
}

Table FigureTable(const WhatIfReport& report) {
  const std::string unit = report.gpus ? "GPU" : "Core";
  Table table{{"", "RECORDED", "AS IT IS", "CHANGED", "DIFFERENCE"}, {}};
  const auto add = [&](const std::string& name, const Value& value, const Writer& write) {
    table.rows.push_back(Row(report, name, value, write));
  };
  add(
      "Jobs", [](const Figures& f) { return f.jobs; }, [](double jobs) { return absl::StrCat(jobs); });
  add(
      "Wait, mean", [](const Figures& f) { return f.avg_wait_s; }, Time);
  add(
      "Completion time, mean", [](const Figures& f) { return f.avg_jct_s; }, Time);
  add(
      "Completion time, 99 %", [](const Figures& f) { return f.p99_jct_s; }, Time);
  add(
      "First submission to last end", [](const Figures& f) { return f.makespan_s; }, Time);
  add(
      "Restarts and re-scales per job", [](const Figures& f) { return f.restarts_per_job; }, Number);
  add(
      unit + "-hours used", [](const Figures& f) { return f.used_hours; }, Number);
  add(
      unit + "-hours there", [](const Figures& f) { return f.offered_hours; }, Number);
  if (report.before.cost) {
    add(
        "Cost of the nodes", [](const Figures& f) { return f.cost.value_or(0); }, Number);
  }
  return table;
}

Json FiguresDocument(const Figures& figures) {
  Json document = {{"jobs", figures.jobs},
                   {"meanWaitSeconds", figures.avg_wait_s},
                   {"meanCompletionSeconds", figures.avg_jct_s},
                   {"p99CompletionSeconds", figures.p99_jct_s},
                   {"makespanSeconds", figures.makespan_s},
                   {"restartsPerJob", figures.restarts_per_job},
                   {"usedHours", figures.used_hours},
                   {"offeredHours", figures.offered_hours}};
  if (figures.cost) document["cost"] = *figures.cost;
  return document;
}

}  // namespace

std::string RenderWhatIf(const WhatIfReport& report, bool colours) {
  std::string text = Render(FigureTable(report), colours);
  if (report.recorded) {
    absl::StrAppendFormat(
        &text,
        "\nThe jobs that have ended took %s on average; by the model, as it is, %s. Half of "
        "them are off by %.0f %% or less.\n",
        Time(report.recorded->avg_jct_s), Time(report.modelled_jct_s), 100 * report.median_error);
  } else {
    absl::StrAppend(&text, "\nNo job that was replayed has ended: nothing to compare the model with.\n");
  }
  if (!report.left_out.empty()) {
    Table table{{"LEFT OUT", "BECAUSE"}, {}};
    for (const simulator::LeftOut& job : report.left_out) {
      table.rows.push_back({Printable(job.job), Printable(job.reason)});
    }
    absl::StrAppend(&text, "\n", Render(table, colours));
  }
  return text;
}

Json WhatIfDocument(const WhatIfReport& report) {
  Json document;
  document["unit"] = report.gpus ? "GPU" : "core";
  document["recorded"] = report.recorded ? FiguresDocument(*report.recorded) : Json(nullptr);
  document["asItIs"] = FiguresDocument(report.before);
  document["changed"] = FiguresDocument(report.after);
  if (report.recorded) {
    document["model"] = {{"meanCompletionSeconds", report.modelled_jct_s},
                         {"medianError", report.median_error}};
  }
  document["leftOut"] = Json::array();
  for (const simulator::LeftOut& job : report.left_out) {
    document["leftOut"].push_back({{"job", job.job}, {"reason", job.reason}});
  }
  document["notes"] = report.notes;
  return document;
}

}  // namespace adaptdl::cli
