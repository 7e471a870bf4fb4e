#include "cli/table.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace adaptdl::cli {
namespace {

constexpr int kGap = 3;

void AppendRow(const std::vector<Cell>& row, const std::vector<int>& widths, bool colours, std::string* out) {
  for (size_t column = 0; column < row.size(); ++column) {
    const Cell& cell = row[column];
    absl::StrAppend(out, colours ? Coloured(cell.text, cell.colour) : cell.text);
    if (column + 1 < row.size()) out->append(widths[column] - DisplayWidth(cell.text) + kGap, ' ');
  }
  out->push_back('\n');
}

}  // namespace

std::string Coloured(absl::string_view text, Colour colour) {
  absl::string_view code;
  switch (colour) {
    case Colour::kNone:
      return std::string(text);
    case Colour::kRed:
      code = "31";
      break;
    case Colour::kGreen:
      code = "32";
      break;
    case Colour::kYellow:
      code = "33";
      break;
    case Colour::kBold:
      code = "1";
      break;
  }
  return absl::StrCat("\x1b[", code, "m", text, "\x1b[0m");
}

int DisplayWidth(absl::string_view text) {
  return static_cast<int>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string Render(const Table& table, bool colours) {
  std::vector<int> widths;
  std::vector<Cell> headers;
  for (size_t column = 0; column < table.headers.size(); ++column) {
    int width = DisplayWidth(table.headers[column]);
    for (const std::vector<Cell>& row : table.rows) width = std::max(width, DisplayWidth(row[column].text));
    widths.push_back(width);
    headers.push_back({table.headers[column], Colour::kBold});
  }
  std::string out;
  AppendRow(headers, widths, colours, &out);
  for (const std::vector<Cell>& row : table.rows) AppendRow(row, widths, colours, &out);
  return out;
}

}  // namespace adaptdl::cli
