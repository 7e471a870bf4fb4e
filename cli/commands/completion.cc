#include "cli/completion.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/commands/cloud.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/output.h"

namespace adaptdl::cli {
namespace {

// Nobody waits longer after the tabulator key.
constexpr absl::Duration kPatience = absl::Seconds(1);
// More would be no help.
constexpr size_t kMostNames = 500;

// As the line says it. What it says wrongly leaves no names.
bool ApplyGlobals(const Completion& completion, Context* context) {
  try {
    for (const auto& [option, value] : completion.globals) {
      option->clear();
      option->add_result(value);
      option->run_callback();
    }
  } catch (const CLI::Error&) {
    return false;
  }
  return UseCluster(context).ok();
}

std::vector<Candidate> JobNames(const Context& context, const std::string& typed) {
  Client client(context);
  v1::ListJobsRequest request;
  // "NAMESPACE/NAME" names jobs of all.
  const bool of_all = absl::StrContains(typed, '/');
  request.set_namespace_(of_all ? "*" : context.Namespace());
  const absl::StatusOr<v1::ListJobsResponse> jobs = ListAllJobs(client, request);
  std::vector<Candidate> names;
  if (!jobs.ok()) return names;
  for (const v1::Job& job : jobs->jobs()) {
    names.push_back(
        {of_all ? absl::StrCat(job.namespace_(), "/", job.name()) : job.name(), StatusText(job.status())});
  }
  return names;
}

std::vector<Candidate> NodeNames(const Context& context) {
  Client client(context);
  const absl::StatusOr<v1::ListNodesResponse> nodes = ListAllNodes(client);
  std::vector<Candidate> names;
  if (!nodes.ok()) return names;
  for (const v1::Node& node : nodes->nodes()) {
    names.push_back({node.node_id(), EnumText(v1::NodePhase_Name(node.status().phase()), "NODE_PHASE_")});
  }
  return names;
}

absl::StatusOr<int> Offer(CLI::App& app, Context* context) {
  Completion completion = Complete(app, context->after_separator);
  if (completion.names == Names::kJobs || completion.names == Names::kNodes) {
    context->call_timeout = kPatience;
    std::vector<Candidate> names;
    if (ApplyGlobals(completion, context)) {
      names = completion.names == Names::kJobs ? JobNames(*context, completion.typed) : NodeNames(*context);
    }
    for (Candidate& name : names) {
      if (completion.candidates.size() >= kMostNames) break;
      if (!absl::StartsWith(name.text, completion.typed)) continue;
      name.text = absl::StrCat(completion.before, name.text);
      completion.candidates.push_back(std::move(name));
    }
  }
  for (const Candidate& candidate : completion.candidates) {
    Print(absl::StrCat(Printable(candidate.text), "\t", Printable(candidate.description), "\n"));
  }
  Print(completion.names == Names::kFiles     ? ":files\n"
        : completion.names == Names::kFolders ? ":folders\n"
                                              : ":none\n");
  return kExitOk;
}

}  // namespace

void AddCompletion(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand(
      "completion",
      "Print what makes a shell complete adaptdl's command lines, such as for bash: source "
      "<(adaptdl completion bash)");
  const auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->required();
  command->callback([context, shell] {
    context->action = [shell]() -> absl::StatusOr<int> {
      Print(CompletionScript(*shell));
      return kExitOk;
    };
  });
  // What those scripts call, with the words behind "--".
  app.add_subcommand("__complete", "What the last of the words behind \"--\" may be")
      ->group("")
      ->callback([&app, context] { context->action = [&app, context] { return Offer(app, context); }; });
}

}  // namespace adaptdl::cli
