#include "examples/cifar/cifar_file.h"

#include <fstream>
#include <iterator>

namespace cifar {

void AppendCifarFile(const std::string& path, LabelledImages* images, std::string* error) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  constexpr size_t kRecord = 1 + kImageBytes;
  if (!file.is_open() || bytes.empty()) {
    *error = path + " cannot be read";
  } else if (bytes.size() % kRecord != 0) {
    *error = path + " has " + std::to_string(bytes.size()) + " bytes, which is no multiple of " +
             std::to_string(kRecord);
  }
  for (size_t at = 0; at < bytes.size() && error->empty(); at += kRecord) {
    const auto label = static_cast<uint8_t>(bytes[at]);
    if (label >= kClasses) *error = path + " has the label " + std::to_string(label);
  }
  if (!error->empty()) return;
  for (size_t at = 0; at < bytes.size(); at += kRecord) {
    images->labels.push_back(static_cast<uint8_t>(bytes[at]));
    images->pixels.insert(images->pixels.end(), bytes.begin() + at + 1, bytes.begin() + at + kRecord);
  }
}

}  // namespace cifar
