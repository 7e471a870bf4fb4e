#include "services/supervisor/logs/worker_log_readers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/messages/proto_time.h"
#include "services/supervisor/logs/remote_reader.h"

namespace adaptdl::supervisor {

absl::StatusOr<std::shared_ptr<LogReader>> WorkerLogReaders::Open(const LogLocation& location,
                                                                  const LogWish& wish,
                                                                  std::function<void()> notify) {
  if (location.worker_address.empty()) {
    return absl::UnavailableError(absl::StrCat("node ", location.replica.node_id(), " is gone"));
  }
  v1::StreamReplicaLogsRequest request;
  request.set_replica_id(location.replica.replica_id());
  request.set_follow(wish.follow);
  request.set_tail_lines(wish.tail_lines);
  if (wish.since != absl::InfinitePast()) *request.mutable_since() = messages::ToProto(wish.since);
  request.set_pattern(wish.pattern);
  return RemoteReader<v1::StreamReplicaLogsResponse>::Start(
      [stub = workers_.LogStub(location.worker_address), request](auto* context, auto* reactor) {
        stub->async()->StreamReplicaLogs(context, &request, reactor);
      },
      std::move(notify));
}

}  // namespace adaptdl::supervisor
