#include "services/supervisor/logs/worker_channels.h"

#include <memory>
#include <string>

#include "libs/rpc/channel.h"

namespace adaptdl::supervisor {
namespace {

// Nodes come and go; unused connections are dropped when there are more than this.
constexpr size_t kMaxIdle = 256;

}  // namespace

std::shared_ptr<v1::LogService::Stub> WorkerChannels::LogStub(const std::string& address) {
  MutexLock lock(&mutex_);
  if (stubs_.size() > kMaxIdle) {
    for (auto it = stubs_.begin(); it != stubs_.end();) {
      it = it->second.use_count() == 1 ? stubs_.erase(it) : std::next(it);
    }
  }
  std::shared_ptr<v1::LogService::Stub>& stub = stubs_[address];
  if (stub == nullptr) stub = v1::LogService::NewStub(rpc::CreateChannel(address, credentials_));
  return stub;
}

}  // namespace adaptdl::supervisor
