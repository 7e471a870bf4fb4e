// Fixture: the real program against a made-up supervisor.

#ifndef ADAPTDL_TESTS_CLI_COMMAND_FIXTURE_H_
#define ADAPTDL_TESTS_CLI_COMMAND_FIXTURE_H_

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cli/fake_supervisor.h"
#include "tests/cli/program.h"

namespace adaptdl::cli {

class CommandTest : public testing::Test {
 protected:
  ProgramResult Run(const std::vector<std::string>& arguments) {
    return RunProgram(folder_.path(), arguments,
                      {"ADAPTDL_SUPERVISOR_ADDRESS=" + supervisor_.address(), "ADAPTDL_INSECURE=1"});
  }

  // A job "default/<name>" that ran from 2023-11-14 22:13:20 for an hour with one restart, and ended so.
  static v1::Job EndedJob(const std::string& name, v1::JobPhase phase) {
    v1::Job job;
    job.set_namespace_("default");
    job.set_name(name);
    job.set_uid("uid-" + name);
    v1::JobStatus* status = job.mutable_status();
    status->set_phase(phase);
    status->set_restarts(1);
    status->mutable_submit_time()->set_seconds(1'700'000'000);
    status->mutable_start_time()->set_seconds(1'700'000'000);
    status->mutable_completion_time()->set_seconds(1'700'003'600);
    return job;
  }

  static v1::Job PendingJob(const std::string& name) {
    v1::Job job;
    job.set_namespace_("default");
    job.set_name(name);
    job.mutable_status()->set_phase(v1::JOB_PHASE_PENDING);
    job.mutable_status()->set_reason("Unschedulable");
    return job;
  }

  FakeSupervisor supervisor_;
  TemporaryFolder folder_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_TESTS_CLI_COMMAND_FIXTURE_H_
