// Pictures drawn by program, for lack of real ones: patterns in random colours, with noise.

#ifndef ADAPTDL_EXAMPLES_CIFAR_DRAWN_IMAGES_H_
#define ADAPTDL_EXAMPLES_CIFAR_DRAWN_IMAGES_H_

#include <cstdint>

#include "examples/cifar/cifar_file.h"

namespace cifar {

// The class is the pattern: stripes, checks, rings and the like. The same for the same arguments, on every
// machine.
LabelledImages DrawImages(int64_t count, uint64_t seed);

}  // namespace cifar

#endif  // ADAPTDL_EXAMPLES_CIFAR_DRAWN_IMAGES_H_
