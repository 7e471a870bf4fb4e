#include "libs/jobfile/quantity.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/vectors/vectors.h"

namespace adaptdl::jobfile {
namespace {

int64_t Cpu(const std::string& text) { return ParseCpuMillis(text).value_or(-1); }
int64_t Bytes(const std::string& text) { return ParseBytes(text).value_or(-1); }
int64_t Count(const std::string& text) { return ParseCount(text).value_or(-1); }

TEST(QuantityTest, CountsThousandthsOfCoresExactly) {
  EXPECT_EQ(Cpu("1"), 1000);
  EXPECT_EQ(Cpu("500m"), 500);
  EXPECT_EQ(Cpu("2.007"), 2007);
  EXPECT_EQ(Cpu("0"), 0);
  EXPECT_EQ(Cpu(".5"), 500);
  EXPECT_EQ(Cpu("1."), 1000);
  EXPECT_EQ(Cpu("+1"), 1000);
}

// Binary floating point gives one too many for 173 of these.
TEST(QuantityTest, NeverRoundsWhatIsWhole) {
  for (int millis = 1; millis < 20'000; ++millis) {
    ASSERT_EQ(Cpu(absl::StrFormat("%d.%03d", millis / 1000, millis % 1000)), millis);
    ASSERT_EQ(Cpu(absl::StrCat(millis, "m")), millis);
  }
}

TEST(QuantityTest, RoundsUpWhatIsLeftOver) {
  EXPECT_EQ(Cpu("1.37m"), 2);
  EXPECT_EQ(Cpu("0.0001"), 1);
  EXPECT_EQ(Cpu("100u"), 1);
  EXPECT_EQ(Cpu("1000000001n"), 1001);
  EXPECT_EQ(Cpu("1000000000n"), 1000);
  EXPECT_EQ(Bytes("0.1"), 1);
  EXPECT_EQ(Bytes("1e-1000"), 1);
  EXPECT_EQ(Bytes("0e-1000"), 0);
}

TEST(QuantityTest, KnowsEverySuffix) {
  EXPECT_EQ(Bytes("1500m"), 2);
  EXPECT_EQ(Bytes("1k"), 1'000);
  EXPECT_EQ(Bytes("1M"), 1'000'000);
  EXPECT_EQ(Bytes("1G"), 1'000'000'000);
  EXPECT_EQ(Bytes("1T"), 1'000'000'000'000);
  EXPECT_EQ(Bytes("1P"), 1'000'000'000'000'000);
  EXPECT_EQ(Bytes("1E"), 1'000'000'000'000'000'000);
  EXPECT_EQ(Bytes("1Ki"), int64_t{1} << 10);
  EXPECT_EQ(Bytes("1Mi"), int64_t{1} << 20);
  EXPECT_EQ(Bytes("1.5Gi"), int64_t{3} << 29);
  EXPECT_EQ(Bytes("1Ti"), int64_t{1} << 40);
  EXPECT_EQ(Bytes("1Pi"), int64_t{1} << 50);
  EXPECT_EQ(Bytes("1Ei"), int64_t{1} << 60);
  EXPECT_EQ(Bytes("1e3"), 1000);
  EXPECT_EQ(Bytes("1E3"), 1000);
  EXPECT_EQ(Bytes("12E-1"), 2);
  EXPECT_EQ(Bytes("1e+3"), 1000);
}

TEST(QuantityTest, KnowsItsLimits) {
  EXPECT_EQ(Bytes("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(ParseBytes("9223372036854775808").status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(ParseBytes("9223372036854775807.5").status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(ParseBytes("8Ei").status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(ParseBytes("1e9999").status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Bytes("0e9999"), 0);
}

TEST(QuantityTest, RefusesWhatIsNoQuantity) {
  for (const char* text :
       {"",    " ",     "1 Gi", " 1", "1 ",   "1EiB", "Gi",  "m",   ".",   "1..2", "1.2.3", "1e",
        "1e+", "1e1.5", "1K",   "1g", "0x10", "1,5",  "one", "nan", "inf", "1mm",  "++1",   "1e99999"}) {
    EXPECT_EQ(ParseBytes(text).status().code(), absl::StatusCode::kInvalidArgument) << '"' << text << '"';
  }
  EXPECT_EQ(ParseBytes(std::string(65, '1')).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseBytes("-1").status().message(), "\"-1\" is negative; write 0 or more");
}

TEST(QuantityTest, RefusesAPartOfADevice) {
  EXPECT_EQ(Count("2"), 2);
  EXPECT_EQ(Count("2000m"), 2);
  EXPECT_EQ(ParseCount("1.5").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseCount("500m").status().code(), absl::StatusCode::kInvalidArgument);
}

// The reference's own results, but where they are listed as defects: it knows no n and u, and takes blanks.
TEST(QuantityTest, AgreesWithTheReference) {
  const nlohmann::json vectors = ReadVectors("resources.json");
  for (const nlohmann::json& c : vectors["discretize"]) {
    const std::string text = c["value"].is_string() ? c["value"].get<std::string>() : c["value"].dump();
    const std::string name = c["name"];
    const int64_t expected = c["result"];
    EXPECT_EQ(name == "cpu" ? Cpu(text) : Bytes(text), expected) << name << " " << text;
  }
}

}  // namespace
}  // namespace adaptdl::jobfile
