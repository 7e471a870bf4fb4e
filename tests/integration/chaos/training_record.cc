#include "tests/integration/chaos/training_record.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace adaptdl::integration {
namespace {

absl::Status ReadSteps(const std::filesystem::path& path, TrainingRecord* record) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    std::vector<int64_t> numbers(words.size() - 1);
    bool good = words.size() >= 3 && (words[0] == "begin" || words[0] == "end");
    for (size_t i = 1; i < words.size(); ++i) good = absl::SimpleAtoi(words[i], &numbers[i - 1]) && good;
    if (!good) return absl::DataLossError(absl::StrCat(path.string(), ": \"", line, "\""));
    if (words[0] == "end") {
      if (numbers.size() != 3) return absl::DataLossError(absl::StrCat(path.string(), ": \"", line, "\""));
      record->taken[numbers[0]].insert(numbers[1]);
      record->states[{numbers[0], numbers[1]}].insert(numbers[2]);
      continue;
    }
    Samples& share = record->shares[{numbers[0], numbers[1]}];
    share.insert(share.end(), numbers.begin() + 2, numbers.end());
  }
  return absl::OkStatus();
}

absl::Status ReadWeights(const std::filesystem::path& path, TrainingRecord* record) {
  std::ifstream file(path);
  std::vector<double> weights;
  for (std::string line; std::getline(file, line);) {
    char* end = nullptr;
    weights.push_back(
        std::strtod(line.c_str(), &end));  // Hexadecimal, which absl::SimpleAtod() does not read.
    if (end != line.c_str() + line.size()) {
      return absl::DataLossError(absl::StrCat(path.string(), ": \"", line, "\""));
    }
  }
  record->weights.push_back(std::move(weights));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainingRecord> ReadTrainingRecord(const std::string& folder) {
  TrainingRecord record;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    absl::Status status;
    if (entry.path().extension() == ".steps") status = ReadSteps(entry.path(), &record);
    if (entry.path().extension() == ".weights") status = ReadWeights(entry.path(), &record);
    if (!status.ok()) return status;
  }
  for (auto& [key, share] : record.shares) std::sort(share.begin(), share.end());
  return record;
}

absl::StatusOr<std::map<int64_t, Samples>> StepsThatCount(const TrainingRecord& record) {
  std::map<int64_t, Samples> steps;
  for (const auto& [step, groups] : record.taken) {
    if (step != static_cast<int64_t>(steps.size())) {
      return absl::FailedPreconditionError(absl::StrCat("nobody took step ", steps.size()));
    }
    steps[step] = record.shares.at({step, *groups.rbegin()});
  }
  return steps;
}

absl::Status AllAlike(const TrainingRecord& record) {
  for (const auto& [step_and_group, states] : record.states) {
    if (states.size() == 1) continue;
    return absl::FailedPreconditionError(absl::StrCat("after step ", step_and_group.first, " of group ",
                                                      step_and_group.second, " the replicas had ",
                                                      states.size(), " different sets of parameters"));
  }
  return absl::OkStatus();
}

absl::Status EachSampleOncePerPass(const std::map<int64_t, Samples>& steps, size_t samples, bool whole) {
  std::set<int64_t> pass;
  for (const auto& [step, used] : steps) {
    const std::set<int64_t> distinct(used.begin(), used.end());
    const bool repeats =
        std::any_of(used.begin(), used.end(), [&](int64_t sample) { return pass.contains(sample); });
    if (distinct.size() != used.size() || (whole && repeats && pass.size() != samples)) {
      return absl::FailedPreconditionError(absl::StrCat("step ", step, " used a sample again"));
    }
    if (repeats || pass.size() == samples) pass.clear();
    pass.insert(used.begin(), used.end());
  }
  if (whole && pass.size() != samples) return absl::FailedPreconditionError("the last pass is not whole");
  return absl::OkStatus();
}

int Rollbacks(const TrainingRecord& record) {
  std::map<int64_t, std::pair<int64_t, int64_t>> first_and_last;
  for (const auto& [step, groups] : record.taken) {
    for (const int64_t group : groups) {
      const auto [entry, is_new] = first_and_last.try_emplace(group, step, step);
      entry->second.second = step;
    }
  }
  int rollbacks = 0;
  int64_t last = -1;
  for (const auto& [group, steps] : first_and_last) {
    if (steps.first <= last) ++rollbacks;
    last = steps.second;
  }
  return rollbacks;
}

}  // namespace adaptdl::integration
