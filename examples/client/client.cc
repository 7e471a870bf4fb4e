// Submits a job, follows it, and fetches its result:  adaptdl-client [HOST:PORT]
// ADAPTDL_CA_FILE and ADAPTDL_TOKEN_FILE say whom to trust and who it is; without them it talks in plaintext.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "adaptdl/v1/job_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"

using namespace adaptdl::v1;  // NOLINT(build/namespaces): an example is short

int Fail(const grpc::Status& status) {
  std::cerr << "client: " << status.error_message() << " (code " << status.error_code() << ")\n";
  return 1;
}

// The file that the environment variable names, without white space at its end.
std::string Read(const char* variable) {
  std::ifstream file(std::getenv(variable) != nullptr ? std::getenv(variable) : "");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return text.substr(0, text.find_last_not_of(" \n") + 1);
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  const std::string ca = Read("ADAPTDL_CA_FILE");
  if (ca.empty()) return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("supervisor.adaptdl");  // certificates name services, not hosts
  const auto token = grpc::AccessTokenCredentials(Read("ADAPTDL_TOKEN_FILE"));
  const auto credentials = grpc::CompositeChannelCredentials(grpc::SslCredentials({ca, "", ""}), token);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

int main(int argc, char** argv) {
  const auto jobs = JobService::NewStub(Connect(argc > 1 ? argv[1] : "127.0.0.1:7100"));

  SubmitJobRequest submit;
  submit.set_request_id("client-" + std::to_string(getpid()) + "-" + std::to_string(time(nullptr)));
  submit.set_generate_name("client-cc-");
  auto* replica = submit.mutable_job()->mutable_spec()->mutable_template_();
  const std::string script = "echo working; echo 42 > $ADAPTDL_SHARE_PATH/result";
  for (const std::string& word : {std::string("sh"), std::string("-c"), script}) replica->add_command(word);
  SubmitJobResponse submitted;
  grpc::ClientContext submit_context;
  submit_context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  grpc::Status status = jobs->SubmitJob(&submit_context, submit, &submitted);
  if (!status.ok()) return Fail(status);
  const std::string name = submitted.job().name();

  WatchJobsRequest watch;
  watch.set_name(name);
  grpc::ClientContext watch_context;
  const auto changes = jobs->WatchJobs(&watch_context, watch);
  JobPhase phase = JOB_PHASE_UNSPECIFIED;
  for (WatchJobsResponse change; !submitted.job().status().has_completion_time() && changes->Read(&change);) {
    if (change.has_job()) *submitted.mutable_job() = change.job();
    if (submitted.job().status().phase() == phase) continue;
    phase = submitted.job().status().phase();
    std::cout << name << ": " << JobPhase_Name(phase) << std::endl;
  }
  watch_context.TryCancel();
  if (phase != JOB_PHASE_SUCCEEDED) return 1;

  ReadFilesRequest files;
  files.set_name(name);
  files.set_folder(JOB_FOLDER_SHARE);
  files.set_path("result");
  grpc::ClientContext files_context;
  const auto chunks = jobs->ReadFiles(&files_context, files);
  for (ReadFilesResponse part; chunks->Read(&part);) std::cout << part.chunk().data();
  status = chunks->Finish();
  return status.ok() ? 0 : Fail(status);
}
