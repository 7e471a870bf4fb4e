// Between a job's record in memory and the form in which the store keeps it (stored_job.proto). Thread-safe.
//
// The store keeps beside that form: the record's sequence, what the user asked for, and the tokens. Nobody
// keeps what a restart begins anew (starting_since and faults of the state) or finds out from the rest
// (tells_progress, what the user asked for, and the steady times of what JobRecord::times holds: retry_time,
// start_time, completion_time; see state/load.h).

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_JOB_CODEC_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_JOB_CODEC_H_

#include "services/supervisor/store/records.h"
#include "services/supervisor/store/stored_job.pb.h"

namespace adaptdl::supervisor {

using StoredJob = store::v1::StoredJob;

StoredJob ToStored(const JobRecord& record);

// Fills in all of the record that `stored` has. `record->job` is there, and nothing else that it would
// replace.
void FromStored(const StoredJob& stored, JobRecord* record);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_JOB_CODEC_H_
