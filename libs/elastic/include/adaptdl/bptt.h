// Truncated back-propagation through time: a text as columns that are read side by side, a few tokens at a
// time, by any number of replicas. An example of a loader that is built on AdaptiveDataLoader.
//
//   BpttIterator text(*job, tokens.size(), {.columns = 32, .length = 35});
//   if (text.BeginLoop()) {
//     while (text.Next()) {
//       Tensor& hidden = states[text.core().micro_batch()];
//       if (!text.continues()) hidden = Zeros();
//       for (const TokenRange& range : text.ranges()) {
//         // input: tokens [range.begin, range.end); target: the tokens after each of them
//       }
//     }
//   }
//
// The text is cut into `columns` pieces of equal length (what does not fill them is left out), and each step
// reads the next `length` tokens of every column: a step's samples are these rows of tokens, and its batch
// size is the number of columns. Replicas divide the columns among them in strides. Each token is read once
// per pass, over any sequence of re-scales. A state that is carried from step to step stays valid as long as
// the replica keeps its columns (continues()).
//
// Thread-safety: the training thread only. The job must outlive it.

#ifndef ADAPTDL_BPTT_H_
#define ADAPTDL_BPTT_H_

#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "adaptdl/data_loader.h"
#include "adaptdl/job.h"

namespace adaptdl {

struct BpttOptions {
  // Columns of the text: samples per optimiser step, over all replicas.
  int64_t columns = 1;
  // Tokens of a column per step. The last step of a pass may have fewer.
  int64_t length = 35;
  // As in DataLoaderOptions.
  int64_t max_local_batch_size = 0;
};

// Tokens [begin, end) of the text.
struct TokenRange {
  int64_t begin = 0;
  int64_t end = 0;

  bool operator==(const TokenRange&) const = default;
};

class BpttIterator {
 public:
  // `text_size`: tokens of the text, one more than can be predicted. At least 2 per column.
  BpttIterator(Job& job, int64_t text_size, const BpttOptions& options);

  // As AdaptiveDataLoader's.
  bool BeginLoop();
  bool Next();
  void EndLoop() { loader_.EndLoop(); }
  bool RetryAfterOutOfMemory(const std::exception& error);

  // One row of tokens per column of this replica's micro-batch, all as long.
  const std::vector<TokenRange>& ranges() const { return ranges_; }

  // Whether each row begins where that of the last step's micro-batch of the same number ended. Then the
  // state after it may be carried on.
  bool continues() const { return continues_; }

  // As AdaptiveDataLoader's; batch sizes in columns.
  void ToTensorBoard(TensorBoardWriter& writer, int64_t step, const std::string& prefix = "") const {
    loader_.ToTensorBoard(writer, step, prefix);
  }

  // What it is built on: weight, batch sizes, position.
  AdaptiveDataLoader& core() { return loader_; }

 private:
  void SetRanges();

  const BpttOptions options_;
  // Tokens of one column that are inputs.
  const int64_t column_size_;
  AdaptiveDataLoader loader_;
  std::vector<TokenRange> ranges_;
  // By number of micro-batch: its last ranges.
  std::map<int64_t, std::vector<TokenRange>> before_;
  bool continues_ = false;
};

}  // namespace adaptdl

#endif  // ADAPTDL_BPTT_H_
