#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/kubernetes/cluster.h"
#include "cli/kubernetes/port_forward.h"
#include "cli/kubernetes/tensorboard.h"
#include "cli/output.h"
#include "cli/table.h"

namespace adaptdl::cli {
namespace {

constexpr char kTensorboardCommand[] = "adaptdl tensorboard";

struct ProxyOptions {
  std::string name;
  std::string address = "127.0.0.1";
  int port = 0;
};

absl::StatusOr<int> CreateBoard(const Context& context, const TensorboardOptions& options) {
  const auto cluster = Cluster::Open(context, kTensorboardCommand);
  if (!cluster.ok()) return cluster.status();
  if (absl::Status status = CreateTensorboard(**cluster, options); !status.ok()) return status;
  Print(Printable(absl::StrCat("tensorboard ", (*cluster)->name_space(), "/", options.name, " created")) +
        "\n");
  return kExitOk;
}

absl::StatusOr<int> DeleteBoard(const Context& context, const std::string& name) {
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
absl::StatusOr<int> ProxyBoard(const Context& context, const ProxyOptions& options) {
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
  CLI::App* command =
      app.add_subcommand("tensorboard", "TensorBoards in a cluster of Kubernetes (--kubernetes)");
  command->require_subcommand(1);
  CLI::App* create =
      command->add_subcommand("create", "Make one; \"adaptdl submit --tensorboard\" logs there");
  const auto options = std::make_shared<TensorboardOptions>();
  create->add_option("NAME", options->name, "Name")->required();
  create->add_flag("--nodeport", options->node_port, "Nodes serve it on a port of theirs");
  create->add_option("--storageclass", options->storage_class,
                     "Storage class of what is logged, which many nodes can write (ReadWriteMany). Default: "
                     "the cluster's");
  create->add_option("--size", options->size, "Size of it")->capture_default_str();
  create->add_option("--image", options->image, "Image with TensorBoard")->capture_default_str();
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
  const auto where = std::make_shared<ProxyOptions>();
  proxy->add_option("NAME", where->name, "Name")->required();
  proxy->add_option("--address", where->address, "Where to listen")->capture_default_str();
  proxy->add_option("-p,--port", where->port, "Port. Default: any free one")->check(CLI::Range(1, 65535));
  proxy->callback(
      [context, where] { context->action = [context, where] { return ProxyBoard(*context, *where); }; });
}

}  // namespace adaptdl::cli
