// How the learning rate follows the batch size. A rule gives factors by which the learning rate of each
// parameter group is multiplied for one optimiser step; between steps it stays what the program has set.
//
//   class CubeRoot final : public adaptdl::ScalingRule {
//    public:
//     std::string name() const override { return "cube-root"; }
//     std::vector<double> Factors(const adaptdl::StepContext& step) override {
//       return std::vector<double>(step.sqr.size(), std::cbrt(step.scale));
//     }
//   };
//
// Thread-safety: not thread-safe; the rules here hold no state that steps change. All replicas use the same
// rule and get the same numbers, so a rule must be a function of them alone.

#ifndef ADAPTDL_SCALING_RULE_H_
#define ADAPTDL_SCALING_RULE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace adaptdl {

struct StepContext {
  // Total batch of the step by the initial batch size. > 0.
  double scale = 1;
  // Gradient statistics at the initial batch size for each parameter group: squared norm of the true
  // gradient, and trace of its covariance. As estimated: either may be negative.
  std::vector<double> sqr = {};
  std::vector<double> var = {};
  // Steps at the initial batch size that would have come as far as the steps before this one.
  double progress = 0;
  // Initial total batch size, in samples. >= 1.
  int64_t init_batch_size = 1;
};

// Progress of a step at `scale`, in steps at the initial batch size: (var + sqr) / (var / scale + sqr),
// AdaScale's gain (Johnson et al., 2020). sqr and var as estimated: sqr is taken as at least 0 and var as at
// least 1e-6. In [1, scale] for scale >= 1.
double Gain(double sqr, double var, double scale);

class ScalingRule {
 public:
  virtual ~ScalingRule() = default;

  virtual std::string name() const = 0;

  // Called once before the first step of this process.
  virtual void Initialize(int64_t /*init_batch_size*/, int /*parameter_groups*/) {}

  // One finite factor >= 0 for each group. Called in every optimiser step.
  virtual std::vector<double> Factors(const StepContext& step) = 0;

  // Whether all factors are 1 at scale 1, whatever else a step is like: programs may be told so beforehand.
  virtual bool KeepsRateAtScale1() const { return false; }
};

// Each group's gain (Johnson et al., "AdaScale SGD", 2020): for SGD.
class AdaScale final : public ScalingRule {
 public:
  std::string name() const override { return "adascale"; }
  std::vector<double> Factors(const StepContext& step) override;
  bool KeepsRateAtScale1() const override { return true; }
};

// gain^power: for Adam and its kin, whose steps do not grow with the gradient.
class AdamScale final : public ScalingRule {
 public:
  explicit AdamScale(double power = 0.5) : power_(power) {}
  std::string name() const override { return "adamscale"; }
  std::vector<double> Factors(const StepContext& step) override;
  bool KeepsRateAtScale1() const override { return true; }

 private:
  const double power_;
};

// scale (Goyal et al., "Accurate, Large Minibatch SGD", 2017).
class LinearScale final : public ScalingRule {
 public:
  std::string name() const override { return "linear"; }
  std::vector<double> Factors(const StepContext& step) override;
  bool KeepsRateAtScale1() const override { return true; }
};

// sqrt(scale) (Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014).
class SqrtScale final : public ScalingRule {
 public:
  std::string name() const override { return "sqrt"; }
  std::vector<double> Factors(const StepContext& step) override;
  bool KeepsRateAtScale1() const override { return true; }
};

// sqrt(scale) after a linear warm-up whose length in epochs grows with scale (You et al., "Large-Batch
// Training for LSTM and Beyond", 2019): sqrt(scale) * min(1, progress / (base_warmup_epochs * scale * steps
// per epoch)).
class LEGW final : public ScalingRule {
 public:
  // `base_warmup_epochs`: at the initial batch size; 0: no warm-up. `data_size`: samples in an epoch.
  LEGW(double base_warmup_epochs, int64_t data_size)
      : base_warmup_epochs_(base_warmup_epochs), data_size_(data_size) {}
  std::string name() const override { return "legw"; }
  std::vector<double> Factors(const StepContext& step) override;

 private:
  const double base_warmup_epochs_;
  const int64_t data_size_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_SCALING_RULE_H_
