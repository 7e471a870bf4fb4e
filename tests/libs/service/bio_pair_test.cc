#include "libs/service/bio_pair.h"

#include <dlfcn.h>
#include <malloc.h>

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "libs/service/lean_connections.h"
#include "openssl/ssl.h"

namespace adaptdl::service {
namespace {

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using BioPtr = std::unique_ptr<BIO, FreeBio>;

class BioPairTest : public ::testing::Test {
 protected:
  void SetUp() override {
    BIO* one = nullptr;
    BIO* other = nullptr;
    ASSERT_TRUE(MakeBioPair(&one, &other));
    one_.reset(one);
    other_.reset(other);
  }

  static int Write(const BioPtr& bio, const std::string& data) {
    return BIO_write(bio.get(), data.data(), static_cast<int>(data.size()));
  }
  static std::string Read(const BioPtr& bio, size_t most) {
    std::string data(most, '\0');
    const int read = BIO_read(bio.get(), data.data(), static_cast<int>(most));
    data.resize(read > 0 ? read : 0);
    return data;
  }

  BioPtr one_;
  BioPtr other_;
};

TEST_F(BioPairTest, WhatIsWrittenIsReadAtTheOtherEnd) {
  EXPECT_EQ(Write(one_, "hello "), 6);
  EXPECT_EQ(Write(one_, "there"), 5);
  EXPECT_EQ(Write(other_, "answer"), 6);
  EXPECT_EQ(BIO_ctrl_pending(other_.get()), 11U);
  EXPECT_EQ(BIO_ctrl_wpending(one_.get()), 11U);
  EXPECT_EQ(Read(other_, 7), "hello t");
  EXPECT_EQ(Read(other_, 100), "here");
  EXPECT_EQ(Read(one_, 100), "answer");
  EXPECT_EQ(BIO_ctrl_pending(other_.get()), 0U);
}

TEST_F(BioPairTest, WhoeverReadsNothingTriesAgain) {
  EXPECT_EQ(Read(one_, 1), "");
  EXPECT_TRUE(BIO_should_read(one_.get()));
  Write(other_, "x");
  EXPECT_EQ(Read(one_, 1), "x");
  EXPECT_FALSE(BIO_should_retry(one_.get()));
}

TEST_F(BioPairTest, HoldsSoMuchAndNoMore) {
  const std::string much(kBioPairBytes + 1000, 'x');
  EXPECT_EQ(Write(one_, much), static_cast<int>(kBioPairBytes));
  EXPECT_EQ(Write(one_, "y"), -1);
  EXPECT_TRUE(BIO_should_write(one_.get()));
  EXPECT_EQ(Read(other_, 10), "xxxxxxxxxx");
  EXPECT_EQ(Write(one_, "yyyyyyyyyyyy"), 10);
  EXPECT_EQ(Read(other_, much.size()), std::string(kBioPairBytes - 10, 'x') + "yyyyyyyyyy");
}

TEST_F(BioPairTest, EndsWhenTheOtherEndIsGone) {
  Write(one_, "last");
  one_.reset();
  EXPECT_FALSE(BIO_eof(other_.get()));
  EXPECT_EQ(Read(other_, 100), "last");
  EXPECT_TRUE(BIO_eof(other_.get()));
  EXPECT_EQ(Read(other_, 100), "");
  EXPECT_FALSE(BIO_should_retry(other_.get()));
  EXPECT_EQ(Write(other_, "nobody"), -1);
  EXPECT_FALSE(BIO_should_retry(other_.get()));
}

// As a library of this process finds it.
TEST(LeanConnectionsTest, LibrariesGetThesePairs) {
  UseLeanConnections();
  using Function = int (*)(BIO**, size_t, BIO**, size_t);
  const auto make = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "BIO_new_bio_pair"));
  ASSERT_NE(make, nullptr);
  BIO* one = nullptr;
  BIO* other = nullptr;
  ASSERT_EQ(make(&one, 0, &other, 0), 1);
  EXPECT_NE(BIO_method_type(one), BIO_TYPE_BIO);
  BIO_free(one);
  BIO_free(other);
}

// Records come in pieces: the pair is hardly ever empty while there is traffic.
TEST_F(BioPairTest, WhatWasTakenIsGoneThoughSomeIsLeft) {
  ASSERT_EQ(Write(one_, "x"), 1);
  const std::string block(8000, 'y');
  const size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(Write(one_, block), 8000);
    ASSERT_EQ(Read(other_, 8000).size(), 8000U);
  }
  EXPECT_LT(mallinfo2().uordblks, before + 1'000'000);
  EXPECT_EQ(Read(other_, 8000), "y");
}

TEST(LeanConnectionsTest, LibrariesGetTheseSlices) {
  Dl_info symbol{};
  void* const make = dlsym(
      RTLD_DEFAULT, "_ZN17grpc_event_engine12experimental15MemoryAllocator9MakeSliceENS0_13MemoryRequestE");
  ASSERT_NE(dladdr(make, &symbol), 0);
  Dl_info own{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&UseLeanConnections), &own), 0);
  EXPECT_EQ(symbol.dli_fbase, own.dli_fbase) << symbol.dli_fname;
}

TEST(LeanConnectionsTest, ConnectionsReleaseTheirBuffers) {
  UseLeanConnections();
  SSL_CTX* context = SSL_CTX_new(TLS_method());
  SSL* ssl = SSL_new(context);
  EXPECT_NE(SSL_get_mode(ssl) & SSL_MODE_RELEASE_BUFFERS, 0);
  SSL_free(ssl);
  SSL_CTX_free(context);
}

}  // namespace
}  // namespace adaptdl::service
