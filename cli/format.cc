#include "cli/format.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace adaptdl::cli {
namespace {

// Null: the program reports none. It may well be 0.
const v1::ReportedMetric* LossOf(const v1::JobStatus& status) {
  for (const v1::ReportedMetric& metric : status.progress().metrics()) {
    if (metric.name() == "loss") return &metric;
  }
  return nullptr;
}

// What is wrong with a job that runs. Empty: nothing that is known.
std::string TroubleOf(const v1::JobStatus& status) {
  // One that has ended well is no good with a loss that is no number.
  if (!Trains(status.phase()) && status.phase() != v1::JOB_PHASE_SUCCEEDED) return "";
  if (status.reason() == kNoSteps) return std::string(kNoSteps);
  // Its program goes on, and nothing comes of it.
  return HasDiverged(status) ? absl::StrCat("loss ", LossCell(status).text) : "";
}

}  // namespace

std::string DurationText(absl::Duration duration) {
  const int64_t seconds = std::max<int64_t>(0, absl::ToInt64Seconds(duration));
  if (seconds < 60) return absl::StrCat(seconds, "s");
  if (seconds < 3600) return absl::StrFormat("%dm%02ds", seconds / 60, seconds % 60);
  constexpr int64_t kDay = int64_t{24} * 3600;
  if (seconds < kDay) return absl::StrFormat("%dh%02dm", seconds / 3600, seconds / 60 % 60);
  return absl::StrFormat("%dd%02dh", seconds / kDay, seconds / 3600 % 24);
}

std::string FormatMinute(absl::Time time) {
  return absl::FormatTime("%b-%d %H:%M", time, absl::UTCTimeZone());
}

std::string FormatSecond(absl::Time time) {
  return absl::FormatTime("%b-%d %H:%M:%S", time, absl::UTCTimeZone());
}

std::string FormatBytes(int64_t bytes) {
  constexpr absl::string_view kUnits[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  std::string text = unit == 0 ? absl::StrCat(bytes) : absl::StrFormat("%.1f", value);
  if (absl::EndsWith(text, ".0")) text.resize(text.size() - 2);
  return absl::StrCat(text, kUnits[unit]);
}

std::string FormatCores(int64_t millis) {
  std::string text = absl::StrFormat("%d.%03d", millis / 1000, millis % 1000);
  text.resize(text.find_last_not_of('0') + 1);
  if (absl::EndsWith(text, ".")) text.pop_back();
  return text;
}

std::string FormatResources(const v1::Resources& resources) {
  std::vector<std::string> parts;
  if (resources.cpu_millis() != 0) parts.push_back("cpu " + FormatCores(resources.cpu_millis()));
  if (resources.memory_bytes() != 0) parts.push_back("memory " + FormatBytes(resources.memory_bytes()));
  if (resources.gpus() != 0) parts.push_back(absl::StrCat("gpu ", resources.gpus()));
  for (const auto& [name, amount] : resources.extended()) {
    parts.push_back(absl::StrCat(Printable(name), " ", amount));
  }
  return parts.empty() ? "none" : absl::StrJoin(parts, ", ");
}

std::string EnumText(absl::string_view value, absl::string_view prefix) {
  if (absl::StartsWith(value, prefix)) value.remove_prefix(prefix.size());
  std::string text;
  for (const absl::string_view word : absl::StrSplit(value, '_', absl::SkipEmpty())) {
    std::string lower = absl::AsciiStrToLower(word);
    lower[0] = absl::ascii_toupper(lower[0]);
    absl::StrAppend(&text, lower);
  }
  return text;
}

bool Trains(v1::JobPhase phase) { return phase == v1::JOB_PHASE_RUNNING || phase == v1::JOB_PHASE_RESCALING; }

std::string StatusText(const v1::JobStatus& status) {
  const std::string phase = EnumText(v1::JobPhase_Name(status.phase()), "JOB_PHASE_");
  const bool cancelling = status.cancel_requested() && status.phase() != v1::JOB_PHASE_CANCELLED &&
                          status.phase() != v1::JOB_PHASE_SUCCEEDED && status.phase() != v1::JOB_PHASE_FAILED;
  const std::string reason = cancelling ? "Cancelling" : Printable(status.reason());
  // What goes well needs no reason.
  const bool well =
      !cancelling && (status.phase() == v1::JOB_PHASE_RUNNING || status.phase() == v1::JOB_PHASE_SUCCEEDED);
  const std::string trouble = cancelling ? "" : TroubleOf(status);
  if (!trouble.empty()) return absl::StrCat(phase, " (", trouble, ")");
  if (reason.empty() || reason == phase || well) return phase;
  return absl::StrCat(phase, " (", reason, ")");
}

Colour StatusColour(const v1::JobStatus& status) {
  if (!TroubleOf(status).empty()) return Colour::kRed;
  switch (status.phase()) {
    case v1::JOB_PHASE_RUNNING:
    case v1::JOB_PHASE_SUCCEEDED:
      return Colour::kGreen;
    case v1::JOB_PHASE_FAILED:
      return Colour::kRed;
    case v1::JOB_PHASE_PENDING:
    case v1::JOB_PHASE_STARTING:
    case v1::JOB_PHASE_STOPPING:
    case v1::JOB_PHASE_RESCALING:
      return Colour::kYellow;
    default:
      return Colour::kNone;
  }
}

std::string RuntimeText(const v1::JobStatus& status, absl::Time now) {
  if (!status.has_start_time()) return "-";
  const absl::Time end = status.has_completion_time() ? ToTime(status.completion_time()) : now;
  return DurationText(end - ToTime(status.start_time()));
}

std::string EtaText(const v1::JobStatus& status, absl::Time now) {
  if (!status.has_estimated_completion_time() || status.has_completion_time()) return "-";
  const absl::Duration left = ToTime(status.estimated_completion_time()) - now;
  // It takes steps more slowly than it did, or none.
  if (left <= absl::ZeroDuration()) return std::string(kOverdue);
  return DurationText(left);
}

Cell RestartsCell(const v1::JobStatus& status) {
  if (status.failures() == 0) return absl::StrCat(status.restarts());
  return {absl::StrCat(status.restarts(), " (", status.failures(), "!)"), Colour::kYellow};
}

std::string DoneText(const v1::JobStatus& status) {
  if (!status.has_progress() || !(status.progress().fraction() >= 0)) return "-";
  return absl::StrFormat("%.0f%%", std::min(status.progress().fraction(), 1.0) * 100);
}

std::string DigitsText(double value) { return std::isnan(value) ? "nan" : absl::StrFormat("%.4g", value); }

bool HasDiverged(const v1::JobStatus& status) {
  const v1::ReportedMetric* loss = LossOf(status);
  return loss != nullptr && !std::isfinite(loss->value());
}

Cell LossCell(const v1::JobStatus& status) {
  const v1::ReportedMetric* loss = LossOf(status);
  if (loss == nullptr) return "-";
  if (HasDiverged(status)) return {absl::StrCat(DigitsText(loss->value()), "!"), Colour::kRed};
  return DigitsText(loss->value());
}

std::string FigureText(double figure) {
  if (figure == 0) return "-";
  if (std::abs(figure) >= 1e9) return absl::StrFormat("%.3g", figure);
  if (std::abs(figure) >= 1e6) return absl::StrFormat("%.3gM", figure / 1e6);
  if (std::abs(figure) >= 1e4) return absl::StrFormat("%.3gk", figure / 1e3);
  if (std::abs(figure) >= 999.5) return absl::StrFormat("%.0f", figure);
  return absl::StrFormat("%.3g", figure);
}

std::string Printable(absl::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = text[i];
    // C1 controls come as 0xc2 0x80 to 0xc2 0x9f in UTF-8.
    const bool c1 = c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (c == '\n' || c == '\t') {
      result.push_back(' ');
    } else if (c < 0x20 || c == 0x7f) {
      absl::StrAppend(&result, absl::StrFormat("\\x%02x", c));
    } else if (c1) {
      absl::StrAppend(&result, absl::StrFormat("\\x%02x", static_cast<unsigned char>(text[++i])));
    } else {
      result.push_back(text[i]);
    }
  }
  return result;
}

}  // namespace adaptdl::cli
