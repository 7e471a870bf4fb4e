#include "services/supervisor/streams.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace adaptdl::supervisor {

void Streams::Add(const std::shared_ptr<EndableStream>& stream) {
  grpc::Status status;
  {
    MutexLock lock(&mutex_);
    if (!ended_) {
      if (streams_.size() >= sweep_at_) {
        streams_.erase(
            std::remove_if(streams_.begin(), streams_.end(), [](const auto& s) { return s.expired(); }),
            streams_.end());
        sweep_at_ = std::max<size_t>(64, 2 * streams_.size());
      }
      streams_.push_back(stream);
      return;
    }
    status = end_status_;
  }
  stream->End(status);
}

void Streams::EndAll(const grpc::Status& status) {
  std::vector<std::weak_ptr<EndableStream>> streams;
  {
    MutexLock lock(&mutex_);
    ended_ = true;
    end_status_ = status;
    streams = std::exchange(streams_, {});
  }
  for (const auto& weak : streams) {
    if (const std::shared_ptr<EndableStream> stream = weak.lock()) stream->End(status);
  }
}

}  // namespace adaptdl::supervisor
