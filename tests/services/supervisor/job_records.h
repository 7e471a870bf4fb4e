// Jobs as the supervisor's store keeps them.

#ifndef ADAPTDL_TESTS_SERVICES_SUPERVISOR_JOB_RECORDS_H_
#define ADAPTDL_TESTS_SERVICES_SUPERVISOR_JOB_RECORDS_H_

#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "services/supervisor/store/convert.h"
#include "services/supervisor/store/job_store.h"

namespace adaptdl::supervisor {

// A pending one, job-<sequence>, that asks for 100 + `sequence` thousandths of a core.
inline JobRecord MakeJob(int64_t sequence) {
  auto job = std::make_shared<v1::Job>();
  job->set_namespace_("default");
  job->set_name(absl::StrCat("job-", sequence));
  job->set_uid(absl::StrCat("uid-", sequence));
  job->mutable_spec()->mutable_template_()->add_command("train");
  job->mutable_spec()->mutable_template_()->mutable_resources()->set_cpu_millis(100 + sequence);
  JobRecord record;
  record.sequence = sequence;
  record.job = job;
  record.state = NewState(*job);
  return record;
}

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_TESTS_SERVICES_SUPERVISOR_JOB_RECORDS_H_
