// A fuzzer without libFuzzer, and so without Clang and a build of its own: feeds it each file of its corpus, and copies of
// these that are changed at random, the same ones each time. It doesn't learn which changes lead anywhere; scripts/fuzz.sh does.
//
//   quantity_replay 10000 tests/fuzz/corpus/quantity      10,000 changed copies
//
// An input that ends the program is left in PROGRAM.input.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kLongest = 4096;

// What the handler of signals writes, and where to: it can be given nothing else.
const std::string* fed = nullptr;
int file = -1;

void Leave(int signal) {
  (void)!write(file, fed->data(), fed->size());
  ::signal(signal, SIG_DFL);
  raise(signal);
}

void Feed(const std::string& input) {
  fed = &input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

std::vector<std::string> Read(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  if (std::filesystem::is_directory(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs = {""};
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

class Changer {
 public:
  explicit Changer(const std::vector<std::string>& inputs) : inputs_(inputs) {}

  std::string Next() {
    std::string input = inputs_[Below(inputs_.size())];
    for (size_t changes = 1 + Below(4); changes > 0; --changes) Change(&input);
    input.resize(std::min(input.size(), kLongest));
    return input;
  }

 private:
  size_t Below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random_); }
  char Character() {
    // What texts are made of, as often as any byte.
    static constexpr char kMarks[] = "\n\0 \"'{}[]:,.-+/\\*0129eEkMGi";
    return Below(2) == 0 ? kMarks[Below(sizeof(kMarks))] : static_cast<char>(Below(256));
  }

  void Change(std::string* input) {
    const size_t at = Below(input->size() + 1);
    const size_t length = std::min(1 + Below(16), input->size() - at);
    switch (Below(6)) {
      case 0:
        input->insert(at, 1, Character());
        return;
      case 1:
        input->erase(at, length);
        return;
      case 2:  // twice, or many times
        for (size_t times = 1 + Below(8); times > 0; --times) input->insert(at, input->substr(at, length));
        return;
      case 3:  // goes on as another one does
        input->resize(at);
        input->append(Tail(inputs_[Below(inputs_.size())]));
        return;
      case 4:
        if (at < input->size()) (*input)[at] ^= static_cast<char>(1 << Below(8));
        return;
      default:
        if (at < input->size()) (*input)[at] = Character();
    }
  }
  std::string Tail(const std::string& other) { return other.substr(Below(other.size() + 1)); }

  const std::vector<std::string>& inputs_;
  std::mt19937_64 random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s CHANGED-COPIES CORPUS-FOLDER\n", argv[0]);
    return 2;
  }
  const int64_t copies = std::atoll(argv[1]);
  const std::vector<std::string> inputs = Read(argv[2]);
  const std::string left = std::string(argv[0]) + ".input";
  file = open(left.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(signal, Leave);
  for (const std::string& input : inputs) Feed(input);
  Changer changer(inputs);
  for (int64_t i = 0; i < copies; ++i) Feed(changer.Next());
  close(file);
  std::filesystem::remove(left);
  std::printf("%zu inputs and %lld changed copies of them, nothing found\n", inputs.size(),
              static_cast<long long>(copies));
}
