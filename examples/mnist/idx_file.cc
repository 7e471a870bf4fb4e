#include "examples/mnist/idx_file.h"

#include <zlib.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace mnist {
namespace {

constexpr uint32_t kImagesMagic = 0x803;
constexpr uint32_t kLabelsMagic = 0x801;
constexpr uint32_t kMostImages = 10'000'000;

// The path that exists, or "".
std::string Find(const std::string& folder, const std::string& name) {
  for (const char* suffix : {"", ".gz"}) {
    std::string path = folder + "/" + name + suffix;
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  return "";
}

std::string ImagesName(const std::string& prefix) { return prefix + "-images-idx3-ubyte"; }
std::string LabelsName(const std::string& prefix) { return prefix + "-labels-idx1-ubyte"; }

class IdxReader {
 public:
  // zlib reads files that are not compressed as they are.
  explicit IdxReader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (file_ == nullptr) Fail("cannot be opened");
  }
  ~IdxReader() {
    if (file_ != nullptr) gzclose(file_);
  }
  IdxReader(const IdxReader&) = delete;
  IdxReader& operator=(const IdxReader&) = delete;

  uint32_t Number() {
    uint8_t bytes[4] = {};
    Read(bytes, sizeof(bytes));
    return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
  }

  void Expect(uint32_t value, const std::string& what) {
    const uint32_t found = Number();
    if (found != value) {
      Fail("has " + std::to_string(found) + " as its " + what + " instead of " + std::to_string(value));
    }
  }

  std::vector<uint8_t> Bytes(size_t count) {
    std::vector<uint8_t> bytes(ok() ? count : 0);
    size_t at = 0;
    constexpr size_t kPiece = size_t{1} << 26;
    while (at < bytes.size() && ok()) {
      const size_t piece = std::min(kPiece, bytes.size() - at);
      Read(bytes.data() + at, piece);
      at += piece;
    }
    return bytes;
  }

  void Fail(const std::string& what) {
    if (error_.empty()) error_ = path_ + " " + what;
  }
  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }

 private:
  void Read(uint8_t* to, size_t count) {
    if (!ok()) return;
    const int got = gzread(file_, to, static_cast<unsigned>(count));
    if (got != static_cast<int>(count)) Fail("is cut short or damaged");
  }

  const std::string path_;
  const gzFile file_;
  std::string error_;
};

}  // namespace

bool HasIdxPair(const std::string& folder, const std::string& prefix) {
  return !Find(folder, ImagesName(prefix)).empty() && !Find(folder, LabelsName(prefix)).empty();
}

LabelledImages ReadIdxPair(const std::string& folder, const std::string& prefix, std::string* error) {
  LabelledImages result;
  if (!HasIdxPair(folder, prefix)) {
    *error = "no " + ImagesName(prefix) + " and " + LabelsName(prefix) + " (plain or .gz) in " + folder;
    return result;
  }
  IdxReader images(Find(folder, ImagesName(prefix)));
  images.Expect(kImagesMagic, "magic number");
  const uint32_t count = images.Number();
  if (count == 0 || count > kMostImages) images.Fail("claims to hold " + std::to_string(count) + " images");
  images.Expect(kImageSide, "number of rows");
  images.Expect(kImageSide, "number of columns");
  IdxReader labels(Find(folder, LabelsName(prefix)));
  labels.Expect(kLabelsMagic, "magic number");
  labels.Expect(count, "number of labels");
  if (images.ok() && labels.ok()) {
    result.pixels = images.Bytes(size_t{count} * kImageSide * kImageSide);
    result.labels = labels.Bytes(count);
    for (uint8_t label : result.labels) {
      if (label > 9) labels.Fail("has the label " + std::to_string(label));
    }
  }
  *error = images.ok() ? labels.error() : images.error();
  if (!error->empty()) return {};
  return result;
}

}  // namespace mnist
