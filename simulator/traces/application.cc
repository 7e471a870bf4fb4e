#include "simulator/traces/application.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "simulator/cluster.h"

namespace adaptdl::simulator {
namespace {

namespace fs = std::filesystem;

// Constants that the published simulators keep in their code.
struct Constants {
  absl::string_view application;
  double restart_seconds;
  double calibration;
};
constexpr Constants kConstants[] = {
    {"bert", 120, 1.2}, {"cifar10", 50, 1.8},   {"deepspeech2", 25, 1.2},
    {"ncf", 15, 1.5},   {"imagenet", 250, 1.2}, {"yolov3", 80, 1.2},
};
// ncf always runs on one GPU, with its largest batch size.
constexpr absl::string_view kSingleGpuApplication = "ncf";
// Pollux's simulator bounds yolov3 by this, though larger sizes were measured.
constexpr absl::string_view kBoundedApplication = "yolov3";
constexpr int64_t kBoundedLocal = 8;

// The first of the folders that has the file; empty if none has.
std::string Find(const std::vector<std::string>& folders, const std::string& relative) {
  for (const std::string& folder : folders) {
    std::error_code error;
    const fs::path path = fs::path(folder) / relative;
    if (fs::exists(path, error)) {
      return path.string();
    }
  }
  return "";
}

// The first of the candidates that some folder has.
std::string FindAny(const std::vector<std::string>& folders, const std::vector<std::string>& candidates) {
  for (const std::string& candidate : candidates) {
    if (std::string path = Find(folders, candidate); !path.empty()) {
      return path;
    }
  }
  return "";
}

std::vector<std::string> Names(const std::string& name, const std::string& type, absl::string_view before,
                               absl::string_view after) {
  std::vector<std::string> names = {absl::StrCat(before, name, "-", type, after)};
  if (type == Cluster::kDefaultType) {
    names.push_back(absl::StrCat(before, name, after));
  }
  return names;
}

absl::StatusOr<StepTimes> LoadStepTimes(const std::vector<std::string>& folders, const std::string& name,
                                        const std::string& type) {
  StepTimes::Files files;
  files.placements = FindAny(folders, Names("placements", type, absl::StrCat("traces/", name, "/"), ".csv"));
  if (files.placements.empty()) {
    return absl::NotFoundError(absl::StrCat("no step times of ", name, " on GPUs of type ", type, ": ",
                                            absl::StrJoin(folders, ", "), " has no traces/", name,
                                            "/placements-", type, ".csv"));
  }
  if (type == Cluster::kDefaultType) {
    files.table = Find(folders, absl::StrCat("interp-table/", name, ".f64"));
    files.table_index = Find(folders, "interp-table/index.json");
  }
  files.points = FindAny(folders, Names(name, type, "delaunay/", "-points.csv"));
  files.tetrahedra = FindAny(folders, Names(name, type, "delaunay/", "-simplices.csv"));
  return StepTimes::Load(name, files);
}

void ApplyConstants(TraceRules rules, Application* application) {
  for (const Constants& constants : kConstants) {
    if (constants.application == application->name) {
      application->restart_seconds = constants.restart_seconds;
      application->calibration = rules == TraceRules::kSia ? constants.calibration : 1;
    }
  }
  application->local_limit_per_placement = rules == TraceRules::kSia;
  if (application->name == kSingleGpuApplication) {
    application->max_replicas = 1;
    application->kept_batch_size = application->max_batch_size();
  }
}

}  // namespace

TraceRules DetectRules(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(folder) / "traces", error)) {
    if (fs::exists(entry.path() / "placements.csv", error)) {
      return TraceRules::kPollux;
    }
  }
  return TraceRules::kSia;
}

absl::StatusOr<Application> LoadApplication(const std::vector<std::string>& folders, const std::string& name,
                                            const std::vector<std::string>& gpu_types, TraceRules rules) {
  const std::string folder = Find(folders, absl::StrCat("traces/", name));
  if (folder.empty()) {
    return absl::NotFoundError(absl::StrCat("no traces of the application ", name, ": ",
                                            absl::StrJoin(folders, ", "), " has no folder traces/", name));
  }
  absl::StatusOr<TrainingCurve> curve = TrainingCurve::Load(folder);
  if (!curve.ok()) {
    return curve.status();
  }
  Application application{.name = name, .curve = *std::move(curve)};
  for (const std::string& type : gpu_types) {
    absl::StatusOr<StepTimes> times = LoadStepTimes(folders, name, type);
    if (!times.ok()) {
      return times.status();
    }
    const bool bounded = rules == TraceRules::kPollux && name == kBoundedApplication;
    application.min_local.push_back(times->min_local());
    application.max_local.push_back(bounded ? std::min(times->max_local(), kBoundedLocal)
                                            : times->max_local());
    application.step_times.push_back(*std::move(times));
  }
  ApplyConstants(rules, &application);
  return application;
}

}  // namespace adaptdl::simulator
