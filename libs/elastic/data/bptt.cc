#include "adaptdl/bptt.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/elastic/job/job_core.h"

namespace adaptdl {
namespace {

// The last token is a target only.
int64_t ColumnSize(Job& job, int64_t text_size, const BpttOptions& options) {
  if (options.columns < 1 || options.length < 1) {
    job.core().ending().FailUsage(absl::StrCat("columns is ", options.columns, " and length is ",
                                               options.length, "; give at least 1 each"));
  }
  const int64_t size = (text_size - 1) / options.columns;
  if (size < 1) {
    job.core().ending().FailUsage(
        absl::StrCat("a text of ", text_size, " tokens is too short for ", options.columns, " columns"));
  }
  return size;
}

}  // namespace

// A sample is one row of tokens of one column, counted row by row: sample i is in column i % columns.
BpttIterator::BpttIterator(Job& job, int64_t text_size, const BpttOptions& options)
    : options_(options),
      column_size_(ColumnSize(job, text_size, options)),
      loader_(job, (column_size_ + options.length - 1) / options.length * options.columns,
              {.batch_size = options.columns,
               .shuffle = false,
               .max_local_batch_size = options.max_local_batch_size}) {}

bool BpttIterator::BeginLoop() {
  before_.clear();
  return loader_.BeginLoop();
}

bool BpttIterator::Next() {
  if (!loader_.Next()) return false;
  SetRanges();
  return true;
}

bool BpttIterator::RetryAfterOutOfMemory(const std::exception& error) {
  if (!loader_.RetryAfterOutOfMemory(error)) return false;
  SetRanges();
  return true;
}

void BpttIterator::SetRanges() {
  std::vector<TokenRange> ranges;
  for (const int64_t sample : loader_.indices()) {
    const int64_t column = sample % options_.columns * column_size_;
    const int64_t row = sample / options_.columns * options_.length;
    ranges.push_back({column + row, column + std::min(row + options_.length, column_size_)});
  }
  std::vector<TokenRange>& before = before_[loader_.micro_batch()];
  const auto follows = [](const TokenRange& now, const TokenRange& then) { return now.begin == then.end; };
  continues_ = std::equal(ranges.begin(), ranges.end(), before.begin(), before.end(), follows);
  before = ranges;
  ranges_ = std::move(ranges);
}

}  // namespace adaptdl
