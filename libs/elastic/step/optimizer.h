// The optimiser, as the step engine sees it: what a front end implements.
//
// Thread-safety: the training thread only.

#ifndef ADAPTDL_LIBS_ELASTIC_STEP_OPTIMIZER_H_
#define ADAPTDL_LIBS_ELASTIC_STEP_OPTIMIZER_H_

#include <cstddef>

#include "absl/types/span.h"

namespace adaptdl::elastic {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // How many parameters it has now, in all groups.
  virtual size_t CountParameters() const = 0;

  // Takes one step with the gradients that the parameters have, with the learning rate of each parameter group
  // multiplied by its factor, and leaves the rates as they were.
  virtual void Step(absl::Span<const double> factors) = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_STEP_OPTIMIZER_H_
