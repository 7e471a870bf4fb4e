// Connections that several callers share each. Thread-safe.

#ifndef ADAPTDL_BENCH_LOAD_SHARED_CONNECTIONS_H_
#define ADAPTDL_BENCH_LOAD_SHARED_CONNECTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "grpcpp/channel.h"
#include "libs/base/mutex.h"

namespace adaptdl::load {

class SharedConnections {
 public:
  SharedConnections(int callers, std::function<std::shared_ptr<grpc::Channel>()> connect)
      : callers_(callers), connect_(std::move(connect)) {}

  std::shared_ptr<grpc::Channel> Next() {
    MutexLock lock(&mutex_);
    if (used_++ % callers_ == 0) channel_ = connect_();
    return channel_;
  }

 private:
  const int64_t callers_;
  const std::function<std::shared_ptr<grpc::Channel>()> connect_;
  Mutex mutex_;
  int64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::load

#endif  // ADAPTDL_BENCH_LOAD_SHARED_CONNECTIONS_H_
