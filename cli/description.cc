#include "cli/description.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/explanation.h"
#include "cli/format.h"
#include "cli/job_order.h"
#include "cli/job_table.h"
#include "cli/pool_table.h"
#include "cli/table.h"
#include "libs/jobspec/placement.h"

namespace adaptdl::cli {
namespace {

// Re-scales in place take milliseconds.
std::string PauseText(absl::Duration pause) {
  if (pause >= absl::Seconds(1)) return DurationText(pause);
  return absl::StrCat(absl::ToInt64Milliseconds(pause), "ms");
}

// "Name:      value" lines under a heading; values in one column.
class Section {
 public:
  explicit Section(absl::string_view heading) : heading_(heading) {}

  void Add(absl::string_view name, std::string value) {
    if (!value.empty()) lines_.push_back({std::string(name), std::move(value)});
  }

  void AppendTo(std::string* out, bool colours) const {
    if (lines_.empty()) return;
    absl::StrAppend(out, "\n", colours ? Coloured(heading_, Colour::kBold) : heading_, "\n");
    for (const auto& [name, value] : lines_) {
      absl::StrAppend(out, absl::StrFormat("  %-18s %s\n", absl::StrCat(name, ":"), value));
    }
  }

 private:
  const std::string heading_;
  std::vector<std::pair<std::string, std::string>> lines_;
};

// As a shell would need it.
std::string CommandText(const v1::ReplicaTemplate& replica) {
  std::vector<std::string> words;
  const auto add = [&](const std::string& word) {
    const bool plain =
        !word.empty() && word.find_first_of(" \t\n'\"\\$`|&;<>()*?[]#~!{}") == std::string::npos;
    words.push_back(Printable(plain ? word : absl::StrCat("'", word, "'")));
  };
  for (const std::string& word : replica.command()) add(word);
  for (const std::string& word : replica.args()) add(word);
  return absl::StrJoin(words, " ");
}

// The interpreter and the packages that pip is to install. Empty: no virtual environment is asked for.
std::string PythonText(const v1::ReplicaTemplate& replica) {
  if (!replica.has_python()) return "";
  std::vector<std::string> words = {Printable(replica.python().interpreter())};
  for (absl::string_view line : absl::StrSplit(replica.python().requirements(), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty() && line[0] != '#') words.push_back(Printable(line));
  }
  constexpr size_t kShown = 8;
  if (words.size() > kShown + 1) {
    const size_t more = words.size() - kShown;
    words.resize(kShown);
    words.push_back(absl::StrCat("and ", more, " more"));
  }
  return absl::StrCat(words.front(), words.size() > 1 ? " with " : "",
                      absl::StrJoin(words.begin() + 1, words.end(), ", "));
}

std::string MomentText(bool present, const google::protobuf::Timestamp& time) {
  return present ? absl::StrCat(FormatSecond(ToTime(time)), " UTC") : "";
}

// "images (s3://bucket/images)".
std::string DataText(const v1::ReplicaTemplate& replica) {
  std::vector<std::string> sets;
  for (const v1::DataSet& data : replica.data_sets()) {
    sets.push_back(Printable(absl::StrCat(data.name(), " (", data.url(), ")")));
  }
  return absl::StrJoin(sets, ", ");
}

// The folder that goes along, by the beginning of its digest.
std::string CodeText(const v1::ReplicaTemplate& replica) {
  if (!replica.has_code()) return "";
  return Printable(absl::StrCat("a folder, ", FormatBytes(replica.code().size()), "B packed, ",
                                replica.code().digest().substr(0, 12)));
}

Section SpecSection(const v1::JobSpec& spec) {
  Section section("Spec");
  const v1::ReplicaTemplate& replica = spec.template_();
  section.Add("Replicas", absl::StrCat(std::max(spec.min_replicas(), 1), " to ",
                                       spec.max_replicas() == 0 ? "any" : absl::StrCat(spec.max_replicas())));
  section.Add("Allowed", absl::StrJoin(spec.allowed_replicas(), ", "));
  section.Add("Priority", spec.priority() == 0 ? "" : absl::StrCat(spec.priority()));
  section.Add("Preemptible", !spec.has_preemptible() || spec.preemptible() ? "yes" : "no");
  section.Add("Max restarts", absl::StrCat(spec.has_max_restarts() ? spec.max_restarts() : 3));
  section.Add("Deadline", MomentText(spec.has_deadline(), spec.deadline()));
  section.Add("Starts from", Printable(spec.start_from().job()));
  section.Add("Command", CommandText(replica));
  section.Add("Code", CodeText(replica));
  section.Add("Python", PythonText(replica));
  section.Add("Folder", Printable(replica.working_directory()));
  section.Add("TensorBoard", Printable(replica.tensorboard()));
  section.Add("API access", replica.api_access() ? "as a user of its namespace" : "");
  std::vector<std::string> variables;
  for (const v1::EnvironmentVariable& variable : replica.env()) {
    variables.push_back(Printable(absl::StrCat(variable.name(), "=", variable.value())));
  }
  section.Add("Environment", absl::StrJoin(variables, " "));
  section.Add("Each replica", FormatResources(replica.resources()));
  section.Add("Nodes with", Printable(jobspec::Describe(replica.placement())));
  section.Add("Data", DataText(replica));
  section.Add("Image", Printable(replica.image()));
  if (replica.has_termination_grace_period()) {
    section.Add("Grace period", DurationText(ToDuration(replica.termination_grace_period())));
  }
  return section;
}

Section StatusSection(const v1::Job& job, const std::string& currency, absl::Time now) {
  const v1::JobStatus& status = job.status();
  Section section("Status");
  section.Add("Phase", StatusText(status));
  section.Add("Message", Printable(status.message()));
  section.Add("Group", absl::StrCat(status.group()));
  section.Add("Allocation", Printable(absl::StrJoin(status.allocation(), " ")));
  const std::string allocation = absl::StrJoin(status.allocation(), " ");
  const std::string desired = absl::StrJoin(status.desired_allocation(), " ");
  if (desired != allocation) section.Add("Moving to", Printable(desired));
  section.Add("Restarts", absl::StrCat(status.restarts()));
  if (status.rescales() > 0) section.Add("Re-scales", absl::StrCat(status.rescales(), " in place"));
  if (status.has_rescale_duration()) {
    section.Add("Re-scale takes", PauseText(ToDuration(status.rescale_duration())));
  }
  if (!status.checkpoint_error().empty()) {
    section.Add("Checkpoints", absl::StrCat("fail: ", Printable(status.checkpoint_error())));
  }
  section.Add("Failures", status.failures() == 0 ? "" : absl::StrCat(status.failures()));
  section.Add("Next attempt", MomentText(status.has_retry_time(), status.retry_time()));
  section.Add("Submitted", MomentText(status.has_submit_time(), status.submit_time()));
  section.Add("Started", MomentText(status.has_start_time(), status.start_time()));
  section.Add("Ended", MomentText(status.has_completion_time(), status.completion_time()));
  section.Add("Runtime", RuntimeText(status, now));
  if (status.has_running_time()) section.Add("All running", DurationText(ToDuration(status.running_time())));
  if (status.has_cost()) section.Add("Cost", MoneyText(status.cost(), currency));
  section.Add("ETA", status.has_estimated_completion_time() ? EtaText(status, now) : "");
  return section;
}

// "312ms: 82 % compute, 15 % sync, 3 % data".
std::string StepTimeText(const v1::StepTimes& times) {
  const double whole = times.compute() + times.sync() + times.data();
  if (!(whole > 0)) return "";
  const auto part = [&](double seconds, const char* name) {
    return absl::StrFormat("%.0f %% %s", seconds / whole * 100, name);
  };
  return absl::StrFormat("%s s: %s, %s, %s", FigureText(whole), part(times.compute(), "computes"),
                         part(times.sync(), "waits for other replicas"), part(times.data(), "for samples"));
}

// ", and has been no number since about step 120".
std::string DivergenceText(std::optional<int64_t> last_sound_step) {
  if (!last_sound_step.has_value()) return "";
  if (*last_sound_step < 0) return ", and has never been a number";
  return absl::StrCat(", and has been no number since about step ", *last_sound_step);
}

// How well it trains at the batch size in use, as far as it says.
void AddStatistics(const v1::JobStatus& status, const JobSurroundings& around, Section* section) {
  const v1::TrainingProgress& progress = status.progress();
  if (progress.efficiency() > 0) {
    section->Add("Efficiency", absl::StrFormat("%.0f %% of what a sample brings at the initial batch size",
                                               progress.efficiency() * 100));
  }
  const double goodput = GoodputOf(status);
  if (goodput > 0)
    section->Add("Goodput", absl::StrFormat("%.1f samples/s, as at the initial batch size", goodput));
  if (progress.gain() > 0) {
    section->Add("Gain", absl::StrFormat("a step counts as %.2f at the initial batch size", progress.gain()));
  }
  if (progress.gradient_noise_scale() > 0) {
    section->Add("Gradient noise",
                 absl::StrFormat("scale of %s samples", FigureText(progress.gradient_noise_scale())));
  }
  if (progress.learning_rate_factor() > 0) {
    section->Add("Learning rate", absl::StrFormat("times %.3g", progress.learning_rate_factor()));
  }
  if (progress.has_step_times()) section->Add("Step time", StepTimeText(progress.step_times()));
  for (const v1::ReportedMetric& metric : progress.metrics()) {
    // A loss that is none never comes back: in words, as "-nan" is easily overlooked.
    const std::string value =
        std::isnan(metric.value()) ? "is not a number" : absl::StrFormat("%.6g", metric.value());
    section->Add("Reports",
                 absl::StrFormat("%s %s at step %d%s", Printable(metric.name()), value, metric.step(),
                                 metric.name() == "loss" ? DivergenceText(around.last_sound_step) : ""));
  }
}

// Shorter is a usual step, or the time between two heartbeats.
constexpr absl::Duration kLongStandstill = absl::Seconds(20);

Section ProgressSection(const v1::JobStatus& status, const JobSurroundings& around) {
  Section section("Progress");
  if (!status.has_progress()) return section;
  const v1::TrainingProgress& progress = status.progress();
  // What is told below is of the last step: it does not say by itself that there are no more.
  section.Add("Steps", absl::StrCat(progress.optimizer_steps(),
                                    around.standstill < kLongStandstill
                                        ? ""
                                        : absl::StrCat(", and none for ", DurationText(around.standstill))));
  // Counted from 0, and past the last one when all are done.
  const int epoch = progress.epoch() + 1;
  const int total = progress.total_epochs();
  section.Add("Epoch", total > 0 ? absl::StrCat(std::min(epoch, total), " of ", total) : absl::StrCat(epoch));
  if (progress.fraction() >= 0) section.Add("Done", absl::StrFormat("%.0f %%", progress.fraction() * 100));
  section.Add("Batch size",
              absl::StrFormat("%d (%d per replica, %d accumulation steps)", progress.total_batch_size(),
                              progress.local_batch_size(), progress.accumulation_steps()));
  if (progress.throughput() > 0) {
    section.Add("Throughput", absl::StrFormat("%.1f samples/s", progress.throughput()));
  }
  AddStatistics(status, around, &section);
  return section;
}

Section HintsSection(const v1::JobStatus& status) {
  Section section("Hints");
  if (!status.has_hints()) return section;
  const v1::Hints& hints = status.hints();
  section.Add("Batch size", hints.has_max_batch_size()
                                ? absl::StrCat(hints.init_batch_size(), " to ", hints.max_batch_size())
                                : absl::StrCat(hints.init_batch_size()));
  if (hints.has_min_local_batch_size() || hints.has_max_local_batch_size()) {
    section.Add(
        "Per replica",
        absl::StrCat(std::max<int64_t>(1, hints.min_local_batch_size()), " to ",
                     hints.has_max_local_batch_size() ? absl::StrCat(hints.max_local_batch_size()) : "any"));
  }
  section.Add("Accumulation", hints.gradient_accumulation() ? "yes" : "no");
  section.Add("Most replicas", absl::StrCat(hints.max_profiled_replicas(), " measured"));
  if (hints.has_perf_params()) {
    const v1::PerfParams& perf = hints.perf_params();
    section.Add("Step time model",
                absl::StrFormat("compute %.4g + %.4g b, nodes %.4g + %.4g (r-2), ranks %.4g + %.4g (r-2), "
                                "gamma %.3g",
                                perf.alpha_c(), perf.beta_c(), perf.alpha_n(), perf.beta_n(), perf.alpha_r(),
                                perf.beta_r(), perf.gamma()));
  }
  if (hints.has_grad_params()) {
    section.Add("Gradient", absl::StrFormat("norm %.4g, variance %.4g", hints.grad_params().norm(),
                                            hints.grad_params().var()));
  }
  return section;
}

void AppendWhy(const std::vector<std::string>& lines, bool colours, std::string* out) {
  if (lines.empty()) return;
  absl::StrAppend(out, "\n", colours ? Coloured("Why", Colour::kBold) : "Why", "\n");
  for (const std::string& line : lines) absl::StrAppend(out, "  - ", line, "\n");
}

void AppendTable(absl::string_view heading, const Table& table, bool colours, std::string* out) {
  if (table.rows.empty()) return;
  absl::StrAppend(out, "\n", colours ? Coloured(heading, Colour::kBold) : heading, "\n",
                  Render(table, colours));
}

}  // namespace

std::string DescribeJob(const v1::Job& job, const JobSurroundings& around, absl::Time now, bool colours) {
  std::string out = Printable(absl::StrCat(job.namespace_(), "/", job.name(), " (", job.uid(), ")"));
  const std::map<std::string, std::string> labels(job.labels().begin(), job.labels().end());
  if (!labels.empty())
    absl::StrAppend(&out, "\n", Printable(absl::StrJoin(labels, " ", absl::PairFormatter("="))));
  out.push_back('\n');
  SpecSection(job.spec()).AppendTo(&out, colours);
  StatusSection(job, around.pools.currency(), now).AppendTo(&out, colours);
  AppendWhy(WhyOf(job, around.pools, around.quotas), colours, &out);
  AppendTable("Replicas", ReplicaTable(job.status()), colours, &out);
  ProgressSection(job.status(), around).AppendTo(&out, colours);
  HintsSection(job.status()).AppendTo(&out, colours);
  AppendTable("Events", EventTable(around.events, /*with_job=*/false), colours, &out);
  return out;
}

}  // namespace adaptdl::cli
