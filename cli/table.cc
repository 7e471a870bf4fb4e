#include "cli/table.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace adaptdl::cli {
namespace {

constexpr int kGap = 3;
constexpr int kNarrowGap = 2;

// The columns of a table that are shown: which, how wide each is at most, and how far apart.
struct Layout {
  std::vector<size_t> columns;
  std::vector<int> widths;
  int gap = kGap;

  int width() const {
    return std::accumulate(widths.begin(), widths.end(), 0) +
           gap * std::max(0, static_cast<int>(widths.size()) - 1);
  }
};

int WidthOf(const Table& table, size_t column) {
  int width = DisplayWidth(table.headers[column]);
  for (const std::vector<Cell>& row : table.rows) width = std::max(width, DisplayWidth(row[column].text));
  return width;
}

// Takes from the widest texts, a column at a time, until they fit or have nothing to give.
void Shorten(const Table& table, int width, Layout* layout) {
  for (int surplus = layout->width() - width; surplus > 0; --surplus) {
    int* widest = nullptr;
    for (size_t i = 0; i < layout->columns.size(); ++i) {
      const int least = table.rules[layout->columns[i]].least_width;
      if (least == 0 || layout->widths[i] <= least) continue;
      if (widest == nullptr || layout->widths[i] > *widest) widest = &layout->widths[i];
    }
    if (widest == nullptr) return;
    --*widest;
  }
}

// The place in `columns` of the one that is missed least. Absent: all stay.
std::optional<size_t> First(const Table& table, const std::vector<size_t>& columns) {
  std::optional<size_t> first;
  for (size_t i = 0; i < columns.size(); ++i) {
    const int goes = table.rules[columns[i]].goes;
    if (goes > 0 && (!first.has_value() || goes > table.rules[columns[*first]].goes)) first = i;
  }
  return first;
}

Layout LayoutOf(const Table& table, int width) {
  Layout layout;
  std::vector<int> whole;
  for (size_t column = 0; column < table.headers.size(); ++column) {
    layout.columns.push_back(column);
    whole.push_back(WidthOf(table, column));
  }
  layout.widths = whole;
  if (width <= 0 || table.rules.size() != table.headers.size()) return layout;
  while (layout.width() > width) {
    layout.gap = kNarrowGap;
    Shorten(table, width, &layout);
    const std::optional<size_t> first = First(table, layout.columns);
    if (layout.width() <= width || !first.has_value()) break;
    layout.columns.erase(layout.columns.begin() + static_cast<std::ptrdiff_t>(*first));
    layout.widths.clear();
    for (const size_t column : layout.columns) layout.widths.push_back(whole[column]);
    layout.gap = kGap;
  }
  return layout;
}

void AppendRow(const std::vector<Cell>& row, const Layout& layout, bool colours, std::string* out) {
  for (size_t i = 0; i < layout.columns.size(); ++i) {
    const Cell& cell = row[layout.columns[i]];
    const std::string text = Shortened(cell.text, layout.widths[i]);
    absl::StrAppend(out, colours ? Coloured(text, cell.colour) : text);
    if (i + 1 < layout.columns.size()) out->append(layout.widths[i] - DisplayWidth(text) + layout.gap, ' ');
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

std::string Render(const Table& table, bool colours, int width) {
  const Layout layout = LayoutOf(table, width);
  std::string out;
  std::vector<Cell> headers;
  for (const std::string& header : table.headers) headers.emplace_back(header, Colour::kBold);
  AppendRow(headers, layout, colours, &out);
  for (const std::vector<Cell>& row : table.rows) AppendRow(row, layout, colours, &out);
  return out;
}

}  // namespace adaptdl::cli
