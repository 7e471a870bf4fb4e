#include "libs/elastic/safetensors.h"

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
#include "libs/elastic/streaming_copy.h"
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

std::string MakeHeader(const std::vector<SafetensorsItem>& items, const SafetensorsMetadata& metadata) {
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
  return text;
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

// Where a tensor's data lies.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  std::string name;
};

// Throws on anything that is not as it must be.
Range ReadEntry(const std::string& name, const nlohmann::json& entry, absl::string_view data,
                SafetensorsTensor* tensor) {
  tensor->dtype = entry.at("dtype").get<std::string>();
  const nlohmann::json& shape = entry.at("shape");
  const nlohmann::json& offsets = entry.at("data_offsets");
  if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2) {
    throw std::invalid_argument("a shape or range is no array");
  }
  for (const nlohmann::json& size : shape) tensor->shape.push_back(Natural(size));
  const Range range = {Natural(offsets[0]), Natural(offsets[1]), name};
  const auto total = static_cast<int64_t>(data.size());
  if (range.begin > range.end || range.end > total ||
      range.end - range.begin != Bytes(tensor->dtype, tensor->shape)) {
    throw std::invalid_argument(absl::StrCat("the range of ", name, " does not fit its type and shape"));
  }
  tensor->data = data.substr(static_cast<size_t>(range.begin), static_cast<size_t>(range.end - range.begin));
  return range;
}

// Every byte of the data belongs to one tensor.
bool HasNoGaps(std::vector<Range> ranges, size_t total) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t at = 0;
  for (const Range& range : ranges) {
    if (range.begin != at) return false;
    at = range.end;
  }
  return at == static_cast<int64_t>(total);
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

void WriteSafetensors(std::vector<SafetensorsItem> items, const SafetensorsMetadata& metadata,
                      std::string* to) {
  std::stable_sort(items.begin(), items.end(), [](const SafetensorsItem& a, const SafetensorsItem& b) {
    return SafetensorsElementBytes(a.dtype) > SafetensorsElementBytes(b.dtype);
  });
  const std::string header = MakeHeader(items, metadata);
  size_t total = kLengthBytes + header.size();
  for (const SafetensorsItem& item : items) total += static_cast<size_t>(Bytes(item.dtype, item.shape));
  if (total > to->capacity()) {
    to->clear();
    to->reserve(total);
    PreferHugePages(to->data(), to->capacity());
  }
  to->resize(total);
  char* at = to->data();
  for (size_t i = 0; i < kLengthBytes; ++i) *at++ = static_cast<char>(header.size() >> (8 * i));
  at = std::copy(header.begin(), header.end(), at);
  for (const SafetensorsItem& item : items) {
    item.copy(at);
    at += Bytes(item.dtype, item.shape);
  }
}

absl::StatusOr<Safetensors> ReadSafetensors(absl::string_view bytes) {
  if (bytes.size() < kLengthBytes) return absl::DataLossError("the file is too short for a header");
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  if (length > kMaxHeaderBytes || length > bytes.size() - kLengthBytes) {
    return absl::DataLossError("the header's length exceeds the file, or what a header may have");
  }
  const absl::string_view data = bytes.substr(kLengthBytes + length);
  Safetensors result;
  std::vector<Range> ranges;
  try {
    const nlohmann::json header = ParseHeader(bytes.substr(kLengthBytes, length));
    if (!header.is_object()) return absl::DataLossError("the header is no JSON object");
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadata) {
        result.metadata = entry.get<SafetensorsMetadata>();
      } else {
        ranges.push_back(ReadEntry(name, entry, data, &result.tensors[name]));
      }
    }
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("the header is damaged: ", error.what()));
  }
  if (!HasNoGaps(std::move(ranges), data.size())) {
    return absl::DataLossError("the tensors overlap, or leave parts of the data out");
  }
  return result;
}

}  // namespace adaptdl::elastic
