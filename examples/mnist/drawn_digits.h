// Digits drawn by program, for lack of real ones: strokes under a random affine map, with noise.

#ifndef ADAPTDL_EXAMPLES_MNIST_DRAWN_DIGITS_H_
#define ADAPTDL_EXAMPLES_MNIST_DRAWN_DIGITS_H_

#include <cstdint>

#include "examples/mnist/idx_file.h"

namespace mnist {

// The same for the same arguments, on every machine.
LabelledImages DrawDigits(int64_t count, uint64_t seed);

}  // namespace mnist

#endif  // ADAPTDL_EXAMPLES_MNIST_DRAWN_DIGITS_H_
