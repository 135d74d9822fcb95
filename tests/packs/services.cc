// Operators that use the runtime: scratch memory, its threads, its log, memory in place.
#include <opgraft/op.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

OPGRAFT_OP("test.pack::Scratch")
    .Doc("Sorts by scratch memory, of which it takes several pieces.")
    .Input<float>("x")
    .Output<float>("y")
    .Output<bool>("is_aligned")
    .Shape(opgraft::SameAs("x"), opgraft::Sizes({}))
    .Cpu([](opgraft::Context& context, opgraft::Tensor<const float> x, opgraft::Tensor<float> y,
            opgraft::Tensor<bool> is_aligned) {
      const std::span<float> sorted = context.Scratch<float>(x.size());
      const std::span<char> odd = context.Scratch<char>(3);
      const std::span<double> none = context.Scratch<double>(0);
      std::ranges::copy(x, sorted.begin());
      std::ranges::fill(odd, 'x');
      std::ranges::sort(sorted);
      std::ranges::copy(sorted, y.begin());
      is_aligned[0] = reinterpret_cast<std::uintptr_t>(sorted.data()) % 64 == 0 && none.empty();
    });

OPGRAFT_OP("test.pack::MuchScratch")
    .Input<std::int64_t>("bytes")
    .Output<bool>("y")
    .Shape(opgraft::Sizes({}))
    .Cpu([](opgraft::Context& context, opgraft::Tensor<const std::int64_t> bytes,
            opgraft::Tensor<bool> y) {
      y[0] = !context.Scratch<double>(static_cast<std::size_t>(bytes[0])).empty();
    });

OPGRAFT_OP("test.pack::Threads")
    .Doc("Doubles by a parallel loop, and tells how many threads took part.")
    .Input<float>("x")
    .Output<float>("y")
    .Output<std::int64_t>("threads")
    .Attribute<std::int64_t>("batches", 0)
    .Attribute<std::int64_t>("microseconds", 0, "that each step takes")
    .Shape(opgraft::SameAs("x"), opgraft::Sizes({}))
    .Cpu([](opgraft::Context& context, opgraft::Tensor<const float> x, opgraft::Tensor<float> y,
            opgraft::Tensor<std::int64_t> threads, std::int64_t batches,
            std::int64_t microseconds) {
      std::mutex mutex;
      std::set<std::thread::id> seen;
      context.ParallelFor(
          x.size(),
          [&](std::size_t i) {
            y[i] = 2 * x[i];
            std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
            const std::lock_guard lock(mutex);
            seen.insert(std::this_thread::get_id());
          },
          static_cast<std::size_t>(batches));
      threads[0] = static_cast<std::int64_t>(seen.size());
    });

OPGRAFT_OP("test.pack::Ranges")
    .Doc("How often each element was visited, and in how many ranges.")
    .Input<float>("x")
    .Output<std::int64_t>("visits")
    .Output<std::int64_t>("ranges")
    .Attribute<std::int64_t>("grain", 10)
    .Shape(opgraft::SameAs("x"), opgraft::Sizes({}))
    .Cpu([](opgraft::Context& context, opgraft::Tensor<const float> x,
            opgraft::Tensor<std::int64_t> visits, opgraft::Tensor<std::int64_t> ranges,
            std::int64_t grain) {
      std::ranges::fill(visits, 0);
      std::atomic<std::int64_t> count = 0;
      context.ParallelRanges(x.size(), static_cast<std::size_t>(grain),
                             [&](std::size_t first, std::size_t last) {
                               for (std::size_t i = first; i < last; ++i) ++visits[i];
                               ++count;
                             });
      ranges[0] = count;
    });

OPGRAFT_OP("test.pack::ThrowInLoop")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](opgraft::Context& context, opgraft::Tensor<const float> x, opgraft::Tensor<float>) {
      context.ParallelFor(x.size(), [](std::size_t i) {
        throw std::runtime_error("step " + std::string(i < 1000000 ? "of the loop" : ""));
      });
    });

OPGRAFT_OP("test.pack::ScratchInLoop")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](opgraft::Context& context, opgraft::Tensor<const float> x, opgraft::Tensor<float> y) {
      context.ParallelFor(x.size(), [&](std::size_t i) {
        const std::span<float> own = context.Scratch<float>(16);
        own[0] = x[i];
        y[i] = own[0];
      });
    });

OPGRAFT_OP("test.pack::Increment")
    .Doc("Adds one, in place if it may, and tells whether it did.")
    .Input<float>("x")
    .Output<float>("y")
    .Output<bool>("is_in_place")
    .InPlace("x", "y")
    .Shape(opgraft::SameAs("x"), opgraft::Sizes({}))
    .Cpu([](opgraft::Tensor<const float> x, opgraft::Tensor<float> y,
            opgraft::Tensor<bool> is_in_place) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] + 1;
      is_in_place[0] = x.data() == y.data();
    });

OPGRAFT_OP("test.pack::Log")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](opgraft::Context& context, opgraft::Tensor<const float> x, opgraft::Tensor<float> y) {
      context.Log(opgraft::Severity::kInfo, "a whisper of " + context.node_name());
      context.Log(opgraft::Severity::kWarning, "a warning of " + context.node_name());
      std::ranges::copy(x, y.begin());
    });
