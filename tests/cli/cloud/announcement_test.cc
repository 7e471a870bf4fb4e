#include "cli/cloud/announcement.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace adaptdl::cli {
namespace {

const Announcement kAnnouncement = {
    .cluster = "demo", .authority = "-----BEGIN...\n", .token = "secret-token"};

RecipientKey Key() { return *MakeRecipientKey(absl::FromUnixSeconds(1'900'000'000)); }

TEST(AnnouncementTest, OnlyTheKeyReadsIt) {
  const RecipientKey key = Key();
  const auto lines = Seal(kAnnouncement, key.certificate);
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_FALSE(absl::StrContains(*lines, "secret"));
  const auto found = FindAnnouncement(*lines, key);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, kAnnouncement);
  EXPECT_TRUE(absl::IsPermissionDenied(FindAnnouncement(*lines, Key()).status()));
}

TEST(AnnouncementTest, IsFoundBetweenWhatOthersWrite) {
  const RecipientKey key = Key();
  const std::string lines = *Seal(kAnnouncement, key.certificate);
  const std::string console = absl::StrCat(
      "[  1.0] Linux\r\n",
      absl::StrReplaceAll(lines, {{"\n", "\r\n[ 2.0] kernel says\r\n[ 3.0] cloud-init: "}}), "\r\nlogin:");
  const auto found = FindAnnouncement(console, key);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, kAnnouncement);
}

TEST(AnnouncementTest, OneThatIsNotCompleteIsNone) {
  const RecipientKey key = Key();
  const std::string lines = *Seal(kAnnouncement, key.certificate);
  EXPECT_TRUE(absl::IsNotFound(FindAnnouncement("", key).status()));
  const std::string cut = lines.substr(0, lines.rfind("adaptdl-announcement"));
  EXPECT_TRUE(absl::IsNotFound(FindAnnouncement(cut, key).status()));
  EXPECT_TRUE(absl::IsNotFound(
      FindAnnouncement("adaptdl-announcement 1/999999999 x\nadaptdl-announcement 0/1 x\n", key).status()));
  // The machine has started again, and is about to tell.
  const auto found = FindAnnouncement(lines + cut, key);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, kAnnouncement);
}

TEST(AnnouncementTest, WhatWasChangedOnItsWayIsRefused) {
  const RecipientKey key = Key();
  std::string lines = *Seal(kAnnouncement, key.certificate);
  const size_t last = lines.rfind(' ') + 1;
  lines[last] = lines[last] == 'A' ? 'B' : 'A';
  EXPECT_FALSE(FindAnnouncement(lines, key).ok());
}

}  // namespace
}  // namespace adaptdl::cli
