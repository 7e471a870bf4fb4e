// Fields of an object of JSON that are left out where they have their default. Inside this folder only.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_PUT_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_PUT_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/kube/json/json.h"

namespace adaptdl::supervisor {

// Default: 0, false, an empty list.
template <typename Value>
void Put(const char* name, const Value& value, kube::Json* object) {
  if (!(value == Value())) (*object)[name] = value;
}

inline void Put(const char* name, const std::string& text, kube::Json* object) {
  if (!text.empty()) (*object)[name] = text;
}
inline void Put(const char* name, const char* text, kube::Json* object) {
  Put(name, std::string(text), object);
}
// Default: InfinitePast.
inline void Put(const char* name, absl::Time time, kube::Json* object) {
  if (time != absl::InfinitePast()) (*object)[name] = kube::MicroTimeText(time);
}
inline void Put(const char* name, absl::Duration duration, kube::Json* object) {
  if (duration != absl::ZeroDuration()) (*object)[name] = absl::FormatDuration(duration);
}

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_PUT_H_
