#include "examples/cifar/drawn_images.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace cifar {
namespace {

// The standard library's distributions differ between implementations.
double Uniform(std::mt19937_64* random, double low, double high) {
  return low + (high - low) * static_cast<double>((*random)() >> 11) * 0x1p-53;
}

double Wave(double x) { return std::sin(x) > 0 ? 1 : 0; }

// Of class `label` at (x, y), in pixels from the pattern's origin: 0 or 1. Flips and shifts keep the class.
double Pattern(int label, double x, double y) {
  const double radius = std::hypot(x, y);
  switch (label) {
    case 0:
      return Wave(x * 0.5);
    case 1:
      return Wave(y * 0.5);
    case 2:
      return Wave(x * 1.3);
    case 3:
      return Wave(y * 1.3);
    case 4:
      return Wave(x * 0.5) * Wave(y * 0.5);
    case 5:
      return Wave(x * 1.3) * Wave(y * 1.3);
    case 6:
      return Wave(radius * 0.8);
    case 7:
      return radius < 9 ? 1 : 0;
    case 8:
      return std::abs(x) < 3 || std::abs(y) < 3 ? 1 : 0;
    default:
      return std::max(std::abs(x), std::abs(y)) < 8 ? 1 : 0;
  }
}

void Draw(int label, std::mt19937_64* random, uint8_t* pixels) {
  const double left = Uniform(random, 12, 20);
  const double top = Uniform(random, 12, 20);
  for (int channel = 0; channel < kChannels; ++channel) {
    const double dark = Uniform(random, 20, 100);
    const double bright = Uniform(random, 130, 240);
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const double value = dark + (bright - dark) * Pattern(label, x - left, y - top);
        *pixels++ = static_cast<uint8_t>(std::clamp(value + Uniform(random, -20, 20), 0.0, 255.0));
      }
    }
  }
}

}  // namespace

LabelledImages DrawImages(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  LabelledImages images;
  images.labels.resize(count);
  images.pixels.resize(static_cast<size_t>(count) * kImageBytes);
  for (int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<int>(random() % kClasses);
    images.labels[i] = static_cast<uint8_t>(label);
    Draw(label, &random, images.pixels.data() + i * kImageBytes);
  }
  return images;
}

}  // namespace cifar
