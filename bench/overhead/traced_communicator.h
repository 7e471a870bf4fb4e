// A communicator that notes when each all-reduce could begin, and when it had ended: on a device by marks that it leaves
// as it gets there, else by the clock, which sees the end of one when somebody waits for it.
//
// Thread-safety: as Communicator; TakeSpans() comes from the thread of the collectives.

#ifndef ADAPTDL_BENCH_OVERHEAD_TRACED_COMMUNICATOR_H_
#define ADAPTDL_BENCH_OVERHEAD_TRACED_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/comm/communicator.h"
#include "libs/device/device.h"

namespace adaptdl::bench {

class TracedCommunicator final : public comm::Communicator {
 public:
  struct Mark {
    double seconds = 0;
    std::unique_ptr<device::Event> event = nullptr;
  };
  // Seconds since the first one could begin.
  struct Span {
    int64_t bytes = 0;
    double begin = 0;
    double end = 0;
  };

  explicit TracedCommunicator(std::unique_ptr<comm::Communicator> inner) : inner_(std::move(inner)) {}

  // Those since the last call, all of which have ended.
  absl::StatusOr<std::vector<Span>> TakeSpans();

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  device::Device* device() const override { return inner_->device(); }
  void Abort(absl::string_view reason) override { inner_->Abort(reason); }
  void SetTimeout(absl::Duration timeout) override { inner_->SetTimeout(timeout); }
  std::optional<comm::Standing> standing() override { return inner_->standing(); }

 private:
  struct Traced {
    int64_t bytes = 0;
    device::Device* device = nullptr;
    Mark begin = {};
    Mark end = {};
  };
  class TracedWork;

  std::unique_ptr<comm::Work> Start(comm::Collective collective) override;

  const std::unique_ptr<comm::Communicator> inner_;
  std::vector<std::shared_ptr<Traced>> traced_;
};

}  // namespace adaptdl::bench

#endif  // ADAPTDL_BENCH_OVERHEAD_TRACED_COMMUNICATOR_H_
