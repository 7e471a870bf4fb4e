#include "libs/elastic/checkpoint/safetensors.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::elastic {
namespace {

using ::testing::ElementsAre;

SafetensorsItem Item(const std::string& name, const std::string& dtype, std::vector<int64_t> shape,
                     const std::string& data) {
  return {name, dtype, std::move(shape), [data](char* to) { data.copy(to, data.size()); }};
}

// A file of this header and data, as an attacker would make it.
std::string File(const std::string& header, const std::string& data) {
  std::string bytes;
  for (size_t i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(header.size() >> (8 * i)));
  return bytes + header + data;
}

std::string TwoTensors() {
  std::string bytes;
  WriteSafetensors(
      {Item("flags", "BOOL", {3}, std::string("\1\0\1", 3)), Item("net.weight", "F32", {1, 2}, "8bytes!!"),
       Item("scalar", "I64", {}, "longlong"), Item("empty", "F64", {0, 7}, "")},
      {{"format", "pt"}}, &bytes);
  return bytes;
}

TEST(Safetensors, ReadsWhatItWrote) {
  const std::string bytes = TwoTensors();
  const auto read = ReadSafetensors(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->metadata, (SafetensorsMetadata{{"format", "pt"}}));
  ASSERT_EQ(read->tensors.size(), 4u);
  EXPECT_EQ(read->tensors.at("net.weight").data, "8bytes!!");
  EXPECT_EQ(read->tensors.at("net.weight").dtype, "F32");
  EXPECT_THAT(read->tensors.at("net.weight").shape, ElementsAre(1, 2));
  EXPECT_EQ(read->tensors.at("scalar").data, "longlong");
  EXPECT_THAT(read->tensors.at("scalar").shape, ElementsAre());
  EXPECT_EQ(read->tensors.at("flags").data, std::string("\1\0\1", 3));
  EXPECT_EQ(read->tensors.at("empty").data, "");
}

TEST(Safetensors, NoTensorsAtAll) {
  std::string bytes;
  WriteSafetensors({}, {}, &bytes);
  EXPECT_EQ(bytes, std::string("\x8\0\0\0\0\0\0\0{}      ", 16));
  EXPECT_TRUE(ReadSafetensors(bytes)->tensors.empty());
}

TEST(Safetensors, TakesThePlaceOfWhatWasThere) {
  const std::string fresh = TwoTensors();
  std::string larger(2 * fresh.size(), 'x');
  const char* const memory = larger.data();
  WriteSafetensors({Item("a", "U8", {3}, "abc")}, {}, &larger);
  EXPECT_EQ(larger.data(), memory);
  EXPECT_EQ(ReadSafetensors(larger)->tensors.at("a").data, "abc");
  std::string smaller = "x";
  WriteSafetensors({Item("a", "U8", {3}, "abc")}, {}, &smaller);
  EXPECT_EQ(smaller, larger);
}

TEST(Safetensors, AlignsEachTensorToItsElements) {
  const std::string bytes = TwoTensors();
  const auto read = ReadSafetensors(bytes);
  for (const auto& [name, tensor] : read->tensors) {
    const auto at = static_cast<int64_t>(tensor.data.data() - bytes.data());
    EXPECT_EQ(at % SafetensorsElementBytes(tensor.dtype), 0) << name;
  }
}

TEST(Safetensors, RefusesEveryTruncationAndExtension) {
  const std::string bytes = TwoTensors();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ReadSafetensors(bytes.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(ReadSafetensors(bytes + "x").ok());
}

TEST(Safetensors, RefusesHostileHeaders) {
  const std::string eight = "12345678";
  ASSERT_TRUE(ReadSafetensors(File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", eight)).ok());
  const char* const headers[] = {
      "",
      "[]",
      "null",
      "{",
      R"({"a":1})",
      R"({"a":{}})",
      R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":{"0":0}}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}})",
      R"({"a":{"dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
      // Overlap, and a gap.
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
      // The same name twice.
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"x":1}})",
      R"({"a":{"dtype":"F32","shape":[[[[2]]]],"data_offsets":[0,8]}})",
  };
  for (const char* header : headers) {
    EXPECT_EQ(ReadSafetensors(File(header, eight)).status().code(), absl::StatusCode::kDataLoss) << header;
  }
  EXPECT_FALSE(ReadSafetensors(std::string(8, '\xff')).ok());
  EXPECT_FALSE(ReadSafetensors(File(std::string(1'000'000, '['), "")).ok());
}

// Nothing to expect but that it returns, and stays within the bytes (AddressSanitizer sees).
TEST(Safetensors, SurvivesRandomDamage) {
  std::mt19937 random(3);
  const std::string good = TwoTensors();
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = good;
    for (unsigned n = 1 + random() % 4; n > 0; --n)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto read = ReadSafetensors(bytes);
    if (!read.ok()) continue;
    size_t total = 0;
    for (const auto& [name, tensor] : read->tensors) total += tensor.data.size();
    EXPECT_LE(total, bytes.size());
  }
}

}  // namespace
}  // namespace adaptdl::elastic
