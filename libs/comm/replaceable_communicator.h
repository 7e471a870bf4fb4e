// A communicator that stays while groups come and go: it forwards to the present group's.
//
//   ReplaceableCommunicator communicator(std::move(of_group_1));
//   ...                                                        // users hold on to &communicator
//   communicator.Replace(std::move(of_group_2));               // between two collectives
//
// Thread-safety: as Communicator. Replace() comes from the thread that starts collectives; rank(), size(),
// standing() and Abort() from any.

#ifndef ADAPTDL_LIBS_COMM_REPLACEABLE_COMMUNICATOR_H_
#define ADAPTDL_LIBS_COMM_REPLACEABLE_COMMUNICATOR_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/comm/communicator.h"

namespace adaptdl::comm {

class ReplaceableCommunicator final : public Communicator {
 public:
  // Not null.
  explicit ReplaceableCommunicator(std::unique_ptr<Communicator> first) : present_(std::move(first)) {}

  // Collectives are those of `next` (not null) from now on; the one before is destroyed, so none of its Works
  // may be alive. An Abort() from before does not reach `next`.
  void Replace(std::unique_ptr<Communicator> next);

  int rank() const override;
  int size() const override;
  device::Device* device() const override;
  // Of the present communicator only.
  void Abort(absl::string_view reason) override;
  void SetTimeout(absl::Duration timeout) override;
  std::optional<Standing> standing() override;

 private:
  std::unique_ptr<Work> Start(Collective collective) override;
  absl::Status Run(Collective collective) override;
  Communicator& present() const;

  // Held while another thread uses what it guards. Collectives run without it: only their thread replaces.
  mutable Mutex mutex_;
  std::unique_ptr<Communicator> present_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_REPLACEABLE_COMMUNICATOR_H_
