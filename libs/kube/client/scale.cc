#include "libs/kube/client/scale.h"

namespace adaptdl::kube {
namespace {

absl::StatusOr<Scale> Parse(const absl::StatusOr<Json>& answer) {
  if (!answer.ok()) return answer.status();
  return Scale{.wanted = IntegerAt(*answer, {"spec", "replicas"}),
               .present = IntegerAt(*answer, {"status", "replicas"})};
}

}  // namespace

absl::StatusOr<Scale> GetScale(const Client& client, const Target& target, const std::stop_token& stop) {
  return Parse(client.Get(target.Sub("scale"), stop));
}

absl::StatusOr<Scale> SetScale(const Client& client, const Target& target, int64_t wanted,
                               const ChangeOptions& options, const std::stop_token& stop) {
  return Parse(client.MergePatch(target.Sub("scale"), {{"spec", {{"replicas", wanted}}}}, options, stop));
}

}  // namespace adaptdl::kube
