#include "cli/support/network_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "cli/format.h"
#include "libs/base/random_id.h"

namespace adaptdl::cli {
namespace {

// Longer lists than adaptdl-netperf makes are not its own.
constexpr size_t kMostRounds = 1000;

std::vector<v1::Node> ReadyNodes(const v1::ListNodesResponse& nodes) {
  std::vector<v1::Node> ready;
  for (const v1::Node& node : nodes.nodes()) {
    if (node.status().phase() == v1::NODE_PHASE_READY) ready.push_back(node);
  }
  return ready;
}

absl::StatusOr<std::vector<v1::Node>> Chosen(const std::vector<v1::Node>& ready,
                                             const std::vector<std::string>& chosen) {
  std::vector<v1::Node> nodes;
  for (const std::string& id : chosen) {
    const auto node =
        std::find_if(ready.begin(), ready.end(), [&](const v1::Node& node) { return node.node_id() == id; });
    if (node == ready.end()) {
      return absl::NotFoundError(
          absl::StrCat("node ", id, " is not among those that are ready; \"adaptdl nodes\" lists them"));
    }
    const auto same = [&](const v1::Node& other) { return other.node_id() == id; };
    if (std::none_of(nodes.begin(), nodes.end(), same)) nodes.push_back(*node);
  }
  return nodes;
}

// "9.41 Gbit/s", as networks are sold.
std::string BitsText(double bytes_per_second) {
  double bits = bytes_per_second * 8;
  const char* unit = "kbit/s";
  bits /= 1e3;
  for (const char* larger : {"Mbit/s", "Gbit/s"}) {
    if (bits < 1000) break;
    bits /= 1000;
    unit = larger;
  }
  return absl::StrCat(FigureText(bits), " ", unit);
}

std::string MillisText(double seconds) { return absl::StrCat(FigureText(seconds * 1e3), " ms"); }

// Positive figures, sorted. Empty: it is no list of those.
std::vector<double> FiguresOf(const Json& answer, const char* name) {
  std::vector<double> figures;
  const auto list = answer.find(name);
  if (list == answer.end() || !list->is_array() || list->size() > kMostRounds) return {};
  for (const Json& figure : *list) {
    if (!figure.is_number() || !std::isfinite(figure.get<double>()) || figure.get<double>() <= 0) return {};
    figures.push_back(figure.get<double>());
  }
  std::sort(figures.begin(), figures.end());
  return figures;
}

std::string PairText(const NodePair& pair) {
  return absl::StrCat(Printable(pair.from.node_id()), " to ", Printable(pair.to.node_id()));
}

}  // namespace

absl::StatusOr<std::vector<NodePair>> PairsToMeasure(const v1::ListNodesResponse& nodes,
                                                     const std::vector<std::string>& chosen) {
  std::vector<v1::Node> ring = ReadyNodes(nodes);
  if (!chosen.empty()) {
    absl::StatusOr<std::vector<v1::Node>> found = Chosen(ring, chosen);
    if (!found.ok()) return found.status();
    ring = *std::move(found);
  }
  if (ring.size() < 2) {
    return absl::FailedPreconditionError(
        absl::StrCat("bandwidth is measured between two nodes at least, of which ", ring.size(),
                     ring.size() == 1 ? " is ready" : " are ready"));
  }
  std::vector<NodePair> pairs;
  for (size_t i = 0; i < ring.size() && i < kMostPairs; ++i)
    pairs.push_back({.from = ring[i], .to = ring[(i + 1) % ring.size()]});
  return pairs;
}

v1::SubmitJobRequest NetperfJob(const std::string& name_space, const v1::Node& node,
                                const std::vector<std::string>& arguments, const std::string& token) {
  v1::SubmitJobRequest request;
  request.set_request_id(RandomHex(16));
  request.set_generate_name("network-check-");
  request.mutable_job()->set_namespace_(name_space);
  v1::JobSpec* spec = request.mutable_job()->mutable_spec();
  spec->set_min_replicas(1);
  spec->set_max_replicas(1);
  // One that was stopped or has failed has nobody any more who waits for it.
  spec->set_max_restarts(0);
  spec->set_preemptible(false);
  v1::ReplicaTemplate* replica = spec->mutable_template_();
  replica->add_command("adaptdl-netperf");
  for (const std::string& argument : arguments) replica->add_args(argument);
  v1::EnvironmentVariable* variable = replica->add_env();
  variable->set_name("NETPERF_TOKEN");
  variable->set_value(token);
  // Not 0, which would be a whole core.
  replica->mutable_resources()->set_cpu_millis(1);
  replica->mutable_termination_grace_period()->set_seconds(1);
  v1::Placement* placement = replica->mutable_placement();
  v1::NodeRequirement* here = placement->add_node_terms()->add_fields();
  here->set_key("metadata.name");
  here->set_operator_(v1::NODE_OPERATOR_IN);
  here->add_values(node.node_id());
  // Nodes for certain jobs alone are measured, too.
  placement->add_tolerations()->set_any_value(true);
  return request;
}

absl::StatusOr<Json> ParseNetperfLine(absl::string_view line) {
  Json answer = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return absl::NotFoundError("no document");
  const auto error = answer.find("error");
  if (error == answer.end()) return answer;
  return absl::UnavailableError(error->is_string() ? error->get<std::string>() : "unknown error");
}

absl::StatusOr<int> PortFrom(const Json& answer) {
  const auto port = answer.find("port");
  constexpr int kLargestPort = 65535;
  if (port == answer.end() || !port->is_number_integer() || *port < 1 || *port > kLargestPort) {
    return absl::InvalidArgumentError("adaptdl-netperf tells no port: is it of this version?");
  }
  return port->get<int>();
}

absl::StatusOr<NetworkQuality> QualityFrom(const Json& answer) {
  const std::vector<double> bandwidths = FiguresOf(answer, "bytesPerSecond");
  const std::vector<double> round_trips = FiguresOf(answer, "roundTripSeconds");
  if (bandwidths.empty() || round_trips.empty()) {
    return absl::InvalidArgumentError("adaptdl-netperf tells no figures: is it of this version?");
  }
  return NetworkQuality{.median_bytes_per_second = bandwidths[bandwidths.size() / 2],
                        .worst_bytes_per_second = bandwidths.front(),
                        .median_round_trip_seconds = round_trips[round_trips.size() / 2],
                        .worst_round_trip_seconds = round_trips.back()};
}

Check NetworkCheck(const NodePair& pair, const absl::StatusOr<NetworkQuality>& quality) {
  Check check{.subject = absl::StrCat("network ", PairText(pair))};
  if (quality.ok()) {
    check.text = absl::StrCat(BitsText(quality->median_bytes_per_second), " (worst ",
                              BitsText(quality->worst_bytes_per_second), "), round trip ",
                              MillisText(quality->median_round_trip_seconds), " (worst ",
                              MillisText(quality->worst_round_trip_seconds), ")");
    return check;
  }
  check.text = Printable(quality.status().message());
  if (absl::IsUnavailable(quality.status())) {
    check.verdict = Verdict::kFailure;
    check.remedy =
        "replicas on these two nodes do not reach each other either: see --replica-host of the workers, "
        "routes and "
        "firewalls";
  } else {
    check.verdict = Verdict::kWarning;
    check.remedy = "nothing is known of this network until it can be measured: docs/troubleshooting.md";
  }
  return check;
}

Json NetworkDocument(const NodePair& pair, const absl::StatusOr<NetworkQuality>& quality) {
  Json document = {{"from", pair.from.node_id()}, {"to", pair.to.node_id()}};
  if (!quality.ok()) {
    document["error"] = std::string(quality.status().message());
    return document;
  }
  document["medianBytesPerSecond"] = quality->median_bytes_per_second;
  document["worstBytesPerSecond"] = quality->worst_bytes_per_second;
  document["medianRoundTripSeconds"] = quality->median_round_trip_seconds;
  document["worstRoundTripSeconds"] = quality->worst_round_trip_seconds;
  return document;
}

}  // namespace adaptdl::cli
