#include "libs/device/gradient_kernels_inl.h"

namespace adaptdl::device::kernels {

Sums RunAvx2(const Operands<float>& operands) { return Run(operands); }
Sums RunAvx2(const Operands<double>& operands) { return Run(operands); }

}  // namespace adaptdl::device::kernels
