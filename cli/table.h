// Text tables with aligned columns. Plain functions on values, thread-safe.

#ifndef ADAPTDL_CLI_TABLE_H_
#define ADAPTDL_CLI_TABLE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace adaptdl::cli {

enum class Colour { kNone, kRed, kGreen, kYellow, kBold };

// The text between the terminal's codes for the colour.
std::string Coloured(absl::string_view text, Colour colour);

// Columns that `text` takes on a terminal (UTF-8 characters, each one column wide).
int DisplayWidth(absl::string_view text);

struct Cell {
  Cell(std::string cell_text, Colour cell_colour = Colour::kNone)  // NOLINT(google-explicit-constructor)
      : text(std::move(cell_text)), colour(cell_colour) {}
  Cell(const char* cell_text) : text(cell_text) {}  // NOLINT(google-explicit-constructor)

  std::string text;
  Colour colour = Colour::kNone;
};

struct Table {
  std::vector<std::string> headers;
  // Each with as many cells as there are headers.
  std::vector<std::vector<Cell>> rows;
};

// One line per row under the headers; columns three blanks apart; nothing trails the last column.
std::string Render(const Table& table, bool colours);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_TABLE_H_
