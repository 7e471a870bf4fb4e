#include "simulator/restart_times.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "nlohmann/json.hpp"
#include "simulator/random.h"

namespace adaptdl::simulator {
namespace {

constexpr char kCommon[] = "pause_s";
constexpr char kApplications[] = "applications";

constexpr char kStateBytes[] = "state_bytes";
constexpr char kBytesPerSecond[] = "bytes_per_second";
constexpr char kProvenance[] = "source";

// `source`: option and file.
absl::Status Complaint(const std::string& source, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      source, ": ", what,
      "; write seconds, as in {\"pause_s\": [12.5, 14.1]} or {\"applications\": {\"bert\": [31]}}"));
}

absl::StatusOr<std::vector<double>> ParseList(const nlohmann::json& list, const std::string& source,
                                              const std::string& name) {
  if (!list.is_array() || list.empty()) {
    return Complaint(source, absl::StrCat("\"", name, "\" is no list of numbers"));
  }
  std::vector<double> times;
  for (const nlohmann::json& item : list) {
    const double seconds = item.is_number() ? item.get<double>() : -1;
    if (!std::isfinite(seconds) || seconds < 0) {
      return Complaint(source, absl::StrCat("\"", name, "\" contains ", item.dump(), ", which is no time"));
    }
    times.push_back(seconds);
  }
  return times;
}

// Seconds that the state takes on its way. Negative: the two numbers make no sense.
double TransferSeconds(const nlohmann::json& json) {
  if (!json.contains(kStateBytes) && !json.contains(kBytesPerSecond)) return 0;
  const auto number = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : -1;
  };
  const double bytes = number(kStateBytes);
  const double rate = number(kBytesPerSecond);
  return bytes >= 0 && rate > 0 && std::isfinite(bytes / rate) ? bytes / rate : -1;
}

}  // namespace

absl::StatusOr<RestartTimes> RestartTimes::Load(const std::string& path, const std::string& option) {
  absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat(option, " ", text.status().message()));
  }
  return Parse(*text, path, option);
}

absl::StatusOr<RestartTimes> RestartTimes::Parse(absl::string_view text, const std::string& file,
                                                 const std::string& option) {
  const std::string source = absl::StrCat(option, " ", file);
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return Complaint(source, "this is no JSON object");
  }
  RestartTimes times;
  times.source_ = source;
  const auto add = [&source](const nlohmann::json& list, const std::string& name, std::vector<double>* to) {
    absl::StatusOr<std::vector<double>> parsed = ParseList(list, source, name);
    if (parsed.ok()) *to = *std::move(parsed);
    return parsed.status();
  };
  for (const auto& [key, value] : json.items()) {
    absl::Status status;
    if (key == kCommon) {
      status = add(value, key, &times.common_);
    } else if (key == kApplications && value.is_object()) {
      for (const auto& [name, list] : value.items()) {
        status.Update(add(list, name, &times.by_application_[name]));
      }
    } else if (key != kStateBytes && key != kBytesPerSecond && key != kProvenance) {
      status = Complaint(source, absl::StrCat("\"", key, "\" has no meaning here"));
    }
    if (!status.ok()) return status;
  }
  if (times.common_.empty() && times.by_application_.empty()) {
    return Complaint(source, "there are no times");
  }
  const double transfer = TransferSeconds(json);
  if (transfer < 0) {
    return Complaint(source, absl::StrCat("\"", kStateBytes, "\" and \"", kBytesPerSecond,
                                          "\" are two numbers, the second above 0"));
  }
  for (double& seconds : times.common_) seconds += transfer;
  for (auto& [name, list] : times.by_application_) {
    for (double& seconds : list) seconds += transfer;
  }
  return times;
}

absl::Status RestartTimes::Cover(absl::Span<const WorkloadJob> workload) const {
  for (const WorkloadJob& job : workload) {
    if (Of(job.application->name).empty()) {
      return Complaint(
          source_, absl::StrCat("there are no times of ", job.application->name,
                                ", which the workload contains, and no \"", kCommon, "\" for all others"));
    }
  }
  return absl::OkStatus();
}

const std::vector<double>& RestartTimes::Of(const std::string& application) const {
  const auto found = by_application_.find(application);
  return found == by_application_.end() ? common_ : found->second;
}

double RestartTimes::Mean(const std::string& application) const {
  const std::vector<double>& times = Of(application);
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

double RestartCost::Expected(const Application& application) const {
  return measured != nullptr ? measured->Mean(application.name)
                             : seconds.value_or(application.restart_seconds);
}

double RestartCost::ExpectedChange(const Application& application) const {
  return in_place != nullptr ? in_place->Mean(application.name) : Expected(application);
}

namespace {

double Draw(const RestartTimes& recorded, uint64_t seed, const WorkloadJob& job, int n) {
  const std::vector<double>& times = recorded.Of(job.application->name);
  const double u = KeyedUniform(seed, absl::StrCat("restart:", job.name), n);
  return times[static_cast<size_t>(u * static_cast<double>(times.size()))];
}

}  // namespace

double RestartCost::OfStart(const WorkloadJob& job, int n) const {
  return measured == nullptr ? Expected(*job.application) : Draw(*measured, seed, job, n);
}

double RestartCost::OfChange(const WorkloadJob& job, int n) const { return Draw(*in_place, seed, job, n); }

double RestartCost::OfNewcomers(const WorkloadJob& job, int n) const {
  return newcomers == nullptr ? 0 : Draw(*newcomers, seed, job, n);
}

}  // namespace adaptdl::simulator
