#include "libs/elastic/checkpoint/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/elastic/checkpoint/streaming_copy.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

constexpr char kMetadata[] = "__metadata__";
constexpr size_t kLengthBytes = 8;
// What other readers accept.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// Elements of `shape`. Negative: not countable.
int64_t Count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) return -1;
  }
  return count;
}

int64_t Bytes(const std::string& dtype, const std::vector<int64_t>& shape) {
  const int64_t element = SafetensorsElementBytes(dtype);
  const int64_t count = Count(shape);
  int64_t bytes = 0;
  if (element == 0 || count < 0 || __builtin_mul_overflow(count, element, &bytes)) return -1;
  return bytes;
}

// Throws on a key that comes twice in one object, and on more nesting than a header has.
nlohmann::json ParseHeader(absl::string_view text) {
  std::vector<std::set<std::string>> keys;
  return nlohmann::json::parse(text.begin(), text.end(),
                               [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
                                 if (depth > 3) throw std::invalid_argument("too deep");
                                 switch (event) {
                                   case nlohmann::json::parse_event_t::object_start:
                                     keys.emplace_back();
                                     break;
                                   case nlohmann::json::parse_event_t::object_end:
                                     keys.pop_back();
                                     break;
                                   case nlohmann::json::parse_event_t::key:
                                     if (!keys.back().insert(parsed.get<std::string>()).second) {
                                       throw std::invalid_argument("a name comes twice");
                                     }
                                     break;
                                   default:
                                     break;
                                 }
                                 return true;
                               });
}

int64_t Natural(const nlohmann::json& value) {
  if (!value.is_number_unsigned()) throw std::invalid_argument("a size is no natural number");
  const auto number = value.get<uint64_t>();
  if (number > uint64_t{std::numeric_limits<int64_t>::max()})
    throw std::invalid_argument("a size is too large");
  return static_cast<int64_t>(number);
}

// An entry, and where its data begin.
struct Placed {
  int64_t begin = 0;
  SafetensorsLayout::Entry entry;
};

// Throws on anything that is not as it must be.
Placed ReadEntry(const std::string& name, const nlohmann::json& json) {
  Placed placed;
  placed.entry.name = name;
  placed.entry.dtype = json.at("dtype").get<std::string>();
  const nlohmann::json& shape = json.at("shape");
  const nlohmann::json& offsets = json.at("data_offsets");
  if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2) {
    throw std::invalid_argument("a shape or range is no array");
  }
  for (const nlohmann::json& size : shape) placed.entry.shape.push_back(Natural(size));
  placed.begin = Natural(offsets[0]);
  placed.entry.bytes = Natural(offsets[1]) - placed.begin;
  if (placed.entry.bytes < 0 || placed.entry.bytes != Bytes(placed.entry.dtype, placed.entry.shape)) {
    throw std::invalid_argument(absl::StrCat("the range of ", name, " does not fit its type and shape"));
  }
  return placed;
}

// Puts entries into the order of their data. False: these overlap, or leave gaps.
bool Arrange(std::vector<Placed> placed, SafetensorsLayout* layout) {
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.begin, a.entry.bytes) < std::pair(b.begin, b.entry.bytes);
  });
  for (Placed& next : placed) {
    if (next.begin != layout->data_bytes) return false;
    layout->data_bytes += next.entry.bytes;
    layout->entries.push_back(std::move(next.entry));
  }
  return true;
}

}  // namespace

int64_t SafetensorsElementBytes(absl::string_view dtype) {
  static constexpr std::pair<absl::string_view, int64_t> kTypes[] = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"I16", 2}, {"U16", 2}, {"F16", 2}, {"BF16", 2},
      {"I32", 4},  {"U32", 4}, {"F32", 4}, {"F64", 8}, {"I64", 8}, {"U64", 8}};
  for (const auto& [name, bytes] : kTypes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

bool SafetensorsBefore(absl::string_view dtype, absl::string_view other_dtype) {
  return SafetensorsElementBytes(dtype) > SafetensorsElementBytes(other_dtype);
}

std::string SafetensorsHead(const std::vector<SafetensorsItem>& items, const SafetensorsMetadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  int64_t at = 0;
  for (const SafetensorsItem& item : items) {
    const int64_t end = at + Bytes(item.dtype, item.shape);
    // push_back, as looking every name up would be quadratic in their number.
    header.get_ref<nlohmann::ordered_json::object_t&>().push_back(
        {item.name, {{"dtype", item.dtype}, {"shape", item.shape}, {"data_offsets", {at, end}}}});
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  std::string length;
  for (size_t i = 0; i < kLengthBytes; ++i) length.push_back(static_cast<char>(text.size() >> (8 * i)));
  return length + text;
}

void WriteSafetensors(std::vector<SafetensorsItem> items, const SafetensorsMetadata& metadata,
                      std::string* to) {
  std::stable_sort(items.begin(), items.end(), [](const SafetensorsItem& a, const SafetensorsItem& b) {
    return SafetensorsBefore(a.dtype, b.dtype);
  });
  const std::string head = SafetensorsHead(items, metadata);
  size_t total = head.size();
  for (const SafetensorsItem& item : items) total += static_cast<size_t>(Bytes(item.dtype, item.shape));
  if (total > to->capacity()) {
    to->clear();
    to->reserve(total);
    PreferHugePages(to->data(), to->capacity());
  }
  to->resize(total);
  char* at = std::copy(head.begin(), head.end(), to->data());
  for (const SafetensorsItem& item : items) {
    item.copy(at);
    at += Bytes(item.dtype, item.shape);
  }
}

absl::StatusOr<SafetensorsLayout> ReadSafetensorsHead(absl::string_view bytes) {
  if (bytes.size() < kLengthBytes) return absl::DataLossError("the file is too short for a header");
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  if (length > kMaxHeaderBytes || length > bytes.size() - kLengthBytes) {
    return absl::DataLossError("the header's length exceeds the file, or what a header may have");
  }
  SafetensorsLayout layout;
  layout.head_bytes = static_cast<int64_t>(kLengthBytes + length);
  std::vector<Placed> placed;
  try {
    const nlohmann::json header = ParseHeader(bytes.substr(kLengthBytes, length));
    if (!header.is_object()) return absl::DataLossError("the header is no JSON object");
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadata) {
        layout.metadata = entry.get<SafetensorsMetadata>();
      } else {
        placed.push_back(ReadEntry(name, entry));
      }
    }
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("the header is damaged: ", error.what()));
  }
  if (!Arrange(std::move(placed), &layout)) {
    return absl::DataLossError("the tensors overlap, or leave parts of the data out");
  }
  return layout;
}

absl::StatusOr<Safetensors> ReadSafetensors(absl::string_view bytes) {
  absl::StatusOr<SafetensorsLayout> layout = ReadSafetensorsHead(bytes);
  if (!layout.ok()) return layout.status();
  absl::string_view data = bytes.substr(static_cast<size_t>(layout->head_bytes));
  if (static_cast<int64_t>(data.size()) != layout->data_bytes) {
    return absl::DataLossError("the tensors do not fit the size of the data");
  }
  Safetensors result;
  result.metadata = std::move(layout->metadata);
  for (SafetensorsLayout::Entry& entry : layout->entries) {
    const auto size = static_cast<size_t>(entry.bytes);
    result.tensors[entry.name] = {std::move(entry.dtype), std::move(entry.shape), data.substr(0, size)};
    data.remove_prefix(size);
  }
  return result;
}

}  // namespace adaptdl::elastic
