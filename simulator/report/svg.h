// A canvas for self-contained SVG pictures. Not thread-safe.

#ifndef ADAPTDL_SIMULATOR_REPORT_SVG_H_
#define ADAPTDL_SIMULATOR_REPORT_SVG_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace adaptdl::simulator {

// Text with <, >, & and quotes replaced.
std::string EscapeXml(absl::string_view text);

class Svg {
 public:
  enum class Anchor { kStart, kMiddle, kEnd };
  using Points = std::vector<std::pair<double, double>>;

  Svg(double width, double height) : width_(width), height_(height) {}

  // Colours are in CSS. `title` is shown when the pointer rests on the rectangle; empty: none.
  void Rectangle(double x, double y, double width, double height, absl::string_view colour,
                 absl::string_view title = "");
  void Line(double x1, double y1, double x2, double y2, absl::string_view colour, double width = 1,
            bool dashed = false);
  void Polyline(const Points& points, absl::string_view colour, double width);
  void Polygon(const Points& points, absl::string_view colour);
  void Text(double x, double y, absl::string_view text, double size, Anchor anchor = Anchor::kStart,
            absl::string_view colour = "#333", bool bold = false);

  // The whole document.
  std::string ToString() const;

 private:
  const double width_;
  const double height_;
  std::string body_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_REPORT_SVG_H_
