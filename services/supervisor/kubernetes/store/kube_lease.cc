#include "services/supervisor/kubernetes/store/kube_lease.h"

namespace adaptdl::supervisor {

absl::Status KubeLease::RaiseAbove(int64_t term, const std::stop_token& stop) {
  return election_.term() > term ? absl::OkStatus() : election_.RaiseTerm(term + 1, stop);
}

}  // namespace adaptdl::supervisor
