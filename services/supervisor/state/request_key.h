// What tells a call that changes something from all others, so that a repetition of it is answered and not
// done again.
//
// An id alone would not do: whoever guesses that of another tenant would be given the answer that was the
// other's. So it counts within one caller and one namespace, and only for the call that it was made up for:
// the same method with the same content. Pure functions; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_REQUEST_KEY_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_REQUEST_KEY_H_

#include <string>

#include "adaptdl/v1/job_service.pb.h"
#include "google/protobuf/message.h"
#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

// Of a request with a field `request_id`. `caller`: who has made it, proved; empty where everybody may do
// everything. `name_space`: of what it is about; empty: of the cluster.
RequestKey KeyOf(const std::string& caller, const std::string& name_space,
                 const google::protobuf::Message& request);

// Namespace that an answer tells about; empty: none.
inline std::string NamespaceOf(const google::protobuf::Message& /*answer*/) { return ""; }
inline std::string NamespaceOf(const v1::SubmitJobResponse& answer) { return answer.job().namespace_(); }
inline std::string NamespaceOf(const v1::UpdateJobResponse& answer) { return answer.job().namespace_(); }
inline std::string NamespaceOf(const v1::CancelJobResponse& answer) { return answer.job().namespace_(); }

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_REQUEST_KEY_H_
