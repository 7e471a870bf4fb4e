// Lets a group that exchanges main memory take buffers on a device too, by way of pinned main memory: for GPUs
// without NCCL.
//
//   stream of the caller ──▶ copy out ──▶ exchange, on a thread ──▶ copy back ──▶ stream of Work::Then()
//
// Collectives come in the order in which they were started, whichever memory they are of; one over main memory
// goes straight to the inner communicator when nothing is before it. Staging memory is kept and used again.
//
// A device that fails ends the group.

#ifndef ADAPTDL_LIBS_COMM_STAGED_COMMUNICATOR_H_
#define ADAPTDL_LIBS_COMM_STAGED_COMMUNICATOR_H_

#include <memory>
#include <optional>

#include "libs/comm/communicator.h"
#include "libs/device/device.h"

namespace adaptdl::comm {

class StagedCommunicator final : public Communicator {
 public:
  // `device` is not owned.
  StagedCommunicator(std::unique_ptr<Communicator> inner, device::Device* device);
  ~StagedCommunicator() override;

  int rank() const override;
  int size() const override;
  device::Device* device() const override;
  void Abort(absl::string_view reason) override;
  void SetTimeout(absl::Duration timeout) override;
  std::optional<Standing> standing() override;

  // How many pieces of staging memory there are: for tests.
  int64_t pieces() const;

 private:
  std::unique_ptr<Work> Start(Collective collective) override;
  absl::Status Run(Collective collective) override;

  class Impl;
  // Shared with the works.
  const std::shared_ptr<Impl> impl_;
};

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_STAGED_COMMUNICATOR_H_
