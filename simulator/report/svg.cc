#include "simulator/report/svg.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace adaptdl::simulator {
namespace {

std::string Join(const Svg::Points& points) {
  std::string text;
  for (const auto& [x, y] : points) {
    absl::StrAppendFormat(&text, "%.1f,%.1f ", x, y);
  }
  return text;
}

}  // namespace

std::string EscapeXml(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

void Svg::Rectangle(double x, double y, double width, double height, absl::string_view colour,
                    absl::string_view title) {
  absl::StrAppendFormat(&body_, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"", x,
                        y, width, height, colour);
  if (title.empty()) {
    body_ += "/>\n";
  } else {
    absl::StrAppend(&body_, "><title>", EscapeXml(title), "</title></rect>\n");
  }
}

void Svg::Line(double x1, double y1, double x2, double y2, absl::string_view colour, double width,
               bool dashed) {
  absl::StrAppendFormat(
      &body_,
      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%.2g\"%s/>\n", x1,
      y1, x2, y2, colour, width, dashed ? " stroke-dasharray=\"5 4\"" : "");
}

void Svg::Polyline(const Points& points, absl::string_view colour, double width) {
  absl::StrAppendFormat(&body_,
                        "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.2g\" "
                        "stroke-linejoin=\"round\"/>\n",
                        Join(points), colour, width);
}

void Svg::Polygon(const Points& points, absl::string_view colour) {
  absl::StrAppendFormat(&body_, "<polygon points=\"%s\" fill=\"%s\"/>\n", Join(points), colour);
}

void Svg::Text(double x, double y, absl::string_view text, double size, Anchor anchor,
               absl::string_view colour, bool bold) {
  const char* anchors[] = {"start", "middle", "end"};
  absl::StrAppendFormat(
      &body_, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" text-anchor=\"%s\" fill=\"%s\"%s>%s</text>\n",
      x, y, size, anchors[static_cast<int>(anchor)], colour, bold ? " font-weight=\"bold\"" : "",
      EscapeXml(text));
}

std::string Svg::ToString() const {
  return absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
      "font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s</svg>\n",
      width_, height_, width_, height_, body_);
}

}  // namespace adaptdl::simulator
