#include "adaptdl/trial.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "libs/base/say.h"
#include "libs/elastic/control/trial_params.h"

namespace adaptdl::trial {
namespace {

template <typename Value>
Value OrEnd(absl::StatusOr<Value> value) {
  if (value.ok()) return *std::move(value);
  Say(Severity::kError, value.status().ToString());
  std::fflush(nullptr);
  std::_Exit(1);
}

elastic::TrialParams Params() { return OrEnd(elastic::ReadTrialParams(elastic::GetFromProcess)); }

}  // namespace

bool Has(const std::string& name) { return Params().values.count(name) > 0; }
double Number(const std::string& name, double otherwise) {
  return OrEnd(elastic::NumberOf(Params(), name, otherwise));
}
int64_t Integer(const std::string& name, int64_t otherwise) {
  return OrEnd(elastic::IntegerOf(Params(), name, otherwise));
}
std::string Text(const std::string& name, const std::string& otherwise) {
  return OrEnd(elastic::TextOf(Params(), name, otherwise));
}
bool Flag(const std::string& name, bool otherwise) {
  return OrEnd(elastic::FlagOf(Params(), name, otherwise));
}
int TrialNumber() { return Params().number; }
std::string SearchName() { return Params().search; }

}  // namespace adaptdl::trial
