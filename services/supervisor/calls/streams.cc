#include "services/supervisor/calls/streams.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/rpc/status.h"

namespace adaptdl::supervisor {

void EnterAsStranger(service::Strangers* strangers, const std::string& host, EndableStream* stream) {
  strangers->Enter(stream, host, [weak = stream->weak_from_this()](const absl::Status& why) {
    if (const auto alive = weak.lock()) alive->End(rpc::ToGrpcStatus(why));
  });
}

void Streams::Add(const std::shared_ptr<EndableStream>& stream, std::function<absl::Status()> allowed) {
  grpc::Status status;
  {
    MutexLock lock(&mutex_);
    if (!ended_) {
      if (streams_.size() >= sweep_at_) {
        std::erase_if(streams_, [](const Entry& entry) { return entry.stream.expired(); });
        sweep_at_ = std::max<size_t>(64, 2 * streams_.size());
      }
      streams_.push_back({stream, std::move(allowed)});
      return;
    }
    status = end_status_;
  }
  stream->End(status);
}

void Streams::EndDisallowed() {
  std::vector<Entry> limited;
  {
    MutexLock lock(&mutex_);
    std::copy_if(streams_.begin(), streams_.end(), std::back_inserter(limited),
                 [](const Entry& entry) { return entry.allowed != nullptr && !entry.stream.expired(); });
  }
  for (const Entry& entry : limited) {
    const absl::Status status = entry.allowed();
    if (status.ok() || absl::IsUnavailable(status)) continue;
    if (const std::shared_ptr<EndableStream> stream = entry.stream.lock())
      stream->End(rpc::ToGrpcStatus(status));
  }
}

void Streams::EndAll(const grpc::Status& status) {
  std::vector<Entry> streams;
  {
    MutexLock lock(&mutex_);
    ended_ = true;
    end_status_ = status;
    streams = std::exchange(streams_, {});
  }
  for (const Entry& entry : streams) {
    if (const std::shared_ptr<EndableStream> stream = entry.stream.lock()) stream->End(status);
  }
}

void Streams::CheckReaders(absl::Time now, absl::Duration patience) {
  std::vector<std::weak_ptr<EndableStream>> streams;
  {
    MutexLock lock(&mutex_);
    if (now < next_check_) return;
    next_check_ = now + patience / 4;
    for (const Entry& entry : streams_) streams.push_back(entry.stream);
  }
  for (const auto& weak : streams) {
    if (const std::shared_ptr<EndableStream> stream = weak.lock()) stream->CheckReader(now, patience);
  }
}

}  // namespace adaptdl::supervisor
