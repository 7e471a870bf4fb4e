#include "libs/elastic/gradients/gradient_kernels_inl.h"

namespace adaptdl::elastic::kernels {

Sums RunAvx2(const Operands<float>& operands) { return Run(operands); }
Sums RunAvx2(const Operands<double>& operands) { return Run(operands); }

}  // namespace adaptdl::elastic::kernels
