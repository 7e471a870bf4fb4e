// CIFAR-10's binary format: records of one label and the red, green and blue planes of a picture.

#ifndef ADAPTDL_EXAMPLES_CIFAR_CIFAR_FILE_H_
#define ADAPTDL_EXAMPLES_CIFAR_CIFAR_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cifar {

inline constexpr int kSide = 32;
inline constexpr int kChannels = 3;
inline constexpr int kClasses = 10;
inline constexpr size_t kImageBytes = size_t{kChannels} * kSide * kSide;

// Pictures one after the other: planes of red, green and blue, each row by row.
struct LabelledImages {
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;
};

// Appends the records of the file. Sets `error`, and appends nothing, if it is not what it should be.
void AppendCifarFile(const std::string& path, LabelledImages* images, std::string* error);

}  // namespace cifar

#endif  // ADAPTDL_EXAMPLES_CIFAR_CIFAR_FILE_H_
