#include "libs/base/say.h"

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"

namespace adaptdl {
namespace {

std::atomic<Listener> g_listener{nullptr};
std::atomic<int> g_rank{-1};

std::string FolderOf(absl::string_view path) {
  path = path.substr(0, path.rfind('/'));
  const size_t slash = path.rfind('/');
  return std::string(slash == absl::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace

void Say(Severity severity, absl::string_view text, const char* file) {
  PassOn({severity, FolderOf(file), std::string(text)});
}

void PassOn(Said said) {
  if (said.rank < 0) said.rank = g_rank;
  const Listener listener = g_listener;
  listener != nullptr ? listener(said) : SayOnStandardError(said);
}

void SayOnStandardError(const Said& said) {
  const char* const mark = said.severity == Severity::kWarning ? "WARNING: " : "";
  std::fprintf(stderr, "adaptdl: %s%s\n", mark, said.text.c_str());
}

void SetListener(Listener listener) { g_listener = listener; }
void SetSpeaker(int rank) { g_rank = rank; }

}  // namespace adaptdl
