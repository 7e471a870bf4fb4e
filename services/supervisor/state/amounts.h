// Sums of resources, over all kinds alike. A plain value; thread-safe as such.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_AMOUNTS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_AMOUNTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "adaptdl/v1/resources.pb.h"

namespace adaptdl::supervisor {

class Amounts {
 public:
  Amounts() = default;
  explicit Amounts(const v1::Resources& resources);

  void Add(const Amounts& other, int64_t times = 1);
  // Of each kind the larger amount.
  void RaiseTo(const Amounts& other);

  // What of this does not fit into `capacity`, for people ("cpu_millis: 3000 of 2000"). Empty: all of it
  // fits.
  std::string Excess(const Amounts& capacity) const;

  v1::Resources ToProto() const;

 private:
  std::map<std::string, int64_t> values_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_AMOUNTS_H_
