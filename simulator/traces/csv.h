// Small CSV files with a header line and no quotes.
//
//   absl::StatusOr<CsvTable> table = CsvTable::Read("placements.csv", {"placement", "local_bsz"});
//   absl::StatusOr<double> size = table->Number(/*row=*/0, /*column=*/1);
//
// Immutable once read; thread-safe.

#ifndef ADAPTDL_SIMULATOR_TRACES_CSV_H_
#define ADAPTDL_SIMULATOR_TRACES_CSV_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::simulator {

class CsvTable {
 public:
  // Keeps the named columns, in this order; others are ignored.
  // NOT_FOUND: no such file. INVALID_ARGUMENT: a column is missing or a line is too short, named.
  static absl::StatusOr<CsvTable> Read(const std::string& path, const std::vector<std::string>& columns);

  size_t rows() const { return cells_.size(); }

  // REQUIRES: row < rows(), column < number of columns.
  const std::string& Text(size_t row, size_t column) const { return cells_[row][column]; }

  // INVALID_ARGUMENT unless the cell is a finite number (a whole one): path, line and column are named.
  absl::StatusOr<double> Number(size_t row, size_t column) const;
  absl::StatusOr<int64_t> Integer(size_t row, size_t column) const;

 private:
  absl::Status Complaint(size_t row, size_t column, absl::string_view wanted) const;

  std::string path_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> cells_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_TRACES_CSV_H_
