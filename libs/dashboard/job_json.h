// Jobs as the pages want them: small, without what a page does not show (commands, environments). Pure; thread-safe.

#ifndef ADAPTDL_LIBS_DASHBOARD_JOB_JSON_H_
#define ADAPTDL_LIBS_DASHBOARD_JOB_JSON_H_

#include <string>

#include "adaptdl/v1/job.pb.h"
#include "nlohmann/json.hpp"

namespace adaptdl::dashboard {

// One row of the list of jobs. Times in seconds since 1970; what is unknown is left out.
nlohmann::json JobRow(const v1::Job& job);

// Above, and what a job's own page shows: replicas, the decision explained.
nlohmann::json JobDetails(const v1::Job& job);

// What the job's own model says of 1, 2, ... replicas, on one node and each on a node of its own: {"points": [{"replicas",
// "oneNode", "spread", "batchSize"}], "best": replicas}; goodput in samples per second. {"reason": ...}: there is no model yet.
nlohmann::json GoodputCurve(const v1::Job& job);

// As text; bytes that are not UTF-8 are replaced.
std::string ToText(const nlohmann::json& json);

}  // namespace adaptdl::dashboard

#endif  // ADAPTDL_LIBS_DASHBOARD_JOB_JSON_H_
