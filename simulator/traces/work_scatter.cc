#include "simulator/traces/work_scatter.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "simulator/random.h"

namespace adaptdl::simulator {
namespace {

double Multiple(double deviation, double normal) {
  return std::exp(deviation * normal - deviation * deviation / 2);
}

double SamplesOf(const Application& application) {
  const TrainingCurve& curve = application.curve;
  return curve.ProgressAfter(curve.epochs() - 1) * static_cast<double>(application.init_batch_size());
}

}  // namespace

void ScatterWork(double deviation, uint64_t seed, std::vector<WorkloadJob>* workload) {
  if (deviation == 0) return;
  for (WorkloadJob& job : *workload) {
    job.work = Multiple(deviation, KeyedNormal(seed, absl::StrCat("work:", job.name), 0));
  }
}

std::map<std::string, pastwork::PastWork> EarlierJobs(int jobs, double deviation, uint64_t seed,
                                                      const std::vector<WorkloadJob>& workload) {
  std::map<std::string, pastwork::PastWork> earlier;
  for (const WorkloadJob& job : workload) {
    pastwork::PastWork& past = earlier[job.application->name];
    const std::string key = absl::StrCat("earlier:", job.application->name);
    if (past.jobs > 0) continue;
    for (int i = 0; i < jobs; ++i) {
      past.Add(SamplesOf(*job.application) * Multiple(deviation, KeyedNormal(seed, key, i)));
    }
  }
  return earlier;
}

}  // namespace adaptdl::simulator
