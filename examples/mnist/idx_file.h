// MNIST's file format (IDX), plain or gzip-compressed.

#ifndef ADAPTDL_EXAMPLES_MNIST_IDX_FILE_H_
#define ADAPTDL_EXAMPLES_MNIST_IDX_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace mnist {

inline constexpr int kImageSide = 28;

// Images one after the other, row by row, 0 = background.
struct LabelledImages {
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;
};

// Whether `folder` holds both files of "<prefix>-images-idx3-ubyte" and "<prefix>-labels-idx1-ubyte", with or
// without
// ".gz".
bool HasIdxPair(const std::string& folder, const std::string& prefix);

// Sets `error`, and gives nothing, if a file is missing or not what it should be.
LabelledImages ReadIdxPair(const std::string& folder, const std::string& prefix, std::string* error);

}  // namespace mnist

#endif  // ADAPTDL_EXAMPLES_MNIST_IDX_FILE_H_
