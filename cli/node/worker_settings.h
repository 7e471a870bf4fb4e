// The file of settings that the worker's systemd unit reads: lines "NAME=value", and comments. Plain functions;
// thread-safe.

#ifndef ADAPTDL_CLI_NODE_WORKER_SETTINGS_H_
#define ADAPTDL_CLI_NODE_WORKER_SETTINGS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace adaptdl::cli {

// In this order. An empty value: the setting is to have no effect.
using Settings = std::vector<std::pair<std::string, std::string>>;

// `text` with these settings: the first line that gives one of them gets the new value, what else gives it becomes a
// comment, and those that nothing gave stand at the end. All other lines stay as they are.
std::string WithSettings(absl::string_view text, const Settings& settings);

// The value that counts in `text`, the last one. Empty: there is none.
std::string SettingIn(absl::string_view text, absl::string_view name);

// INVALID_ARGUMENT: a value that systemd would read otherwise, as it holds a line end, a quote, a backslash or blanks at
// its ends.
absl::Status CheckSettings(const Settings& settings);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_NODE_WORKER_SETTINGS_H_
