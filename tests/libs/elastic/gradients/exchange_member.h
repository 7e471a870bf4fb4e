// One replica of a gradient exchange, on a CPU or on a guarded device: a described model, its exchange, and
// what the step engine would say.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_GRADIENTS_EXCHANGE_MEMBER_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_GRADIENTS_EXCHANGE_MEMBER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/comm/communicator.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/comm/staged_communicator.h"
#include "libs/elastic/gradients/gradient_exchange.h"
#include "tests/libs/elastic/device_kinds.h"
#include "tests/libs/elastic/gradients/described_model.h"

namespace adaptdl::elastic {

// One that takes buffers on `device`.
inline std::unique_ptr<comm::Communicator> Over(std::unique_ptr<comm::Communicator> inner,
                                                device::Device& device) {
  if (!device.asynchronous()) return inner;
  return comm::CreateStagedCommunicator(std::move(inner), &device).value();
}

// A forward and backward pass: its part of the step's samples, and its gradients.
struct MicroBatchPass {
  double weight = 1;
  Gradients gradients = {};
};

class ExchangeMember {
 public:
  ExchangeMember(DeviceKind kind, std::unique_ptr<comm::Communicator> communicator,
                 const ModelTensors::Layout& layout, const GradientExchange::Options& options = {})
      : device_(MakeDevice(kind)),
        communicator_(Over(std::move(communicator), device_)),
        model_(device_, layout),
        exchange_(std::make_unique<GradientExchange>(communicator_.get(), &device_, &model_, options,
                                                     Callbacks())) {}

  device::Device& device() { return device_; }
  comm::Communicator& communicator() { return *communicator_; }
  DescribedModel& model() { return model_; }
  GradientExchange& exchange() { return *exchange_; }

  // What the next pass is, and what is measured; weight and last are said by Step().
  BackwardPass pass = {};
  NoiseScale::Plan plan = {.norms = true};
  Numbers signals = {3, 4};
  int sent = 0;
  std::vector<absl::Status> told = {};

  // A whole step.
  absl::StatusOr<ExchangeResult> Step(const std::vector<MicroBatchPass>& passes) {
    RunPasses(passes);
    return exchange_->TakeResult();
  }

  // All passes of a step, the last one too.
  void RunPasses(const std::vector<MicroBatchPass>& passes) {
    for (size_t k = 0; k < passes.size(); ++k) {
      pass.weight = passes[k].weight;
      pass.last = k + 1 == passes.size();
      model_.Backward(*exchange_, passes[k].gradients);
    }
  }

  std::vector<std::optional<Numbers>> Averages() {
    std::vector<std::optional<Numbers>> averages;
    for (size_t i = 0; i < model_.layout().parameters.size(); ++i)
      averages.push_back(model_.GradientNumbers(i));
    return averages;
  }

  // The times that this thread has waited for the device in `body`, but for what the test itself reads.
  int64_t WaitsIn(const std::function<void()>& body) {
    const int64_t before = device::Device::WaitsOfThread() - model_.own_waits();
    body();
    return device::Device::WaitsOfThread() - model_.own_waits() - before;
  }

 private:
  GradientExchange::Callbacks Callbacks() {
    GradientExchange::Callbacks callbacks;
    callbacks.begin_pass = [this] { return pass; };
    callbacks.attempt = [this] { return pass.attempt; };
    callbacks.on_sent = [this] { ++sent; };
    callbacks.on_exchanged = [this](const absl::Status& status) { told.push_back(status); };
    callbacks.plan = [this](int64_t /*count*/, bool have_previous) {
      NoiseScale::Plan now = plan;
      now.compare = now.compare && have_previous;
      return now;
    };
    callbacks.signals = [this] { return signals; };
    callbacks.seconds = [this] { return ++seconds_; };
    callbacks.begin_wait = [] {};
    callbacks.end_wait = [] {};
    return callbacks;
  }

  device::Device& device_;
  const std::unique_ptr<comm::Communicator> communicator_;
  DescribedModel model_;
  double seconds_ = 0;
  const std::unique_ptr<GradientExchange> exchange_;
};

// So many members of one group, each in a thread of its own while Run() lasts.
class ExchangeGroup {
 public:
  ExchangeGroup(DeviceKind kind, int size, const ModelTensors::Layout& layout,
                const GradientExchange::Options& options = {}) {
    for (auto& communicator : comm::CreateInProcessGroup(size)) {
      members_.push_back(std::make_unique<ExchangeMember>(kind, std::move(communicator), layout, options));
    }
  }

  void Run(const std::function<void(ExchangeMember& member, size_t rank)>& body) {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < members_.size(); ++rank) {
      threads.emplace_back([this, &body, rank] { body(*members_[rank], rank); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  ExchangeMember& member(size_t rank) { return *members_[rank]; }

 private:
  std::vector<std::unique_ptr<ExchangeMember>> members_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_GRADIENTS_EXCHANGE_MEMBER_H_
