// Scalars for TensorBoard, from rank 0:
//
//   adaptdl::TensorBoardWriter board(*job);              // into $ADAPTDL_TENSORBOARD_LOGDIR
//   board.AddScalar("loss", loss, job->optimizer_steps());
//   parallel.ToTensorBoard(board, job->optimizer_steps());
//   loader.ToTensorBoard(board, job->optimizer_steps());
//
// Every process of the job that is rank 0 makes a file of its own in the folder, so that a restart adds to
// what is there; TensorBoard shows them as one run. Each call writes one whole record, so that a crash of the
// process loses none. A full disk or a folder that cannot be written gives one warning on stderr, and
// training goes on. On other ranks, and without a folder, nothing is written.
//
// Thread-safety: one thread at a time. The job need not outlive it.

#ifndef ADAPTDL_TENSORBOARD_H_
#define ADAPTDL_TENSORBOARD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "adaptdl/job.h"

namespace adaptdl {

namespace elastic {
class EventFile;
class Host;
}  // namespace elastic

class TensorBoardWriter {
 public:
  // `folder` is made if it is missing. Empty: what $ADAPTDL_TENSORBOARD_LOGDIR says; none if that is not set.
  explicit TensorBoardWriter(Job& job, const std::string& folder = "");
  ~TensorBoardWriter();
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  // Whether this process writes.
  bool enabled() const { return file_ != nullptr; }

  // One point of the curve `tag`; tags with the same beginning up to a '/' are shown together. Kept as
  // float32, as TensorBoard does.
  void AddScalar(const std::string& tag, double value, int64_t step);

 private:
  const std::shared_ptr<elastic::Host> host_;
  std::unique_ptr<elastic::EventFile> file_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_TENSORBOARD_H_
