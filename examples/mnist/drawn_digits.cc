#include "examples/mnist/drawn_digits.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

namespace mnist {
namespace {

struct Point {
  double x, y;
};
using Stroke = std::vector<Point>;

// From the unit interval; the standard library's distributions differ between implementations.
double Uniform(std::mt19937_64* random, double low, double high) {
  return low + (high - low) * static_cast<double>((*random)() >> 11) * 0x1p-53;
}

// Part of an ellipse, angles in turns, clockwise from the right.
Stroke Arc(Point centre, double radius_x, double radius_y, double from, double to) {
  Stroke stroke;
  constexpr int kPieces = 12;
  for (int i = 0; i <= kPieces; ++i) {
    const double angle = 2 * std::numbers::pi * (from + (to - from) * i / kPieces);
    stroke.push_back({centre.x + radius_x * std::cos(angle), centre.y + radius_y * std::sin(angle)});
  }
  return stroke;
}

// In a box from (-1, -1) at the top left to (1, 1).
std::vector<Stroke> StrokesOf(int digit) {
  switch (digit) {
    case 0:
      return {Arc({0, 0}, 0.6, 0.9, 0, 1)};
    case 1:
      return {{{-0.35, -0.5}, {0.1, -0.9}, {0.1, 0.9}}};
    case 2:
      return {Arc({0, -0.4}, 0.55, 0.5, -0.5, 0.1), {{0.45, -0.1}, {-0.6, 0.9}, {0.65, 0.9}}};
    case 3:
      return {Arc({-0.05, -0.45}, 0.55, 0.45, -0.4, 0.25), Arc({-0.05, 0.45}, 0.6, 0.45, -0.25, 0.4)};
    case 4:
      return {{{0.2, -0.9}, {-0.65, 0.3}, {0.65, 0.3}}, {{0.3, -0.3}, {0.3, 0.9}}};
    case 5:
      return {{{0.55, -0.9}, {-0.45, -0.9}, {-0.5, -0.1}}, Arc({-0.05, 0.35}, 0.6, 0.55, -0.38, 0.4)};
    case 6:
      return {Arc({0.35, 0.2}, 0.9, 1.1, -0.28, -0.5), Arc({0, 0.4}, 0.52, 0.5, 0, 1)};
    case 7:
      return {{{-0.6, -0.9}, {0.6, -0.9}, {-0.15, 0.9}}};
    case 8:
      return {Arc({0, -0.45}, 0.45, 0.45, 0, 1), Arc({0, 0.45}, 0.55, 0.45, 0, 1)};
    default:
      return {Arc({0, -0.4}, 0.5, 0.5, 0, 1), {{0.5, -0.4}, {0.4, 0.3}, {0.1, 0.9}}};
  }
}

double DistanceToSegment(Point p, Point a, Point b) {
  const double dx = b.x - a.x;
  const double dy = b.y - a.y;
  const double length = dx * dx + dy * dy;
  const double t = length == 0 ? 0 : std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length, 0.0, 1.0);
  return std::hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

// Turns, stretches, shears and moves the strokes, and jolts every point a little; to pixel coordinates.
void Distort(std::vector<Stroke>* strokes, std::mt19937_64* random) {
  const double turn = Uniform(random, -0.3, 0.3);
  const double shear = Uniform(random, -0.3, 0.3);
  const double width = Uniform(random, 6.5, 10.5);
  const double height = Uniform(random, 8, 10.5);
  const double middle = (kImageSide - 1) / 2.0;
  const double move_x = middle + Uniform(random, -2, 2);
  const double move_y = middle + Uniform(random, -2, 2);
  for (Stroke& stroke : *strokes) {
    for (Point& point : stroke) {
      const double x = (point.x + Uniform(random, -0.06, 0.06) + shear * point.y) * width;
      const double y = (point.y + Uniform(random, -0.06, 0.06)) * height;
      point = {move_x + x * std::cos(turn) - y * std::sin(turn),
               move_y + x * std::sin(turn) + y * std::cos(turn)};
    }
  }
}

void Draw(int digit, std::mt19937_64* random, uint8_t* pixels) {
  std::vector<Stroke> strokes = StrokesOf(digit);
  Distort(&strokes, random);
  const double thickness = Uniform(random, 0.8, 1.8);
  const double noise = Uniform(random, 0, 40);
  for (int y = 0; y < kImageSide; ++y) {
    for (int x = 0; x < kImageSide; ++x) {
      const Point pixel{static_cast<double>(x), static_cast<double>(y)};
      double nearest = 1e9;
      for (const Stroke& stroke : strokes) {
        for (size_t i = 1; i < stroke.size(); ++i) {
          nearest = std::min(nearest, DistanceToSegment(pixel, stroke[i - 1], stroke[i]));
        }
      }
      const double ink = 255 * std::clamp(thickness + 0.5 - nearest, 0.0, 1.0);
      pixels[y * kImageSide + x] =
          static_cast<uint8_t>(std::clamp(ink + Uniform(random, -noise, noise), 0.0, 255.0));
    }
  }
}

}  // namespace

LabelledImages DrawDigits(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  LabelledImages images;
  images.labels.resize(count);
  images.pixels.resize(static_cast<size_t>(count) * kImageSide * kImageSide);
  for (int64_t i = 0; i < count; ++i) {
    const auto digit = static_cast<int>(random() % 10);
    images.labels[i] = static_cast<uint8_t>(digit);
    Draw(digit, &random, images.pixels.data() + i * kImageSide * kImageSide);
  }
  return images;
}

}  // namespace mnist
