// Members that are threads of one process: for jobs of one replica, and for tests of many.
//
//   auto members = CreateInProcessGroup(3);      // members[r] belongs to the thread that plays rank r
//
// Sums are taken in order of rank, so that results are the same in every run.
// A member that is destroyed counts as lost: the others' collectives fail with UNAVAILABLE.

#ifndef ADAPTDL_LIBS_COMM_IN_PROCESS_COMMUNICATOR_H_
#define ADAPTDL_LIBS_COMM_IN_PROCESS_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "libs/comm/communicator.h"

namespace adaptdl::comm {

std::vector<std::unique_ptr<Communicator>> CreateInProcessGroup(int size,
                                                                absl::Duration timeout = absl::Minutes(5));

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_IN_PROCESS_COMMUNICATOR_H_
