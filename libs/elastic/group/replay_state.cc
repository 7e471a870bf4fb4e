#include "libs/elastic/group/replay_state.h"

#include <exception>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

using nlohmann::json;

std::string EpochText(int epoch) { return epoch < 0 ? "none" : absl::StrCat(epoch); }

// JSON has no NaN or infinity: they become strings.
json ToJson(const std::map<std::string, double>& totals) {
  json object = json::object();
  for (const auto& [key, value] : totals) {
    if (value - value == 0) {
      object[key] = value;
    } else {
      object[key] = value != value ? "nan" : value > 0 ? "inf" : "-inf";
    }
  }
  return object;
}

std::map<std::string, double> TotalsFromJson(const json& object) {
  std::map<std::string, double> totals;
  for (const auto& [key, value] : object.items()) {
    if (value.is_number()) {
      totals[key] = value;
    } else {
      const double infinity = std::numeric_limits<double>::infinity();
      totals[key] = value == "inf"    ? infinity
                    : value == "-inf" ? -infinity
                                      : std::numeric_limits<double>::quiet_NaN();
    }
  }
  return totals;
}

// Objects made within earlier epochs never come back.
template <typename Record>
void Forget(std::map<std::string, Record>* records, int epoch) {
  std::erase_if(*records, [epoch](const auto& item) {
    return item.second.created_epoch >= 0 && item.second.created_epoch < epoch;
  });
}

}  // namespace

void ReplayState::EnterEpoch() {
  in_epoch_ = true;
  position_ = 0;
  loaders_made_ = 0;
  accumulators_made_ = 0;
  MaybeResume();
}

void ReplayState::PassEpochs() {
  if (resume_ && !resume_->in_epoch) resume_.reset();
}

void ReplayState::MaybeResume() {
  if (!resume_) return;
  // Whatever came before the epochs is over when one of them begins.
  if (in_epoch_ && !resume_->in_epoch) resume_.reset();
  if (!resume_ || in_epoch_ != resume_->in_epoch) return;
  const bool there = position_ == resume_->position && in_loop_ == resume_->in_loop;
  if (there || position_ > resume_->position) resume_.reset();
}

void ReplayState::FinishEpoch() {
  in_epoch_ = false;
  ++finished_epochs_;
  position_ = 0;
  Forget(&loaders_, finished_epochs_);
  Forget(&accumulators_, finished_epochs_);
}

std::string ReplayState::NewLoaderName() {
  const std::string name = absl::StrCat("loader-epoch-", EpochText(current_epoch()), "-", loaders_made_++);
  loaders_[name].created_epoch = current_epoch();
  return name;
}

std::string ReplayState::LastLoaderKind() const {
  return absl::StrCat(current_epoch() < 0 ? "outside" : "epoch", "-", loaders_made_ - 1);
}

std::string ReplayState::NewAccumulatorName() {
  const std::string name =
      absl::StrCat("accumulator-epoch-", EpochText(current_epoch()), "-", accumulators_made_++);
  accumulators_[name].created_epoch = current_epoch();
  return name;
}

bool ReplayState::BeginLoop(const std::string& loader) {
  LoaderRecord& record = loaders_[loader];
  if (record.epoch != current_epoch()) {
    record.epoch = current_epoch();
    record.index = 0;
    record.last_position = -1;
    record.pass = 0;
    record.begin = -1;
  }
  if (position_ <= record.last_position) {
    ++position_;
    MaybeResume();
    return false;
  }
  in_loop_ = true;
  MaybeResume();
  return true;
}

void ReplayState::FinishLoop(const std::string& loader) {
  LoaderRecord& record = loaders_[loader];
  record.index = 0;
  record.pass = 0;
  record.begin = -1;
  record.last_position = position_;
  ++position_;
  in_loop_ = false;
}

AccumulatorRecord& ReplayState::accumulator(const std::string& name) {
  AccumulatorRecord& record = accumulators_[name];
  if (record.history_epoch != current_epoch()) {
    record.history_epoch = current_epoch();
    record.history.clear();
    record.clears = 0;
  }
  return record;
}

std::string ReplayState::Save() const {
  json loaders = json::object();
  for (const auto& [name, record] : loaders_) {
    loaders[name] = {{"epoch", record.epoch}, {"created_epoch", record.created_epoch},
                     {"index", record.index}, {"last_position", record.last_position},
                     {"pass", record.pass},   {"begin", record.begin}};
  }
  json accumulators = json::object();
  for (const auto& [name, record] : accumulators_) {
    json history = json::array();
    for (const auto& totals : record.history) history.push_back(ToJson(totals));
    accumulators[name] = {{"created_epoch", record.created_epoch},
                          {"totals", ToJson(record.totals)},
                          {"history", history},
                          {"clears", record.clears},
                          {"history_epoch", record.history_epoch}};
  }
  return json{{"finished_epochs", finished_epochs_},
              {"place", {{"in_epoch", in_epoch_}, {"position", position_}, {"in_loop", in_loop_}}},
              {"loaders", loaders},
              {"accumulators", accumulators},
              {"memory_bounds", memory_bounds_}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::Status ReplayState::Load(const std::string& text) {
  ReplayState loaded;
  try {
    const json saved = json::parse(text);
    loaded.finished_epochs_ = saved.at("finished_epochs");
    if (saved.contains("place")) {
      const json& place = saved.at("place");
      loaded.resume_ = {place.at("in_epoch"), place.at("position"), place.at("in_loop")};
      // Before its first epoch and loop a program has hardly begun: nothing can be told apart there.
      const bool begun = loaded.finished_epochs_ > 0 || loaded.resume_->in_epoch || loaded.resume_->in_loop ||
                         loaded.resume_->position > 0;
      if (!begun) loaded.resume_.reset();
    }
    for (const auto& [name, record] : saved.at("loaders").items()) {
      loaded.loaders_[name] = {
          record.at("epoch"),         record.at("created_epoch"),       record.at("index"),
          record.at("last_position"), record.value("pass", int64_t{0}), record.value("begin", -1.0)};
    }
    for (const auto& [name, record] : saved.at("accumulators").items()) {
      AccumulatorRecord& to = loaded.accumulators_[name];
      to.created_epoch = record.at("created_epoch");
      to.totals = TotalsFromJson(record.at("totals"));
      to.history_epoch = record.at("history_epoch");
      to.clears = record.value("clears", 0);
      for (const auto& totals : record.at("history")) to.history.push_back(TotalsFromJson(totals));
    }
    loaded.memory_bounds_ = saved.value("memory_bounds", loaded.memory_bounds_);
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("the saved position cannot be read: ", error.what()));
  }
  *this = std::move(loaded);
  return absl::OkStatus();
}

}  // namespace adaptdl::elastic
