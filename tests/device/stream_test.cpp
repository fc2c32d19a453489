// Streams and events of the CPU device: order, waiting, failing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/error.h"
#include "device/cpu/cpu_device.h"

namespace lazytrain {
namespace {

using std::chrono::milliseconds;

void nap() {
  std::this_thread::sleep_for(milliseconds(20));
}

TEST(Stream, WorksInOrder) {
  const auto device = make_cpu_device({});
  const auto stream = device->create_stream(StreamKind::host);
  std::vector<int> seen;
  for (int i = 0; i < 1000; ++i) device->call(*stream, [&seen, i] { seen.push_back(i); });
  device->synchronize(*stream);
  ASSERT_EQ(seen.size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST(Stream, CallsReturnBeforeTheWorkIsDone) {
  const auto device = make_cpu_device({});
  const auto stream = device->create_stream(StreamKind::compute);
  std::atomic<bool> open{false};
  device->call(*stream, [&] { open.wait(false); });
  EXPECT_FALSE(open);  // we are here although the stream is stuck
  open = true;
  open.notify_all();
  device->synchronize(*stream);
}

TEST(Event, OrdersWorkOfTwoStreams) {
  const auto device = make_cpu_device({});
  const auto writer = device->create_stream(StreamKind::h2d);
  const auto reader = device->create_stream(StreamKind::compute);
  const auto event = device->create_event();
  const std::vector<int> source(1000, 7);
  std::vector<int> middle(1000, 0);
  std::vector<int> result(1000, 0);
  const Bytes size{4000};
  device->call(*writer, nap);
  device->copy(*writer, middle.data(), source.data(), size);
  device->record(*writer, *event);
  device->wait(*reader, *event);
  device->copy(*reader, result.data(), middle.data(), size);
  device->synchronize(*reader);
  EXPECT_EQ(result, source);
}

TEST(Event, AWaitSeesTheLatestRecordBeforeIt) {
  const auto device = make_cpu_device({});
  const auto first = device->create_stream(StreamKind::h2d);
  const auto second = device->create_stream(StreamKind::d2h);
  const auto reader = device->create_stream(StreamKind::compute);
  const auto event = device->create_event();
  std::atomic<int> done{0};  // a bit for each stream: which of them ends first is nobody's promise
  int seen_by_first_wait = -1;
  int seen_by_second_wait = -1;
  device->call(*first, [&] {
    nap();
    done |= 1;
  });
  device->record(*first, *event);
  device->wait(*reader, *event);  // of `first`, although the event is set anew at once
  device->record(*second, *event);
  device->call(*reader, [&] { seen_by_first_wait = done; });
  device->call(*second, [&] {
    nap();
    nap();
    done |= 2;
  });
  device->record(*second, *event);
  device->wait(*reader, *event);
  device->call(*reader, [&] { seen_by_second_wait = done; });
  device->synchronize(*reader);
  EXPECT_EQ(seen_by_first_wait & 1, 1);
  EXPECT_EQ(seen_by_second_wait, 3);
}

TEST(Event, NeverRecordedHoldsNobodyUp) {
  const auto device = make_cpu_device({});
  const auto stream = device->create_stream(StreamKind::compute);
  const auto event = device->create_event();
  device->wait(*stream, *event);
  device->synchronize(*event);
  device->synchronize(*stream);
}

TEST(Event, SynchronizeBlocksTheCaller) {
  const auto device = make_cpu_device({});
  const auto stream = device->create_stream(StreamKind::disk_read);
  const auto event = device->create_event();
  int value = 0;
  device->call(*stream, [&] {
    nap();
    value = 1;
  });
  device->record(*stream, *event);
  device->synchronize(*event);
  EXPECT_EQ(value, 1);
}

TEST(Event, OutlivesItsStream) {
  const auto device = make_cpu_device({});
  const auto event = device->create_event();
  {
    const auto gone = device->create_stream(StreamKind::h2d);
    device->call(*gone, nap);
    device->record(*gone, *event);
  }
  const auto stream = device->create_stream(StreamKind::compute);
  device->wait(*stream, *event);
  device->synchronize(*stream);
}

// A ring of streams that pass a plain number around: the number is right, and ThreadSanitizer silent, only if
// each event carries what was written before it.
TEST(Event, CarriesWritesRoundARing) {
  const auto device = make_cpu_device({});
  std::vector<std::unique_ptr<Stream>> streams;
  for (const StreamKind kind : {StreamKind::compute, StreamKind::h2d, StreamKind::d2h, StreamKind::host,
                                StreamKind::disk_read, StreamKind::disk_write}) {
    streams.push_back(device->create_stream(kind));
  }
  const auto event = device->create_event();
  std::int64_t value = 0;
  for (int round = 0; round < 500; ++round) {
    for (const auto& stream : streams) {
      device->wait(*stream, *event);
      device->call(*stream, [&value] { ++value; });
      device->record(*stream, *event);
    }
  }
  device->synchronize(*event);
  EXPECT_EQ(value, 500 * 6);
}

TEST(Stream, SeveralThreadsMayPush) {
  const auto device = make_cpu_device({});
  const auto stream = device->create_stream(StreamKind::compute);
  std::int64_t value = 0;  // only the stream's thread touches it
  std::vector<std::thread> pushers;
  for (int thread = 0; thread < 3; ++thread) {
    pushers.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) device->call(*stream, [&value] { ++value; });
    });
  }
  for (std::thread& pusher : pushers) pusher.join();
  device->synchronize(*stream);
  EXPECT_EQ(value, 6000);
}

TEST(Stream, AnExceptionIsRethrownOnceAndSkipsWhatFollows) {
  const auto device = make_cpu_device({});
  const auto stream = device->create_stream(StreamKind::host);
  bool ran = false;
  device->call(*stream, [] { fail(ExitCode::disk, "the disk is full"); });
  device->call(*stream, [&] { ran = true; });
  try {
    device->synchronize(*stream);
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::disk);
    EXPECT_STREQ(error.what(), "the disk is full");
  }
  EXPECT_FALSE(ran);
  device->call(*stream, [&] { ran = true; });
  device->synchronize(*stream);
  EXPECT_TRUE(ran);
}

TEST(Stream, EventsOfAFailedStreamFire) {
  const auto device = make_cpu_device({});
  const auto failing = device->create_stream(StreamKind::disk_read);
  const auto waiting = device->create_stream(StreamKind::compute);
  const auto event = device->create_event();
  bool ran = false;
  device->call(*failing, [] { throw std::runtime_error("gone"); });
  device->call(*failing, nap);
  device->record(*failing, *event);
  device->wait(*waiting, *event);
  device->call(*waiting, [&] { ran = true; });
  device->synchronize(*waiting);
  EXPECT_TRUE(ran);
  EXPECT_THROW(device->synchronize(*failing), std::runtime_error);
}

// Waits keep their order in a failed stream: its events do not overtake what they stand behind.
TEST(Stream, AFailedStreamStillWaits) {
  const auto device = make_cpu_device({});
  const auto slow = device->create_stream(StreamKind::h2d);
  const auto failing = device->create_stream(StreamKind::host);
  const auto slow_done = device->create_event();
  const auto failing_done = device->create_event();
  std::atomic<bool> done{false};
  device->call(*slow, [&] {
    nap();
    done = true;
  });
  device->record(*slow, *slow_done);
  device->call(*failing, [] { throw std::runtime_error("gone"); });
  device->wait(*failing, *slow_done);
  device->record(*failing, *failing_done);
  device->synchronize(*failing_done);
  EXPECT_TRUE(done);
  EXPECT_THROW(device->synchronize(*failing), std::runtime_error);
}

TEST(Stream, DestructionFinishesItsWork) {
  const auto device = make_cpu_device({});
  int value = 0;
  {
    const auto stream = device->create_stream(StreamKind::compute);
    for (int i = 0; i < 100; ++i) device->call(*stream, [&] { ++value; });
  }
  EXPECT_EQ(value, 100);
}

TEST(Stream, ZeroAndCopyOfSeveralPieces) {
  const auto device = make_cpu_device({.compute_threads = 2});
  const auto stream = device->create_stream(StreamKind::compute);
  std::vector<char> source(1'300'001, 3);
  std::vector<char> target(1'300'001, 1);
  device->copy(*stream, target.data(), source.data(), {1'300'001});
  device->synchronize(*stream);
  EXPECT_EQ(target, source);
  device->zero(*stream, target.data(), {1'300'000});
  device->synchronize(*stream);
  EXPECT_EQ(target[1'299'999], 0);
  EXPECT_EQ(target[1'300'000], 3);
  EXPECT_EQ(std::count(target.begin(), target.end(), 0), 1'300'000);
}

TEST(Stream, HostWorkRunsLoopsOnItsPool) {
  const auto device = make_cpu_device({.compute_threads = 1, .host_threads = 3});
  const auto stream = device->create_stream(StreamKind::host);
  EXPECT_EQ(device->host_pool().size(), 3);
  std::atomic<int> sum{0};
  device->call(*stream, [&] {
    device->host_pool().parallel_for(100, [&](std::int64_t i) { sum += static_cast<int>(i); });
  });
  device->synchronize(*stream);
  EXPECT_EQ(sum, 4950);
}

TEST(CpuDevice, SaysWhatItIs) {
  const std::string isa = cpu_instruction_set();
  EXPECT_EQ(make_cpu_device({.compute_threads = 2})->description(), "CPU, unified, 2 threads, " + isa);
  EXPECT_EQ(
      make_cpu_device({.memory_model = MemoryModel::emulated,
                       .device_capacity = {240'000'000},
                       .links = {.h2d = 4, .d2h = 3.5, .duplex = 6}})
          ->description(),
      "emulated device on the CPU, 240.0 MB, 1 compute thread, h2d 4 GB/s, d2h 3.5 GB/s, both 6 GB/s, " +
          isa);
}

void expect_refused(const CpuDeviceOptions& options, const char* part) {
  try {
    make_cpu_device(options);
    FAIL() << "not refused: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::device);
    EXPECT_THAT(error.what(), testing::HasSubstr(part));
  }
}

TEST(CpuDevice, RefusesOptionsThatMakeNoSense) {
  expect_refused({.memory_model = MemoryModel::discrete}, "unified or emulated");
  expect_refused({.compute_threads = 0}, "at least one thread");
  expect_refused({.memory_model = MemoryModel::emulated}, "capacity above 0");
  expect_refused({.split_cores = true}, "split cores belong to the emulated");
  expect_refused({.memory_model = MemoryModel::emulated,
                  .compute_threads = 4000,
                  .split_cores = true,
                  .device_capacity = {1}},
                 "split cores need a core besides those of the 4000 compute threads");
  expect_refused({.memory_model = MemoryModel::emulated, .device_capacity = {1}, .links = {.h2d = -1}},
                 "link rates");
}

}  // namespace
}  // namespace lazytrain
