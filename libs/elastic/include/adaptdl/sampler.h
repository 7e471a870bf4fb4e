// Which samples of a data set a replica reads, in which order.
//
// A pass over the data set is a permutation of it, keyed by (seed, epoch, pass) and the same on every
// machine. It is cut into global batches of consecutive positions, and each global batch is dealt out in
// strides: the replica of rank r among R takes the positions begin+r, begin+r+R, ... A position is counted in
// samples of the whole job, so that any number of replicas can go on exactly where any other stopped: no
// sample twice, none left out.
//
// Thread-safety: not thread-safe.

#ifndef ADAPTDL_SAMPLER_H_
#define ADAPTDL_SAMPLER_H_

#include <cstdint>
#include <vector>

namespace adaptdl {

class ElasticSampler {
 public:
  // `size`: samples in the data set. Without `shuffle` every pass is in the data set's own order.
  ElasticSampler(int64_t size, bool shuffle, uint64_t seed);

  // Chooses the permutation. Cheap when nothing changes.
  void SetPass(int64_t epoch, int64_t pass);

  // The same, by the number of samples that were read since the epoch began: index / size passes are done,
  // and index % size samples of the next one.
  void SetEpoch(int64_t epoch, int64_t index = 0);

  // What rank `rank` of `replicas` reads of the rest of the pass, from where SetEpoch() put it.
  std::vector<int64_t> Indices(int rank, int replicas) const;

  // Samples that rank `rank` of `replicas` reads of the `count` positions from `begin` on; none if there are
  // fewer positions than ranks before it. Requires begin + count <= size.
  std::vector<int64_t> Share(int64_t begin, int64_t count, int rank, int replicas) const;

  // Sample at `position` of the current pass.
  int64_t At(int64_t position) const;

  int64_t size() const { return size_; }

 private:
  const int64_t size_;
  const bool shuffle_;
  const uint64_t seed_;
  int64_t epoch_ = -1;
  int64_t pass_ = -1;
  // Position that SetEpoch() set.
  int64_t begin_ = 0;
  // Empty without shuffling.
  std::vector<int64_t> permutation_;
};

// The permutation of 0..size-1 for a key: Fisher-Yates, from the last position down, drawing from
// Philox4x32-10 (Salmon et al., SC'11) with Lemire's unbiased method. Part of the library's contract: it
// never changes.
std::vector<int64_t> PortablePermutation(int64_t size, uint64_t seed, uint64_t epoch, uint64_t pass);

}  // namespace adaptdl

#endif  // ADAPTDL_SAMPLER_H_
