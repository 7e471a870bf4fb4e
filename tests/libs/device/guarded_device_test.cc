#include "libs/device/guarded_device.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "libs/device/device.h"
#include "tests/libs/device/device_memory.h"

namespace adaptdl::device {
namespace {

TEST(GuardedDeviceTest, TheHostCannotTouchItsMemory) {
  GuardedDevice device;
  const DeviceNumbers numbers(device, {1, 2, 3});
  EXPECT_EQ(numbers.Get(), (std::vector<double>{1, 2, 3}));
  const auto* const data = static_cast<const volatile double*>(numbers.data());
  EXPECT_DEATH((void)*data, "");
}

TEST(GuardedDeviceTest, WhatWasNeverWrittenIsNotANumber) {
  GuardedDevice device;
  const Memory memory = device.Allocate(8).value();
  const Memory host = device.AllocateHost(8).value();
  ASSERT_TRUE(device.Copy(host.data(), memory.data(), 8, nullptr).ok());
  Synchronize(device);
  EXPECT_TRUE(std::isnan(*static_cast<double*>(host.data())));
}

TEST(GuardedDeviceTest, WorkIsDoneBehindTheCallersBack) {
  GuardedDevice device;
  const DeviceNumbers numbers(device, {1});
  const Memory host = device.AllocateHost(8).value();
  auto* const seen = static_cast<double*>(host.data());
  const std::unique_ptr<Event> event = device.CreateEvent(false).value();
  *seen = 0;
  device.Pause();
  ASSERT_TRUE(device.Copy(seen, numbers.data(), 8, nullptr).ok());
  ASSERT_TRUE(device.Record(*event, nullptr).ok());
  EXPECT_FALSE(device.IsDone(*event).value());
  EXPECT_EQ(*seen, 0);
  device.Resume();
  ASSERT_TRUE(device.Await(*event).ok());
  EXPECT_TRUE(device.IsDone(*event).value());
  EXPECT_EQ(*seen, 1);
}

TEST(GuardedDeviceTest, AStreamWaitsForWhatAnotherHasRecorded) {
  GuardedDevice device;
  const std::unique_ptr<OwnedStream> first = device.CreateStream().value();
  const std::unique_ptr<OwnedStream> second = device.CreateStream().value();
  const std::unique_ptr<Event> event = device.CreateEvent(false).value();
  const DeviceNumbers from(device, {3});
  const DeviceNumbers middle(device, {0});
  const DeviceNumbers to(device, {0});
  for (int round = 0; round < 100; ++round) {
    const double value = round;
    DeviceNumbers next(device, {value});
    ASSERT_TRUE(device.Copy(middle.data(), next.data(), 8, first->get()).ok());
    ASSERT_TRUE(device.Record(*event, first->get()).ok());
    ASSERT_TRUE(device.WaitFor(*event, second->get()).ok());
    ASSERT_TRUE(device.Copy(to.data(), middle.data(), 8, second->get()).ok());
    Synchronize(device, second->get());
    EXPECT_EQ(to.Get()[0], value);
  }
}

TEST(GuardedDeviceTest, FunctionsRunInTheOrderOfTheirStream) {
  GuardedDevice device;
  const DeviceNumbers from(device, {2});
  const DeviceNumbers to(device, {0});
  device.Pause();
  ASSERT_TRUE(device.Copy(to.data(), from.data(), 8, nullptr).ok());
  device.Enqueue(nullptr, [&] { *static_cast<double*>(device.Translate(to.data())) += 1; });
  device.Resume();
  EXPECT_EQ(to.Get()[0], 3);
}

TEST(GuardedDeviceTest, WaitsAreCounted) {
  GuardedDevice device;
  const std::unique_ptr<Event> event = device.CreateEvent(false).value();
  const int64_t before = Device::WaitsOfThread();
  ASSERT_TRUE(device.Record(*event, nullptr).ok());
  EXPECT_EQ(Device::WaitsOfThread(), before);
  ASSERT_TRUE(device.Await(*event).ok());
  ASSERT_TRUE(device.Await(*event).ok());
  EXPECT_EQ(Device::WaitsOfThread(), before + 2);
}

TEST(GuardedDeviceTest, TimesAreThoseOfTheStream) {
  GuardedDevice device;
  const std::unique_ptr<Event> from = device.CreateEvent(true).value();
  const std::unique_ptr<Event> to = device.CreateEvent(true).value();
  ASSERT_TRUE(device.Record(*from, nullptr).ok());
  ASSERT_TRUE(device.Record(*to, nullptr).ok());
  ASSERT_TRUE(device.Await(*to).ok());
  EXPECT_GE(device.SecondsBetween(*from, *to).value(), 0);
}

}  // namespace
}  // namespace adaptdl::device
