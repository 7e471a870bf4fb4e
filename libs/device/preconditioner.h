// Adam's scaling of gradients, as norms see it.

#ifndef ADAPTDL_LIBS_DEVICE_PRECONDITIONER_H_
#define ADAPTDL_LIBS_DEVICE_PRECONDITIONER_H_

#include <cstdint>
#include <optional>

namespace adaptdl::device {

// Adam's scaling of a gradient g: g / p with p = root_factor * sqrt(exp_avg_sq) + epsilon, as its update has
// it. Norms of g / p are the norms that matter for Adam.
struct Preconditioner {
  double root_factor = 1;
  double epsilon = 1e-8;
};

// The preconditioner after `step` steps of Adam: root_factor = 1 / sqrt(1 - beta2^step). nullopt in the first
// steps, whose second moments say too little: gradients count as they are.
std::optional<Preconditioner> AdamPreconditioner(int64_t step, double beta2, double epsilon);

}  // namespace adaptdl::device

#endif  // ADAPTDL_LIBS_DEVICE_PRECONDITIONER_H_
