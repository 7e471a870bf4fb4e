#include "libs/scheduling/policies.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "libs/scheduling/greedy_policy.h"
#include "libs/scheduling/pollux/pollux_policy.h"
#include "libs/scheduling/sia/sia_policy.h"

namespace adaptdl::scheduling {
namespace {

using Maker = std::function<std::unique_ptr<AllocationPolicy>()>;

std::unique_ptr<AllocationPolicy> MakePollux(pollux::Variant variant) {
  return std::make_unique<pollux::PolluxPolicy>(pollux::PolluxOptions{.search = {.variant = variant}});
}

std::map<std::string, Maker> Makers() {
  return {
      {"goodput", [] { return std::make_unique<GoodputPolicy>(GoodputOptions()); }},
      {"greedy", [] { return std::make_unique<GreedyPolicy>(GreedyOptions()); }},
      {"pollux", [] { return MakePollux(pollux::Variant::kOsdi); }},
      {"pollux-master", [] { return MakePollux(pollux::Variant::kMaster); }},
      {"sia", [] { return std::make_unique<sia::SiaPolicy>(sia::SiaOptions()); }},
  };
}

}  // namespace

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : Makers()) names.push_back(name);
  return names;
}

absl::StatusOr<std::unique_ptr<AllocationPolicy>> MakePolicy(absl::string_view name) {
  const std::map<std::string, Maker> makers = Makers();
  const auto found = makers.find(std::string(name));
  if (found == makers.end()) {
    return absl::InvalidArgumentError(absl::StrCat("policy: there is no policy \"", name,
                                                   "\"; choose one of ", absl::StrJoin(PolicyNames(), ", ")));
  }
  return found->second();
}

}  // namespace adaptdl::scheduling
