// Values as people read them. Plain functions, thread-safe.

#ifndef ADAPTDL_CLI_FORMAT_H_
#define ADAPTDL_CLI_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "adaptdl/v1/job.pb.h"
#include "adaptdl/v1/node.pb.h"
#include "adaptdl/v1/resources.pb.h"
#include "cli/table.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::cli {

using messages::ToDuration;
using messages::ToTime;

// "45s", "3m12s", "2h05m", "3d04h". Negative ones count as 0.
std::string DurationText(absl::Duration duration);

// "Nov-21 01:02", in UTC.
std::string FormatMinute(absl::Time time);
// "Nov-21 01:02:03", in UTC.
std::string FormatSecond(absl::Time time);

// "512", "1.5Ki", "31.3Gi".
std::string FormatBytes(int64_t bytes);
// "2", "0.5", "1.25": thousandths of cores as cores.
std::string FormatCores(int64_t millis);
// "cpu 2, memory 1.5Gi, gpu 1"; "none" if nothing is there.
std::string FormatResources(const v1::Resources& resources);

// Whether a job in this phase has replicas that take steps.
bool Trains(v1::JobPhase phase);
// The reason of a job that runs and takes no steps.
inline constexpr absl::string_view kNoSteps = "NoSteps";
// "Running", "Pending (Unschedulable)", "Running (loss nan!)".
std::string StatusText(const v1::JobStatus& status);
Colour StatusColour(const v1::JobStatus& status);
// Time from the job's start to its end or to `now`, "-" before the start.
std::string RuntimeText(const v1::JobStatus& status, absl::Time now);
// Time that is left by the job's own estimate, "-" while unknown, kOverdue when it has passed.
inline constexpr absl::string_view kOverdue = "overdue";
std::string EtaText(const v1::JobStatus& status, absl::Time now);

// "3", or "3 (2!)": with failures that were the job's own, of which the last one may have ended it.
Cell RestartsCell(const v1::JobStatus& status);
// Part of the work that is done, "25%"; "-" while unknown.
std::string DoneText(const v1::JobStatus& status);
// Whether the program reports a loss that is infinite or no number.
bool HasDiverged(const v1::JobStatus& status);
// The figure that the program reports as its loss, "-" if it reports none. One of a job that has diverged is red, and
// marked for who sees no colours: "nan!".
Cell LossCell(const v1::JobStatus& status);
// "0.0123", "8.25", "1234", "12.3k": four digits or so. "-" for 0, which stands for "unknown".
std::string FigureText(double figure);

// A figure with four digits that count. "nan" has no sign: "-nan" means no more, and is overlooked among "-".
std::string DigitsText(double value);

// "RUNNING" of REPLICA_STATE_RUNNING as "Running", and so on for every enum value "<prefix>SOME_NAME".
std::string EnumText(absl::string_view value, absl::string_view prefix);

// The text without what would steer a terminal: control characters become escapes.
std::string Printable(absl::string_view text);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_FORMAT_H_
