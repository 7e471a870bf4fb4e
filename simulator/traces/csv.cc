#include "simulator/traces/csv.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/file.h"

namespace adaptdl::simulator {
namespace {

// The header is line 1.
size_t LineOf(size_t row) { return row + 2; }

}  // namespace

absl::StatusOr<CsvTable> CsvTable::Read(const std::string& path, const std::vector<std::string>& columns) {
  absl::StatusOr<std::string> content = ReadWholeFile(path);
  if (!content.ok()) {
    return content.status();
  }
  std::vector<absl::string_view> lines = absl::StrSplit(*content, '\n');
  const std::vector<std::string> header = absl::StrSplit(absl::StripAsciiWhitespace(lines[0]), ',');
  CsvTable table;
  table.path_ = path;
  table.columns_ = columns;
  std::vector<size_t> positions;
  for (const std::string& column : columns) {
    const auto found = std::find(header.begin(), header.end(), column);
    if (found == header.end()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": no column \"", column, "\" in the first line"));
    }
    positions.push_back(static_cast<size_t>(found - header.begin()));
  }
  for (size_t i = 1; i < lines.size(); ++i) {
    const absl::string_view line = absl::StripAsciiWhitespace(lines[i]);
    if (line.empty()) {
      continue;
    }
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
    std::vector<std::string> row;
    for (const size_t position : positions) {
      if (position >= fields.size()) {
        return absl::InvalidArgumentError(absl::StrCat(path, ", line ", i + 1, ": ", fields.size(),
                                                       " fields; the first line names ", header.size()));
      }
      row.emplace_back(fields[position]);
    }
    table.cells_.push_back(std::move(row));
  }
  return table;
}

absl::Status CsvTable::Complaint(size_t row, size_t column, absl::string_view wanted) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ", line ", LineOf(row), ": ", columns_[column],
                                                 " is \"", Text(row, column), "\"; it must be ", wanted));
}

absl::StatusOr<double> CsvTable::Number(size_t row, size_t column) const {
  double value = 0;
  if (!absl::SimpleAtod(Text(row, column), &value) || !std::isfinite(value)) {
    return Complaint(row, column, "a finite number");
  }
  return value;
}

absl::StatusOr<int64_t> CsvTable::Integer(size_t row, size_t column) const {
  int64_t value = 0;
  if (!absl::SimpleAtoi(Text(row, column), &value)) {
    return Complaint(row, column, "a whole number");
  }
  return value;
}

}  // namespace adaptdl::simulator
