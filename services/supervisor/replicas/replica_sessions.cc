#include "services/supervisor/replicas/replica_sessions.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace adaptdl::supervisor {

void ReplicaSessions::Attach(const std::string& replica_id, const std::shared_ptr<ReplicaStream>& stream) {
  std::shared_ptr<ReplicaStream> older;
  {
    MutexLock lock(&mutex_);
    Session& session = sessions_[replica_id];
    older = session.stream.lock();
    session.stream = stream;
  }
  if (older != nullptr && older != stream) {
    older->End(absl::AbortedError("a newer heartbeat stream of this replica has taken over"));
  }
}

void ReplicaSessions::Detach(const std::string& replica_id, const ReplicaStream* stream) {
  MutexLock lock(&mutex_);
  const auto it = sessions_.find(replica_id);
  if (it == sessions_.end()) return;
  const std::shared_ptr<ReplicaStream> current = it->second.stream.lock();
  if (current == nullptr || current.get() == stream) it->second.stream.reset();
}

void ReplicaSessions::Heard(const std::string& replica_id, const std::string& job_uid,
                            const v1::HeartbeatRequest& request, absl::Time now) {
  MutexLock lock(&mutex_);
  const auto it = sessions_.find(replica_id);
  if (it == sessions_.end()) return;  // It was fenced off meanwhile.
  Session& session = it->second;
  // One that the state was at for long is older than those that came meanwhile.
  if (now >= session.pulse.heard) session.pulse = {now, request.activity()};
  if (request.activity().waiting().seconds() > 0) waiting_.insert(job_uid);
  session.last_id = std::max(session.last_id, request.acknowledged_command_id());
  // A supervisor that was restarted may have given a number that the replica knows from before: STOP stays.
  auto& commands = session.commands;
  commands.erase(std::remove_if(commands.begin(), commands.end(),
                                [&](const v1::HeartbeatResponse& command) {
                                  return command.command_id() <= request.acknowledged_command_id() &&
                                         command.command() != v1::REPLICA_COMMAND_STOP;
                                }),
                 commands.end());
  if (request.has_progress()) progress_[job_uid] = request.progress();
}

Pulse ReplicaSessions::LastPulse(const std::string& replica_id) {
  MutexLock lock(&mutex_);
  const auto it = sessions_.find(replica_id);
  return it == sessions_.end() ? Pulse() : it->second.pulse;
}

std::set<std::string> ReplicaSessions::TakeWaiting() {
  MutexLock lock(&mutex_);
  return std::exchange(waiting_, {});
}

void ReplicaSessions::NoteGroup(const std::string& replica_id, int64_t group) {
  MutexLock lock(&mutex_);
  int64_t& newest = sessions_[replica_id].newest_group;
  newest = std::max(newest, group);
}

int64_t ReplicaSessions::NewestGroup(const std::string& replica_id) const {
  MutexLock lock(&mutex_);
  const auto it = sessions_.find(replica_id);
  return it == sessions_.end() ? -1 : it->second.newest_group;
}

void ReplicaSessions::NoteOwesPlan(const std::string& replica_id, bool owes) {
  MutexLock lock(&mutex_);
  sessions_[replica_id].owes_plan = owes;
}

bool ReplicaSessions::OwesPlan(const std::string& replica_id) const {
  MutexLock lock(&mutex_);
  const auto it = sessions_.find(replica_id);
  return it != sessions_.end() && it->second.owes_plan;
}

v1::HeartbeatResponse ReplicaSessions::Pending(const std::string& replica_id) {
  v1::HeartbeatResponse response;
  response.set_command(v1::REPLICA_COMMAND_NONE);
  MutexLock lock(&mutex_);
  const auto it = sessions_.find(replica_id);
  if (it == sessions_.end() || it->second.commands.empty()) return response;
  return it->second.commands.front();
}

void ReplicaSessions::Command(const std::string& replica_id, v1::ReplicaCommand command,
                              const std::string& reason, const v1::GroupPlan& plan) {
  std::shared_ptr<ReplicaStream> stream;
  {
    MutexLock lock(&mutex_);
    Session& session = sessions_[replica_id];
    auto& commands = session.commands;
    if (!commands.empty() && commands.front().command() == v1::REPLICA_COMMAND_STOP) return;
    commands.erase(std::remove_if(commands.begin(), commands.end(),
                                  [&](const v1::HeartbeatResponse& older) {
                                    return command == v1::REPLICA_COMMAND_STOP || older.command() == command;
                                  }),
                   commands.end());
    v1::HeartbeatResponse& next = commands.emplace_back();
    next.set_command(command);
    next.set_reason(reason);
    next.set_command_id(++session.last_id);
    if (command == v1::REPLICA_COMMAND_RESCALE) {
      *next.mutable_plan() = plan;
      session.owes_plan = false;
    }
    stream = session.stream.lock();
  }
  if (stream != nullptr) stream->Poke();
}

void ReplicaSessions::Forget(const std::string& replica_id, const absl::Status& why) {
  std::shared_ptr<ReplicaStream> stream;
  {
    MutexLock lock(&mutex_);
    const auto it = sessions_.find(replica_id);
    if (it == sessions_.end()) return;
    stream = it->second.stream.lock();
    sessions_.erase(it);
  }
  if (stream != nullptr) stream->End(why);
}

void ReplicaSessions::EndAll(const absl::Status& why) {
  std::vector<std::shared_ptr<ReplicaStream>> streams;
  {
    MutexLock lock(&mutex_);
    for (auto& [id, session] : sessions_) {
      if (auto stream = session.stream.lock()) streams.push_back(std::move(stream));
    }
  }
  for (const auto& stream : streams) stream->End(why);
}

std::optional<v1::TrainingProgress> ReplicaSessions::LatestProgress(const std::string& job_uid) {
  MutexLock lock(&mutex_);
  const auto it = progress_.find(job_uid);
  if (it == progress_.end()) return std::nullopt;
  return it->second;
}

std::map<std::string, v1::TrainingProgress> ReplicaSessions::TakeProgress() {
  MutexLock lock(&mutex_);
  return std::exchange(progress_, {});
}

void ReplicaSessions::ReturnProgress(const std::map<std::string, v1::TrainingProgress>& progress) {
  MutexLock lock(&mutex_);
  for (const auto& [uid, value] : progress) progress_.emplace(uid, value);
}

}  // namespace adaptdl::supervisor
