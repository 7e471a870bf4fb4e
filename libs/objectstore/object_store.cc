#include "libs/objectstore/object_store.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/utf8.h"

namespace adaptdl::objectstore {
namespace {

constexpr size_t kMaxKeyBytes = 1024;
// Keys that are collected before they are deleted.
constexpr size_t kDeletedAtOnce = 1000;

}  // namespace

absl::Status CheckKey(absl::string_view key) {
  const auto refuse = [key](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("object key \"", absl::CEscape(key.substr(0, 256)), "\" ", why));
  };
  if (key.empty() || key.size() > kMaxKeyBytes) return refuse("is empty, or longer than 1024 bytes");
  if (ToUtf8(key) != key) return refuse("is not UTF-8");
  for (const char c : key) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) return refuse("holds a control character");
  }
  for (const absl::string_view part : absl::StrSplit(key, '/')) {
    if (part.empty() || part == "." || part == "..")
      return refuse("has an empty part, or one that is \".\" or \"..\"");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadObject(ObjectStore& store, const ObjectInfo& object, int64_t max_bytes,
                                       const std::stop_token& stop) {
  if (object.size > max_bytes) {
    return absl::OutOfRangeError(absl::StrCat("object \"", object.key, "\" has ", object.size,
                                              " bytes: at most ", max_bytes, " are expected"));
  }
  std::string content;
  const absl::Status status = store.Get(
      object, 0,
      [&](absl::string_view part) {
        absl::StrAppend(&content, part);
        return absl::OkStatus();
      },
      stop);
  if (!status.ok()) return status;
  return content;
}

absl::Status WriteObject(ObjectStore& store, const std::string& key, absl::string_view content,
                         const std::stop_token& stop) {
  return store.Put(
      key, static_cast<int64_t>(content.size()),
      [content](int64_t offset, int64_t length) {
        return std::string(content.substr(static_cast<size_t>(offset), static_cast<size_t>(length)));
      },
      stop);
}

absl::Status DeletePrefix(ObjectStore& store, const std::string& prefix, const std::stop_token& stop) {
  std::vector<std::string> keys;
  absl::Status status = store.List(
      prefix,
      [&](const ObjectInfo& object) {
        keys.push_back(object.key);
        if (keys.size() < kDeletedAtOnce) return absl::OkStatus();
        return store.Delete(std::exchange(keys, {}), stop);
      },
      stop);
  if (status.ok() && !keys.empty()) status = store.Delete(keys, stop);
  return status;
}

}  // namespace adaptdl::objectstore
