#include "examples/ncf/ratings.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>
#include <unordered_map>

namespace ncf {
namespace {

// Spreads numbers evenly (Steele et al., "Fast Splittable Pseudorandom Number Generators", 2014).
uint64_t SplitMix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

int64_t NumberOf(int64_t name, std::unordered_map<int64_t, int64_t>* numbers) {
  return numbers->try_emplace(name, static_cast<int64_t>(numbers->size())).first->second;
}

}  // namespace

Ratings::Ratings(const std::vector<Choice>& choices) : all_(choices) {
  std::unordered_map<int64_t, size_t> last;
  for (size_t i = 0; i < choices.size(); ++i) {
    last[choices[i].user] = i;
    users_ = std::max(users_, choices[i].user + 1);
    items_ = std::max(items_, choices[i].item + 1);
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    (last[choices[i].user] == i ? test_ : train_).push_back(choices[i]);
  }
  std::sort(all_.begin(), all_.end());
}

int64_t Ratings::NotChosen(int64_t user, uint64_t draw) const {
  int64_t item = 0;
  // A user who chose nearly everything gets one of these in the end.
  for (uint64_t attempt = 0; attempt < 100; ++attempt) {
    const uint64_t random = SplitMix64(SplitMix64(draw * 100 + attempt) ^ static_cast<uint64_t>(user));
    item = static_cast<int64_t>(random % static_cast<uint64_t>(items_));
    if (!std::binary_search(all_.begin(), all_.end(), Choice{user, item})) break;
  }
  return item;
}

std::vector<Choice> ReadChoices(const std::string& path, std::string* error) {
  std::vector<Choice> choices;
  std::unordered_map<int64_t, int64_t> users, items;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c == ',' || c == ':' || c == '\t'; }, ' ');
    std::istringstream fields(line);
    int64_t user = 0;
    int64_t item = 0;
    if (fields >> user >> item) choices.push_back({NumberOf(user, &users), NumberOf(item, &items)});
  }
  if (choices.size() <= users.size()) *error = path + " holds no users with several items";
  return choices;
}

std::vector<Choice> MakeUpChoices(int64_t count, uint64_t seed) {
  constexpr uint64_t kTastes = 8;
  constexpr uint64_t kItems = 400;
  std::mt19937_64 random(seed);
  const uint64_t users = std::max<uint64_t>(static_cast<uint64_t>(count) / 20, 2);
  std::vector<Choice> choices;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t user = static_cast<uint64_t>(i) % users;
    uint64_t item = random() % kItems;
    // Nine of ten: the nearest item of the user's taste.
    if (random() % 10 != 0) item = item / kTastes * kTastes + user % kTastes;
    choices.push_back({static_cast<int64_t>(user), static_cast<int64_t>(item)});
  }
  return choices;
}

}  // namespace ncf
