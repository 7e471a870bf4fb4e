#include "libs/base/last_words.h"

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/utf8.h"

namespace adaptdl {
namespace {

TEST(LastWordsTest, AreTheLastLineThatIsNotBlank) {
  EXPECT_EQ(LastWords(""), "");
  EXPECT_EQ(LastWords(" \n\t\n\n"), "");
  EXPECT_EQ(LastWords("cat: digits: No such file or directory"), "cat: digits: No such file or directory");
  EXPECT_EQ(LastWords("loading\n  cat: digits: Permission denied \r\n\n"), "cat: digits: Permission denied");
}

TEST(LastWordsTest, OfPythonAreTheExceptionBelowItsTraceback) {
  EXPECT_EQ(LastWords("step 1\n"
                      "Traceback (most recent call last):\n"
                      "  File \"train.py\", line 3, in <module>\n"
                      "    raise ValueError(shape)\n"
                      "ValueError: 3 classes, 4 labels\n"),
            "ValueError: 3 classes, 4 labels");
  EXPECT_EQ(LastWords("Traceback (most recent call last):\n"
                      "  File \"train.py\", line 3, in <module>\n"
                      "KeyError: 'a'\n\n"
                      "During handling of the above exception, another exception occurred:\n\n"
                      "Traceback (most recent call last):\n"
                      "  File \"train.py\", line 5, in <module>\n\n"
                      "RuntimeError: CUDA error: device-side assert triggered\n"
                      "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n\n"
                      "adaptdl: WARNING: the last checkpoint was not written in time\n"),
            "RuntimeError: CUDA error: device-side assert triggered");
  EXPECT_EQ(LastWords("Traceback (most recent call last):\n  File \"cut off\n"), "File \"cut off");
}

TEST(LastWordsTest, AnExceptionThatWasCaughtLongAgoIsNotMeant) {
  std::string text = "Traceback (most recent call last):\n  File \"a\"\nOSError: try again\n";
  for (int step = 0; step < 11; ++step) absl::StrAppend(&text, "step ", step, "\n");
  EXPECT_EQ(LastWords(text + "no space left\n"), "no space left");
}

TEST(LastWordsTest, OfCppAreWhatTheExceptionSays) {
  EXPECT_EQ(LastWords("terminate called after throwing an instance of 'c10::Error'\n"
                      "  what():  mat1 and mat2 shapes cannot be multiplied (64x784 and 28x10)\n"
                      "Exception raised from meta at LinearAlgebra.cpp:197 (most recent call first):\n"
                      "frame #0: c10::Error::Error + 0x57 (0x7f1 in libc10.so)\n"),
            "what():  mat1 and mat2 shapes cannot be multiplied (64x784 and 28x10)");
}

TEST(LastWordsTest, TheLastOfSeveralExceptionsCounts) {
  const std::string python = "Traceback (most recent call last):\n  File \"a\"\nOSError: b\n";
  const std::string cpp = "  what():  c\n";
  EXPECT_EQ(LastWords(python + cpp), "what():  c");
  EXPECT_EQ(LastWords(cpp + python), "OSError: b");
}

TEST(LastWordsTest, AreFitForATerminalAndOfBoundedLength) {
  EXPECT_EQ(LastWords("\x1b[1;31merror:\x1b[0m no\tdisk\x1b[K\a"), "error: no disk");
  EXPECT_EQ(LastWords("caf\xC3"), "caf\xEF\xBF\xBD");
  EXPECT_EQ(LastWords("12345678", 8), "12345678");
  EXPECT_EQ(LastWords("123456789", 8), "12345…");
  EXPECT_EQ(LastWords("ééééééé", 8), "éé…");
  EXPECT_EQ(LastWords("\x1b["), "");
}

TEST(LastWordsTest, AnyBytesAreTaken) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (uint32_t size = random() % 200; size > 0; --size) {
      const char* const pieces[] = {"\n", "what():", "Traceback (most recent call last)", "\x1b[", " ",
                                    "é",  "\x80"};
      const uint32_t which = random() % 12;
      text += which < 7 ? std::string(pieces[which]) : std::string(1, static_cast<char>(random()));
    }
    const std::string words = LastWords(text, 40);
    EXPECT_TRUE(IsUtf8(words));
    EXPECT_LE(words.size(), 40);
    EXPECT_EQ(words.find('\n'), std::string::npos);
    EXPECT_EQ(words.find('\x1b'), std::string::npos);
  }
}

}  // namespace
}  // namespace adaptdl
