#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/kubernetes/cluster.h"
#include "cli/kubernetes/port_forward.h"
#include "cli/kubernetes/tensorboard.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/tensorboard/boards.h"
#include "cli/tensorboard/viewer.h"
#include "libs/jobspec/checks.h"

namespace adaptdl::cli {
namespace {

constexpr char kTensorboardCommand[] = "adaptdl tensorboard";

absl::StatusOr<std::vector<Board>> FindBoards(const Context& context) {
  Client client(context);
  v1::ListJobsRequest request;
  request.set_namespace_(context.Namespace());
  const absl::StatusOr<v1::ListJobsResponse> jobs = ListAllJobs(client, request);
  if (!jobs.ok()) return jobs.status();
  return BoardsOf(*jobs);
}

// On clusters of node workers a TensorBoard is the jobs that name it: there is nothing to make, or to delete.
absl::StatusOr<int> CreateBoardOfJobs(const Context& context, const TensorboardOptions& options) {
  if (const absl::Status status = jobspec::CheckDnsLabel("NAME", options.name); !status.ok()) {
    return UsageError(status.message());
  }
  Print(absl::StrCat("tensorboard ", context.Namespace(), "/", options.name,
                     ": show it by \"adaptdl tensorboard proxy ", options.name,
                     "\", once jobs were submitted with --tensorboard ", options.name, "\n"));
  return kExitOk;
}

absl::StatusOr<int> DeleteBoardOfJobs(const Context& context, const std::string& name) {
  const absl::StatusOr<std::vector<Board>> boards = FindBoards(context);
  if (!boards.ok()) return boards.status();
  for (const Board& board : *boards) {
    if (board.name != name) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("what was logged there belongs to its jobs, and goes with them: adaptdl delete ",
                     absl::StrJoin(board.jobs, " ")));
  }
  Print(absl::StrCat("tensorboard ", Printable(name), ": no job logs there\n"));
  return kExitOk;
}

Json ToDocument(const std::vector<Board>& boards) {
  Json list = Json::array();
  for (const Board& board : boards) {
    list.push_back({{"name", board.name}, {"jobs", board.jobs}, {"unfinished", board.unfinished}});
  }
  return {{"tensorboards", list}};
}

absl::StatusOr<int> ListBoardsOfJobs(const Context& context) {
  const absl::StatusOr<std::vector<Board>> boards = FindBoards(context);
  if (!boards.ok()) return boards.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, ToDocument(*boards));
    return kExitOk;
  }
  if (boards->empty()) {
    Note("no tensorboards; submit jobs with --tensorboard NAME");
    return kExitOk;
  }
  Table table{.headers = {"NAME", "JOBS", "UNFINISHED"}, .rows = {}};
  for (const Board& board : *boards) {
    table.rows.push_back(
        {Printable(board.name), absl::StrCat(board.jobs.size()), absl::StrCat(board.unfinished)});
  }
  Print(Render(table, context.colours));
  return kExitOk;
}

absl::StatusOr<int> CreateBoard(const Context& context, const TensorboardOptions& options) {
  if (!context.kubernetes.enabled) return CreateBoardOfJobs(context, options);
  const auto cluster = Cluster::Open(context, kTensorboardCommand);
  if (!cluster.ok()) return cluster.status();
  if (absl::Status status = CreateTensorboard(**cluster, options); !status.ok()) return status;
  Print(Printable(absl::StrCat("tensorboard ", (*cluster)->name_space(), "/", options.name, " created")) +
        "\n");
  return kExitOk;
}

absl::StatusOr<int> DeleteBoard(const Context& context, const std::string& name) {
  if (!context.kubernetes.enabled) return DeleteBoardOfJobs(context, name);
  const auto cluster = Cluster::Open(context, kTensorboardCommand);
  if (!cluster.ok()) return cluster.status();
  if (absl::Status status = DeleteTensorboard(**cluster, name); !status.ok()) return status;
  Print(Printable(absl::StrCat("tensorboard ", (*cluster)->name_space(), "/", name, " deleted")) + "\n");
  return kExitOk;
}

Json ToDocument(const std::vector<TensorboardState>& states) {
  Json list = Json::array();
  for (const TensorboardState& state : states) {
    list.push_back({{"name", state.name},
                    {"nodePort", state.node_port},
                    {"size", state.size},
                    {"ready", state.ready},
                    {"replicas", state.replicas}});
  }
  return {{"tensorboards", list}};
}

std::string ToTable(const std::vector<TensorboardState>& states, bool colours) {
  Table table{.headers = {"NAME", "NODEPORT", "SIZE", "READY"}, .rows = {}};
  for (const TensorboardState& state : states) {
    table.rows.push_back({Printable(state.name), state.node_port == 0 ? "-" : absl::StrCat(state.node_port),
                          Printable(state.size), absl::StrCat(state.ready, "/", state.replicas)});
  }
  return Render(table, colours);
}

absl::StatusOr<int> ListBoards(const Context& context) {
  if (!context.kubernetes.enabled) return ListBoardsOfJobs(context);
  const auto cluster = Cluster::Open(context, kTensorboardCommand);
  if (!cluster.ok()) return cluster.status();
  const auto states = ListTensorboards(**cluster);
  if (!states.ok()) return states.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, ToDocument(*states));
  } else if (states->empty()) {
    Note("no tensorboards");
  } else {
    Print(ToTable(*states, context.colours));
  }
  return kExitOk;
}

// Until it is interrupted, which ends the process and with it the forward.
absl::StatusOr<int> ProxyBoard(const Context& context, const ViewerOptions& options) {
  if (!context.kubernetes.enabled) return ViewBoard(context, options);
  const auto cluster = Cluster::Open(context, kTensorboardCommand);
  if (!cluster.ok()) return cluster.status();
  PortForward forward((*cluster)->kubectl(),
                      {.name_space = (*cluster)->name_space(),
                       .target = absl::StrCat("service/", TensorboardObjectName(options.name)),
                       .port = kTensorboardPort,
                       .local_address = options.address,
                       .local_port = options.port});
  const absl::StatusOr<int> port = forward.WaitForPort(context.call_timeout);
  if (!port.ok()) return port.status();
  Print(absl::StrCat("http://", options.address, ":", *port, "/\n"));
  Note("Ctrl-C ends it");
  return forward.Wait();
}

}  // namespace

void AddTensorboard(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("tensorboard", "TensorBoards: show together what jobs log");
  command->require_subcommand(1);
  CLI::App* create =
      command->add_subcommand("create", "Make one; \"adaptdl submit --tensorboard\" logs there");
  const auto options = std::make_shared<TensorboardOptions>();
  create->add_option("NAME", options->name, "Name")->required();
  create->add_flag("--nodeport", options->node_port, "With --kubernetes: nodes serve it on a port of theirs");
  create->add_option("--storageclass", options->storage_class,
                     "With --kubernetes: storage class of what is logged, which many nodes can write "
                     "(ReadWriteMany). Default: the cluster's");
  create->add_option("--size", options->size, "With --kubernetes: size of it")->capture_default_str();
  create->add_option("--image", options->image, "With --kubernetes: image with TensorBoard")
      ->capture_default_str();
  create->callback([context, options] {
    context->action = [context, options] { return CreateBoard(*context, *options); };
  });

  CLI::App* list = command->add_subcommand("list", "The TensorBoards there are");
  list->callback([context] { context->action = [context] { return ListBoards(*context); }; });

  CLI::App* remove = command->add_subcommand("delete", "Delete one with all that was logged there");
  const auto name = std::make_shared<std::string>();
  remove->add_option("NAME", *name, "Name")->required();
  remove->callback(
      [context, name] { context->action = [context, name] { return DeleteBoard(*context, *name); }; });

  CLI::App* proxy = command->add_subcommand("proxy", "Show one on a port of this machine, until Ctrl-C");
  const auto where = std::make_shared<ViewerOptions>();
  proxy->add_option("NAME", where->name, "Name")->required();
  proxy->add_option("--address", where->address, "Where to listen")->capture_default_str();
  proxy->add_option("-p,--port", where->port, "Port. Default: any free one")->check(CLI::Range(1, 65535));
  proxy
      ->add_option("--program", where->program,
                   "Without --kubernetes: this machine's TensorBoard, which shows it")
      ->capture_default_str();
  AddDuration(*proxy, "--refresh", &where->refresh,
              "Without --kubernetes: how often it looks for what has been logged since", absl::Seconds(1));
  proxy->callback(
      [context, where] { context->action = [context, where] { return ProxyBoard(*context, *where); }; });
}

}  // namespace adaptdl::cli
