// How this replica ends before its program does: because it is not wanted any more, a peer was lost, or the
// program uses the library wrongly. Says why on stderr, finishes what must not be left half done, and leaves
// through the host.
//
// Thread-safety: Fence() from any thread; the training thread else.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_ENDING_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_ENDING_H_

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "libs/elastic/control/control_plane.h"
#include "libs/elastic/host/host.h"

namespace adaptdl::elastic {

class Ending {
 public:
  // Neither is owned.
  Ending(Host* host, ControlPlane* control) : host_(host), control_(control) {}

  // `finish` is called before the process ends. Once, before anything ends.
  void SetLastWork(std::function<void()> finish) { finish_ = std::move(finish); }

  // Another group is the job's: the training thread ends at the next occasion.
  void Fence() { fenced_ = true; }
  void ExitIfFenced();

  // Ends the process because of `status`: a lost peer is 75, anything else the program's own failure.
  [[noreturn]] void Fail(const absl::Status& status);
  // Fails unless OK.
  void Check(const absl::Status& status) {
    if (!status.ok()) Fail(status);
  }
  // Ends the process because of what its device does: if that is lost as of a lost peer, so that the replica is
  // restarted elsewhere; anything else is the program's own failure.
  [[noreturn]] void FailDevice(const absl::Status& status);
  // Ends the process because the program uses the library wrongly.
  [[noreturn]] void FailUsage(const std::string& text);
  [[noreturn]] void Exit(int code);

 private:
  Host* const host_;
  ControlPlane* const control_;
  std::function<void()> finish_;
  std::atomic<bool> fenced_{false};
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_ENDING_H_
