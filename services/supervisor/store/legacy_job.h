// Jobs in the form in which versions before schema 11 stored them: v1::JobStatus, columns for what it does not
// tell, and a table of plans. A job is written in today's form (job_codec.h) with its next change, so that
// those that have finished stay as they are. Not thread-safe, as the database.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_LEGACY_JOB_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_LEGACY_JOB_H_

#include <vector>

#include "services/supervisor/store/records.h"
#include "services/supervisor/store/sqlite.h"

namespace adaptdl::supervisor {

// Of the table jobs, beside "status".
inline constexpr char kLegacyJobColumns[] =
    "running_since, unschedulable, rescaling_since, rescale_note, newcomer_failures";

// Fills in the record of which `status` was stored; its other columns begin at `column` of `row`.
// `record->job` is there.
void FromLegacy(const v1::JobStatus& status, const Statement& row, int column, JobRecord* record);

// Of the table plans, in the order in which they are to be read.
inline constexpr char kLegacyPlans[] =
    "SELECT job_uid, grp, replica_id, node_id, firm, offered, since, ready_after, broken "
    "FROM plans ORDER BY job_uid, grp, rank";

// Adds a member, and its plan if it is the first of it.
void AddLegacyMember(const Statement& row, std::vector<jobs::Plan>* plans);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_LEGACY_JOB_H_
