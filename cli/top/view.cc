#include "cli/top/view.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/job_order.h"

namespace adaptdl::cli {
namespace {

constexpr size_t kLongestFilter = 100;

bool FitsFilter(const v1::Job& job, const std::string& filter) {
  if (filter.empty()) return true;
  const std::string text =
      absl::AsciiStrToLower(absl::StrCat(job.namespace_(), "/", job.name(), " ", StatusText(job.status())));
  return absl::StrContains(text, absl::AsciiStrToLower(filter));
}

void PointAt(int row, const std::vector<const v1::Job*>& shown, TopView* view) {
  if (shown.empty()) return;
  view->selected = NameOf(*shown[std::clamp(row, 0, static_cast<int>(shown.size()) - 1)]);
}

void DropLastCharacter(std::string* text) {
  while (!text->empty() && (static_cast<unsigned char>(text->back()) & 0xc0) == 0x80) text->pop_back();
  if (!text->empty()) text->pop_back();
}

void TypeKey(const Key& key, TopView* view) {
  switch (key.code) {
    case KeyCode::kText:
      if (view->filter.size() < kLongestFilter) absl::StrAppend(&view->filter, key.text);
      return;
    case KeyCode::kBackspace:
      DropLastCharacter(&view->filter);
      return;
    case KeyCode::kEscape:
      view->filter.clear();
      view->is_typing = false;
      return;
    case KeyCode::kEnter:
      view->is_typing = false;
      return;
    default:
      return;
  }
}

void PressLetter(char letter, TopView* view) {
  switch (letter) {
    case 'q':
    case 'Q':
      view->quits = true;
      return;
    case 's': {
      const std::vector<std::string> keys = SortKeys();
      const auto now = std::find(keys.begin(), keys.end(), view->sort);
      view->sort = now == keys.end() || now + 1 == keys.end() ? keys.front() : *(now + 1);
      return;
    }
    case 'r':
      view->reverse = !view->reverse;
      return;
    case 'a':
      view->finished_too = !view->finished_too;
      return;
    case 'p':
    case ' ':
      view->paused = !view->paused;
      return;
    case '/':
      view->pane = TopPane::kJobs;
      view->is_typing = true;
      return;
    case 'h':
    case '?':
      view->pane = TopPane::kHelp;
      return;
    default:
      return;
  }
}

// By how many rows the key goes down. 0: it does not.
int RowsOf(const Key& key, int page) {
  constexpr int kAll = 1 << 20;
  switch (key.code) {
    case KeyCode::kUp:
      return -1;
    case KeyCode::kDown:
      return 1;
    case KeyCode::kPageUp:
      return -page;
    case KeyCode::kPageDown:
      return page;
    case KeyCode::kHome:
      return -kAll;
    case KeyCode::kEnd:
      return kAll;
    default:
      return key.text == "k" ? -1 : key.text == "j" ? 1 : 0;
  }
}

}  // namespace

std::string NameOf(const v1::Job& job) { return absl::StrCat(job.namespace_(), "/", job.name()); }

std::vector<const v1::Job*> ShownJobs(const v1::ListJobsResponse& jobs, const TopView& view, absl::Time now) {
  std::vector<const v1::Job*> shown;
  for (const v1::Job& job : jobs.jobs()) {
    const bool is_wanted = view.finished_too || !IsFinished(job.status().phase());
    if (is_wanted && FitsFilter(job, view.filter)) shown.push_back(&job);
  }
  SortJobs(view.sort, view.reverse, now, &shown);
  return shown;
}

int SelectedRow(const std::vector<const v1::Job*>& shown, const TopView& view) {
  for (size_t row = 0; row < shown.size(); ++row) {
    if (NameOf(*shown[row]) == view.selected) return static_cast<int>(row);
  }
  return 0;
}

void PressKey(const Key& key, const std::vector<const v1::Job*>& shown, int page, TopView* view) {
  if (view->is_typing) return TypeKey(key, view);
  const int rows = RowsOf(key, std::max(page, 1));
  if (rows != 0) {
    if (view->pane == TopPane::kJobs) {
      PointAt(SelectedRow(shown, *view) + rows, shown, view);
    } else {
      view->scroll = std::max(0, view->scroll + rows);
    }
    return;
  }
  if (key.code == KeyCode::kEscape || key.code == KeyCode::kBackspace) {
    if (view->pane == TopPane::kJobs) view->filter.clear();
    view->pane = TopPane::kJobs;
    view->scroll = 0;
  } else if (key.code == KeyCode::kEnter && view->pane == TopPane::kJobs && !shown.empty()) {
    PointAt(SelectedRow(shown, *view), shown, view);
    view->pane = TopPane::kJob;
    view->scroll = 0;
  } else if (key.code == KeyCode::kText && key.text.size() == 1) {
    PressLetter(key.text.front(), view);
  }
}

}  // namespace adaptdl::cli
