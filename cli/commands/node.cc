#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "cli/commands/commands.h"
#include "cli/node/join.h"
#include "cli/node/leave.h"

namespace adaptdl::cli {
namespace {

void AddPlaces(CLI::App* command, NodePlaces* places) {
  command->add_option("--settings", places->settings, "File of settings that the worker's unit reads")
      ->capture_default_str()
      ->type_name("FILE");
  command->add_option("--state-dir", places->state, "The worker's --state-dir")
      ->capture_default_str()
      ->type_name("DIR");
}

void AddJoin(CLI::App* node, Context* context) {
  CLI::App* command = node->add_subcommand(
      "join", "Make this machine a node: get its certificate, write its worker's settings, start its worker");
  const auto options = std::make_shared<JoinOptions>();
  command
      ->add_option("--token-file", options->token_file,
                   "File with what \"adaptdl admin join-token create\" has printed; -: standard input")
      ->required()
      ->type_name("FILE");
  command->add_option("--node", options->node_id, "What the node is called [the machine's name]")
      ->type_name("ID");
  command
      ->add_option(
          "--listen", options->listen,
          "Where its worker listens, which the supervisor and other nodes must reach [this machine's "
          "address on the way to the supervisor, port 7103]")
      ->type_name("HOST:PORT");
  command
      ->add_option("--storage-dir", options->storage,
                   "Folder for checkpoints and files of jobs, the same on all nodes [as it is set]")
      ->type_name("DIR");
  command->add_option("--security-dir", options->places.security, "Folder for the cluster's ca.pem")
      ->capture_default_str()
      ->type_name("DIR");
  AddPlaces(command, &options->places);
  command->add_flag_callback(
      "--no-start", [options] { options->start = false; }, "Do not touch systemd: start nothing");
  command->callback(
      [context, options] { context->action = [context, options] { return Join(*context, *options); }; });
}

void AddLeave(CLI::App* node, Context* context) {
  CLI::App* command = node->add_subcommand(
      "leave",
      "Take this machine out of its cluster: move its jobs, stop its worker, remove its certificate");
  const auto options = std::make_shared<LeaveOptions>();
  AddDuration(*command, "--timeout", &options->timeout, "Most time for jobs to move");
  command->add_flag("--force", options->force,
                    "Ask nobody: jobs that run here start again elsewhere, from their checkpoints");
  AddPlaces(command, &options->places);
  command->add_flag_callback(
      "--no-stop", [options] { options->stop = false; }, "Do not touch systemd: stop nothing");
  command->callback(
      [context, options] { context->action = [context, options] { return Leave(*context, *options); }; });
}

}  // namespace

void AddNode(CLI::App& app, Context* context) {
  CLI::App* node = app.add_subcommand("node", "This machine as a node of a cluster");
  node->require_subcommand(1);
  node->fallthrough();
  AddJoin(node, context);
  AddLeave(node, context);
}

}  // namespace adaptdl::cli
