#include "cli/timeline.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/format.h"
#include "cli/table.h"

namespace adaptdl::cli {
namespace {

constexpr int kNameGap = 2;
constexpr int kFewestColumns = 10;
// Columns between two marks of the axis.
constexpr int kMarkPeriod = 10;

// The shortest time per column, of those that people count in, at which `span` fits.
absl::Duration ColumnTime(absl::Duration span, int columns) {
  for (const int64_t seconds :
       {1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200}) {
    if (absl::Seconds(seconds) * columns >= span) return absl::Seconds(seconds);
  }
  const absl::Duration day = absl::Hours(24);
  return absl::Ceil(span / columns, day);
}

char Symbol(int replicas) {
  if (replicas <= 0) return '.';
  if (replicas < 10) return static_cast<char>('0' + replicas);
  if (replicas < 36) return static_cast<char>('a' + replicas - 10);
  return '+';
}

// Number of replicas that held longest within [from, to); -1 if the job was not there.
int Prevailing(const TimelineRow& row, absl::Time from, absl::Time to) {
  std::map<int, absl::Duration> held;
  absl::Time since = row.begin;
  int replicas = 0;
  const auto add = [&](absl::Time until) {
    const absl::Duration time = std::min(until, to) - std::max(since, from);
    if (time > absl::ZeroDuration()) held[replicas] += time;
  };
  for (const TimelineRow::Change& change : row.changes) {
    add(std::min(change.time, row.end));
    since = std::max(since, change.time);
    replicas = change.replicas;
  }
  add(row.end);
  const auto longest = std::max_element(held.begin(), held.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  return longest == held.end() ? -1 : longest->first;
}

std::string Axis(absl::Duration column_time, int columns) {
  std::string line;
  for (int column = 0; column < columns; column += kMarkPeriod) {
    const std::string mark = DurationText(column_time * column);
    if (static_cast<int>(line.size()) > column || column + static_cast<int>(mark.size()) > columns) continue;
    line.append(column - line.size(), ' ');
    absl::StrAppend(&line, mark);
  }
  return line;
}

}  // namespace

std::vector<TimelineRow> TimelineRows(const v1::ListJobsResponse& jobs,
                                      const v1::ListEventsResponse& events) {
  std::map<std::string, size_t> index;
  std::vector<TimelineRow> rows;
  for (const v1::Job& job : jobs.jobs()) {
    TimelineRow row;
    row.name = job.name();
    row.begin = ToTime(job.status().submit_time());
    if (job.status().has_completion_time()) row.end = ToTime(job.status().completion_time());
    index[job.uid()] = rows.size();
    rows.push_back(std::move(row));
  }
  for (const v1::Event& event : events.events()) {
    const auto found = index.find(event.job_uid());
    if (found == index.end()) continue;
    rows[found->second].changes.push_back({ToTime(event.time()), event.replicas()});
  }
  for (TimelineRow& row : rows) {
    std::stable_sort(row.changes.begin(), row.changes.end(),
                     [](const auto& a, const auto& b) { return a.time < b.time; });
  }
  return rows;
}

std::vector<TimelineRow> TimelineRows(const v1::ListTimelinesResponse& timelines) {
  std::vector<TimelineRow> rows;
  for (const v1::JobTimeline& timeline : timelines.timelines()) {
    TimelineRow row;
    row.name = timeline.name();
    row.begin = ToTime(timeline.submit_time());
    if (timeline.has_completion_time()) row.end = ToTime(timeline.completion_time());
    int replicas = 0;
    for (const v1::AllocationChange& change : timeline.changes()) {
      // Others tell of the job's phase alone.
      if (change.replicas() != replicas) row.changes.push_back({ToTime(change.time()), change.replicas()});
      replicas = change.replicas();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string RenderTimeline(const std::vector<TimelineRow>& rows, absl::Time now, int width) {
  if (rows.empty()) return "";
  absl::Time begin = absl::InfiniteFuture();
  absl::Time end = absl::InfinitePast();
  int name_width = 0;
  for (const TimelineRow& row : rows) {
    begin = std::min(begin, row.begin);
    end = std::max(end, std::min(row.end, now));
    name_width = std::max(name_width, DisplayWidth(row.name));
  }
  const absl::Duration span = std::max(end - begin, absl::Seconds(1));
  const absl::Duration column_time =
      ColumnTime(span, std::max(kFewestColumns, width - name_width - kNameGap));
  const int columns = static_cast<int>(absl::Ceil(span, column_time) / column_time);

  std::string out =
      absl::StrCat("from ", FormatSecond(begin), " UTC, one column = ", DurationText(column_time),
                   ", digit = replicas, . = waiting\n");
  for (TimelineRow row : rows) {
    row.end = std::min(row.end, now);
    std::string line = Printable(row.name);
    line.append(name_width + kNameGap - std::min(DisplayWidth(line), name_width), ' ');
    for (int column = 0; column < columns; ++column) {
      const absl::Time from = begin + column_time * column;
      const int replicas = Prevailing(row, from, from + column_time);
      line.push_back(replicas < 0 ? ' ' : Symbol(replicas));
    }
    line.resize(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, line, "\n");
  }
  absl::StrAppend(&out, std::string(name_width + kNameGap, ' '), Axis(column_time, columns), "\n");
  return out;
}

}  // namespace adaptdl::cli
