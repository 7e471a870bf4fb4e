#include "services/supervisor/web/job_series.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/hints/hints.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

// The end of a job is scraped, and then its series go.
constexpr absl::Duration kAfterEnd = absl::Minutes(10);
constexpr int kPredicted[] = {1, 2, 4, 8, 16};
// As ReportedMetric has them; the supervisor takes no more.
constexpr int kMostMetrics = 16;

enum Family : size_t {
  kPhase,
  kReplicas,
  kDesiredReplicas,
  kBatchSize,
  kLocalBatchSize,
  kAccumulationSteps,
  kLearningRateFactor,
  kThroughput,
  kEfficiency,
  kGoodput,
  kNoiseScale,
  kStepSeconds,
  kSteps,
  kProgress,
  kMetric,
  kRescales,
  kRescaleSeconds,
  kRestarts,
  kFailures,
  kCost,
  kPredictedThroughput,
  kPredictedGoodput,
  kFamilies,
};

void PutValue(double value, std::string* text) {
  if (std::isnan(value)) return text->append("NaN"), void();
  if (std::isinf(value)) return text->append(value > 0 ? "+Inf" : "-Inf"), void();
  char digits[32];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), value);
  text->append(digits, end.ptr);
}

// `labels`: of the job, and `more` of the sample.
void PutSample(Family family, absl::string_view labels, absl::string_view more, double value,
               std::vector<std::string>* samples) {
  std::string& text = (*samples)[family];
  absl::StrAppend(&text, JobSeriesFamilies()[family].name, "{", labels, more, "} ");
  PutValue(value, &text);
  text += '\n';
}

std::string LabelsOf(const v1::Job& job) {
  return absl::StrCat("namespace=\"", job.namespace_(), "\",job=\"", job.name(), "\"");
}

}  // namespace

const std::vector<JobSeriesFamily>& JobSeriesFamilies() {
  static const auto* const families = new std::vector<JobSeriesFamily>{
      {"adaptdl_job_phase", "gauge", "phase", "1 for the phase that the job is in"},
      {"adaptdl_job_replicas", "gauge", "", "Replicas that the job has"},
      {"adaptdl_job_desired_replicas", "gauge", "", "Replicas that the allocator decided for last"},
      {"adaptdl_job_batch_size", "gauge", "", "Samples of one optimizer step, of all replicas together"},
      {"adaptdl_job_local_batch_size", "gauge", "", "Samples that one replica takes at a time"},
      {"adaptdl_job_accumulation_steps", "gauge", "",
       "Micro-steps whose gradients are gathered before the optimizer steps"},
      {"adaptdl_job_learning_rate_factor", "gauge", "",
       "What the learning rate is multiplied by for the batch size"},
      {"adaptdl_job_throughput", "gauge", "", "Samples per second"},
      {"adaptdl_job_efficiency", "gauge", "",
       "Worth of a sample, relative to one at the job's initial batch size"},
      {"adaptdl_job_goodput", "gauge", "", "Throughput times efficiency: samples of worth per second"},
      {"adaptdl_job_gradient_noise_scale", "gauge", "",
       "Gradient noise scale: the batch size from which on a larger one brings little"},
      {"adaptdl_job_step_seconds", "gauge", "part",
       "Time of an optimizer step, by what it goes to: compute, sync or data"},
      {"adaptdl_job_steps_total", "counter", "", "Optimizer steps"},
      {"adaptdl_job_progress_ratio", "gauge", "", "Part of the work that is done, from 0 to 1"},
      {"adaptdl_job_metric", "gauge", "name", "What the program reports of itself, such as its loss"},
      {"adaptdl_job_rescales_total", "counter", "", "Changes of the replica set while the training went on"},
      {"adaptdl_job_rescale_seconds", "gauge", "",
       "How long a change of the replica set keeps the job from training; the latest ones weigh most"},
      {"adaptdl_job_restarts_total", "counter", "", "Times that the replica set was started again"},
      {"adaptdl_job_failures", "gauge", "",
       "Failures of the job's own since it last ran well; it ends at max_restarts"},
      {"adaptdl_job_cost_total", "counter", "",
       "What its share of nodes has cost, in the currency of their pools, as far as somebody says what they "
       "cost"},
      {"adaptdl_job_predicted_throughput", "gauge", "replicas",
       "Samples per second that the job's own model expects of so many replicas on one node, at the batch "
       "size that is best then"},
      {"adaptdl_job_predicted_goodput", "gauge", "replicas", "The same of goodput"},
  };
  return *families;
}

void JobSeries::Add(const JobEntry& entry, std::optional<double> cost, const Moment& now) {
  const JobRecord& record = entry.record;
  if (jobs::IsTerminal(record.state.phase) && record.times.completed + kAfterEnd < now.wall) return;
  if (jobs_ == most_) {
    ++left_out_;
    return;
  }
  ++jobs_;
  const std::string labels = LabelsOf(*record.job);
  const auto put = [&](Family family, double value) { PutSample(family, labels, "", value, &samples_); };
  const std::string phase = v1::JobPhase_Name(ToProto(record.state.phase));
  PutSample(kPhase, labels, absl::StrCat(",phase=\"", absl::StripPrefix(phase, "JOB_PHASE_"), "\""), 1,
            &samples_);
  put(kReplicas, static_cast<double>(record.state.allocation.size()));
  if (!jobs::IsTerminal(record.state.phase)) {
    put(kDesiredReplicas, static_cast<double>(record.decision.nodes.size()));
  }
  put(kRescales, record.state.rescales);
  put(kRestarts, record.state.restarts);
  put(kFailures, record.state.failures);
  if (cost.has_value()) put(kCost, *cost);
  if (record.state.rescale_duration != absl::ZeroDuration()) {
    put(kRescaleSeconds, absl::ToDoubleSeconds(record.state.rescale_duration));
  }
  if (record.progress.has_value()) AddTraining(*record.progress, labels);
  if (record.hints.has_value() && !jobs::IsTerminal(record.state.phase))
    AddPredictions(*record.hints, labels);
}

void JobSeries::AddTraining(const v1::TrainingProgress& progress, absl::string_view labels) {
  const auto put = [&](Family family, double value, absl::string_view more = "") {
    PutSample(family, labels, more, value, &samples_);
  };
  // 0 is what the program does not say.
  const auto put_known = [&](Family family, double value) {
    if (value > 0) put(family, value);
  };
  put(kSteps, static_cast<double>(progress.optimizer_steps()));
  if (progress.fraction() >= 0) put(kProgress, progress.fraction());
  put_known(kBatchSize, static_cast<double>(progress.total_batch_size()));
  put_known(kLocalBatchSize, static_cast<double>(progress.local_batch_size()));
  if (progress.total_batch_size() > 0) put(kAccumulationSteps, progress.accumulation_steps());
  put_known(kLearningRateFactor, progress.learning_rate_factor());
  put_known(kThroughput, progress.throughput());
  put_known(kEfficiency, progress.efficiency());
  put_known(kGoodput, progress.throughput() * progress.efficiency());
  put_known(kNoiseScale, progress.gradient_noise_scale());
  if (progress.has_step_times()) {
    put(kStepSeconds, progress.step_times().compute(), ",part=\"compute\"");
    put(kStepSeconds, progress.step_times().sync(), ",part=\"sync\"");
    put(kStepSeconds, progress.step_times().data(), ",part=\"data\"");
  }
  const int metrics = std::min(progress.metrics_size(), kMostMetrics);
  for (int i = 0; i < metrics; ++i) {
    // Their names have no characters that a label needs to escape (calls/validation.h): the supervisor takes no others.
    const v1::ReportedMetric& metric = progress.metrics(i);
    put(kMetric, metric.value(), absl::StrCat(",name=\"", metric.name(), "\""));
  }
}

void JobSeries::AddPredictions(const v1::Hints& hints, absl::string_view labels) {
  const std::optional<goodput::GoodputFunction> model = hints::ModelOf(hints);
  const goodput::BatchLimits limits = hints::ToLimits(hints);
  if (!model.has_value() || !goodput::Validate(limits, hints.init_batch_size()).ok()) return;
  for (const int replicas : kPredicted) {
    const goodput::Topology topology = {1, replicas};
    const auto best = goodput::OptimizeBatchSize(*model, topology, limits);
    if (!best.has_value()) continue;
    const std::string more = absl::StrCat(",replicas=\"", replicas, "\"");
    PutSample(kPredictedThroughput, labels, more, model->Throughput(topology, best->batch), &samples_);
    PutSample(kPredictedGoodput, labels, more, best->goodput, &samples_);
  }
}

std::string JobSeries::Text() const {
  static_assert(kFamilies == kPredictedGoodput + 1);
  size_t bytes = 0;
  for (const std::string& samples : samples_) bytes += samples.size() + 200;
  std::string text;
  text.reserve(bytes);
  for (size_t i = 0; i < samples_.size(); ++i) {
    if (samples_[i].empty()) continue;
    const JobSeriesFamily& family = JobSeriesFamilies()[i];
    absl::StrAppend(&text, "# HELP ", family.name, " ", family.help, "\n# TYPE ", family.name, " ",
                    family.type, "\n", samples_[i]);
  }
  absl::StrAppend(&text,
                  "# HELP adaptdl_jobs_without_series Jobs that have no series, as there are too many\n"
                  "# TYPE adaptdl_jobs_without_series gauge\nadaptdl_jobs_without_series ",
                  left_out_, "\n");
  return text;
}

}  // namespace adaptdl::supervisor
