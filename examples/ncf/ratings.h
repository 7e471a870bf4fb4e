// Which users chose which items: from a file, or made up.

#ifndef ADAPTDL_EXAMPLES_NCF_RATINGS_H_
#define ADAPTDL_EXAMPLES_NCF_RATINGS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ncf {

// Users and items are numbered from 0.
struct Choice {
  int64_t user = 0;
  int64_t item = 0;

  auto operator<=>(const Choice&) const = default;
};

// Choices to learn from, and which the model may not be asked about.
class Ratings {
 public:
  // The last choice of each user is kept for the test. At least one user with two choices.
  explicit Ratings(const std::vector<Choice>& choices);

  int64_t users() const { return users_; }
  int64_t items() const { return items_; }
  const std::vector<Choice>& train() const { return train_; }
  const std::vector<Choice>& test() const { return test_; }

  // An item that the user never chose: number `draw` of a sequence that is the same on every machine.
  int64_t NotChosen(int64_t user, uint64_t draw) const;

 private:
  int64_t users_ = 0;
  int64_t items_ = 0;
  std::vector<Choice> train_;
  std::vector<Choice> test_;
  // All, sorted.
  std::vector<Choice> all_;
};

// Lines of "user item ...", parted by tabs, commas, blanks or colons; others are left out. Users and items
// are numbered anew, in the order in which they come. Sets `error` if nothing is found.
std::vector<Choice> ReadChoices(const std::string& path, std::string* error);

// Users and items of eight tastes; users mostly choose items of their own.
std::vector<Choice> MakeUpChoices(int64_t count, uint64_t seed);

}  // namespace ncf

#endif  // ADAPTDL_EXAMPLES_NCF_RATINGS_H_
