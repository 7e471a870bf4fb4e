// LibTorch's learning-rate schedulers, made to survive restarts; by themselves they cannot be saved:
//
//   adaptdl::LrScheduler<torch::optim::StepLR> schedule(*job, "schedule", optimizer, /*step_size=*/30,
//                                                       /*gamma=*/0.1);
//   ... schedule.step() ...
//
// The first arguments are the job, a name that is unique in the job, and the optimiser; the others are those
// of the scheduler after its optimiser. Saved are the number of steps that the scheduler has taken and the
// learning rates of the optimiser's groups. So it is for any scheduler whose rates follow from these: StepLR,
// and one's own subclasses of LRScheduler. Not for ReduceLROnPlateau (LibTorch 2), which keeps more and shows
// nothing of it.
//
// Ownership: job and optimiser must outlive it. Thread-safety: the training thread only.

#ifndef ADAPTDL_TORCH_LR_SCHEDULER_H_
#define ADAPTDL_TORCH_LR_SCHEDULER_H_

#include <cstddef>
#include <cstdlib>
#include <ios>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "adaptdl/job.h"
#include "torch/optim/optimizer.h"
#include "torch/optim/schedulers/lr_scheduler.h"

namespace adaptdl {

template <typename Scheduler>
class LrScheduler final : public Scheduler, private CheckpointState {
 public:
  template <typename... Arguments>
  LrScheduler(Job& job, std::string name, torch::optim::Optimizer& optimizer, Arguments&&... arguments)
      : Scheduler(optimizer, std::forward<Arguments>(arguments)...),
        job_(job),
        name_(std::move(name)),
        optimizer_(optimizer) {
    restored_ = job_.Register(this);
  }
  ~LrScheduler() override { job_.Unregister(this); }
  LrScheduler(const LrScheduler&) = delete;
  LrScheduler& operator=(const LrScheduler&) = delete;

  // Does nothing when the optimiser's step came to nothing and will be repeated.
  void step() {
    if (!job_.step_is_void()) Scheduler::step();
  }
  // Steps taken, restarts included.
  unsigned steps() const { return this->step_count_; }
  // Whether it goes on from a checkpoint.
  bool restored() const { return restored_; }

 private:
  std::string name() const override { return name_; }

  // The number of steps, then each group's learning rate to the last bit.
  std::string Save() override {
    std::ostringstream text;
    text << this->step_count_ << std::hexfloat;
    for (const auto& group : optimizer_.param_groups()) text << ' ' << group.options().get_lr();
    return text.str();
  }

  bool Load(const std::string& bytes) override {
    std::istringstream text(bytes);
    unsigned steps = 0;
    if (!(text >> steps)) return false;
    std::vector<double> rates;
    // Not by >> as a double: it does not read hexadecimal floating-point numbers.
    for (std::string rate; text >> rate;) rates.push_back(std::strtod(rate.c_str(), nullptr));
    if (rates.size() != optimizer_.param_groups().size()) return false;
    this->step_count_ = steps;
    for (size_t i = 0; i < rates.size(); ++i) optimizer_.param_groups()[i].options().set_lr(rates[i]);
    return true;
  }

  Job& job_;
  const std::string name_;
  torch::optim::Optimizer& optimizer_;
  bool restored_ = false;
};

}  // namespace adaptdl

#endif  // ADAPTDL_TORCH_LR_SCHEDULER_H_
