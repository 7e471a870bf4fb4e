#include "simulator/policies/policies.h"

#include <memory>

#include "libs/scheduling/goodput/goodput_policy.h"
#include "simulator/policies/pollux/pollux_policy.h"

namespace adaptdl::simulator {
namespace {

std::unique_ptr<scheduling::AllocationPolicy> MakePollux(pollux::Variant variant) {
  return std::make_unique<pollux::PolluxPolicy>(pollux::PolluxOptions{.search = {.variant = variant}});
}

}  // namespace

Policies PoliciesWithoutSolver() {
  return {
      {"goodput", [] { return std::make_unique<scheduling::GoodputPolicy>(scheduling::GoodputOptions()); }},
      {"pollux", [] { return MakePollux(pollux::Variant::kOsdi); }},
      {"pollux-master", [] { return MakePollux(pollux::Variant::kMaster); }},
  };
}

}  // namespace adaptdl::simulator
