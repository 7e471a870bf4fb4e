// Text tables with aligned columns. Plain functions on values, thread-safe.

#ifndef ADAPTDL_CLI_TABLE_H_
#define ADAPTDL_CLI_TABLE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/text_width.h"

namespace adaptdl::cli {

enum class Colour { kNone, kRed, kGreen, kYellow, kBold };

// The text between the terminal's codes for the colour.
std::string Coloured(absl::string_view text, Colour colour);

struct Cell {
  Cell(std::string cell_text, Colour cell_colour = Colour::kNone)  // NOLINT(google-explicit-constructor)
      : text(std::move(cell_text)), colour(cell_colour) {}
  Cell(const char* cell_text) : text(cell_text) {}  // NOLINT(google-explicit-constructor)

  std::string text;
  Colour colour = Colour::kNone;
};

// What a column gives up where lines are too narrow for all.
struct ColumnRule {
  // Its cells may be shortened to so many columns. 0: they are whole or not there.
  int least_width = 0;
  // Which columns go first: those with the largest number. 0: it stays.
  int goes = 0;
};

struct Table {
  std::vector<std::string> headers;
  // Each with as many cells as there are headers.
  std::vector<std::vector<Cell>> rows;
  // As many as there are headers, or none: nothing is given up.
  std::vector<ColumnRule> rules = {};
};

// One line per row under the headers; columns three blanks apart; nothing trails the last column. `width`: the most
// columns of a line, for which gaps get narrower, then texts shorter, then columns are left out, by the table's rules.
// 0: no bound.
std::string Render(const Table& table, bool colours, int width = 0);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_TABLE_H_
