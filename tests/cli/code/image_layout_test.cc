// Where Dockerfiles put the files of their folder.

#include "cli/code/image_layout.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace adaptdl::cli {
namespace {

struct Case {
  const char* dockerfile;
  const char* path;
  // Empty: it is not known.
  const char* found;
};

class ImageLayoutTest : public testing::TestWithParam<Case> {};

// A folder with the files a.py, src/b.py and src/sub/c.py.
bool IsThere(const std::string& path) {
  static const std::set<std::string> known = {"a.py",      "src",          "src/.", "src/b.py", "src/sub",
                                              "src/sub/.", "src/sub/c.py", ".",     "./."};
  return known.contains(path);
}

TEST_P(ImageLayoutTest, FindsWhatIsOfTheFolder) {
  const Case& c = GetParam();
  EXPECT_EQ(ImageLayout::Parse(c.dockerfile).Find(c.path, IsThere).value_or(""), c.found)
      << c.dockerfile << " / " << c.path;
}

INSTANTIATE_TEST_SUITE_P(
    Files, ImageLayoutTest,
    testing::Values(
        // AdaptDL's own tutorial.
        Case{"FROM python:3.7-slim\nRUN pip install adaptdl\n\nCOPY a.py /root/a.py\nENV X=1\n", "/root/a.py",
             "a.py"},
        Case{"COPY a.py /root/", "/root/a.py", "a.py"}, Case{"COPY a.py /root", "/root/a.py", "a.py"},
        Case{"COPY a.py /root", "/root", "a.py"}, Case{"COPY a.py /root/", "/root", ""},
        Case{"COPY a.py /root/main.py", "/root/main.py", "a.py"},
        Case{"COPY a.py /root/main.py", "/root/a.py", ""}, Case{"COPY src /app", "/app/b.py", "src/b.py"},
        Case{"COPY src /app", "/app/sub/c.py", "src/sub/c.py"}, Case{"COPY src /app", "/app", "src"},
        Case{"COPY src/ /app/", "/app/../app/./b.py", "src/b.py"}, Case{"COPY src /app", "/app/none.py", ""},
        Case{"COPY src /app", "/application/b.py", ""},
        Case{"WORKDIR /root\nCOPY src bench\nWORKDIR bench\n", "/root/bench/b.py", "src/b.py"},
        Case{"WORKDIR /app\nCOPY . .", "/app/src/b.py", "src/b.py"},
        Case{"WORKDIR /app\nCOPY . .", "/app", "."},
        Case{"WORKDIR /app\nCOPY a.py src/b.py ./", "/app/b.py", "src/b.py"},
        Case{"copy --chown=me:me [\"a.py\", \"/app/\"]", "/app/a.py", "a.py"},
        Case{"ADD a.py \\\n  # why\n  /app/a.py", "/app/a.py", "a.py"},
        // The last one counts.
        Case{"COPY src/b.py /app/m.py\nCOPY a.py /app/m.py", "/app/m.py", "a.py"},
        // Of another stage or image, with variables or patterns, or from the network: only a build could tell.
        Case{"FROM x AS y\nCOPY a.py /app/\nFROM z\n", "/app/a.py", ""},
        Case{"FROM x AS y\nCOPY a.py /app/\nFROM y\n", "/app/a.py", "a.py"},
        Case{"COPY --from=build a.py /app/", "/app/a.py", ""}, Case{"COPY a.py $HOME/", "/app/a.py", ""},
        Case{"COPY *.py /app/", "/app/a.py", ""}, Case{"ADD https://x.org/a.py /app/", "/app/a.py", ""},
        Case{"COPY ../a.py /app/a.py", "/app/a.py", ""}, Case{"COPY a.py", "/a.py", ""},
        Case{"COPY [1", "/a", ""}));

TEST(ImageLayoutPlacesTest, KnowsWhatIsOfTheImage) {
  const ImageLayout layout = ImageLayout::Parse("WORKDIR /root\nCOPY *.py /app/\nCOPY a.py /data/a.py");
  EXPECT_EQ(layout.workdir(), "/root");
  EXPECT_TRUE(layout.IsOfImage("/root/x"));
  EXPECT_TRUE(layout.IsOfImage("/data/a.py"));
  EXPECT_FALSE(layout.IsOfImage("/data/b"));
  EXPECT_FALSE(layout.IsOfImage("/rooted"));
  EXPECT_FALSE(ImageLayout::Parse("").IsOfImage("/usr/bin/python3"));
}

}  // namespace
}  // namespace adaptdl::cli
