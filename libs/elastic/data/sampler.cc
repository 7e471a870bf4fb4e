#include "adaptdl/sampler.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "libs/elastic/data/philox.h"

namespace adaptdl {

using elastic::Philox;
using elastic::SplitMix64;

ElasticSampler::ElasticSampler(int64_t size, bool shuffle, uint64_t seed)
    : size_(size), shuffle_(shuffle), seed_(seed) {}

void ElasticSampler::SetPass(int64_t epoch, int64_t pass) {
  if (epoch == epoch_ && pass == pass_) return;
  epoch_ = epoch;
  pass_ = pass;
  if (shuffle_) {
    permutation_ =
        PortablePermutation(size_, seed_, static_cast<uint64_t>(epoch), static_cast<uint64_t>(pass));
  }
}

void ElasticSampler::SetEpoch(int64_t epoch, int64_t index) {
  SetPass(epoch, index / size_);
  begin_ = index % size_;
}

std::vector<int64_t> ElasticSampler::Indices(int rank, int replicas) const {
  return Share(begin_, size_ - begin_, rank, replicas);
}

std::vector<int64_t> ElasticSampler::Share(int64_t begin, int64_t count, int rank, int replicas) const {
  std::vector<int64_t> share;
  share.reserve(count / replicas + 1);
  for (int64_t position = begin + rank; position < begin + count; position += replicas) {
    share.push_back(At(position));
  }
  return share;
}

int64_t ElasticSampler::At(int64_t position) const {
  return permutation_.empty() ? position : permutation_[position];
}

std::vector<int64_t> PortablePermutation(int64_t size, uint64_t seed, uint64_t epoch, uint64_t pass) {
  std::vector<int64_t> permutation(size);
  std::iota(permutation.begin(), permutation.end(), int64_t{0});
  Philox random(SplitMix64(SplitMix64(SplitMix64(seed) ^ epoch) ^ pass));
  for (int64_t last = size - 1; last > 0; --last) {
    const auto chosen = static_cast<int64_t>(random.Below(static_cast<uint64_t>(last) + 1));
    std::swap(permutation[last], permutation[chosen]);
  }
  return permutation;
}

}  // namespace adaptdl
