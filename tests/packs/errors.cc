// Operators that fail, in every way there is.
#include <opgraft/op.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

opgraft::Status Fail(const std::string& how) {
  if (how == "status") return opgraft::Status::Model("the values do not please");
  if (how == "exception") throw std::runtime_error("a bad day");
  if (how == "int") throw 42;
  if (how == "bad_alloc") throw std::bad_alloc();
  if (how == "vector") static_cast<void>(std::vector<int>().at(3));
  if (how == "zero") throw std::runtime_error(std::string("before\0after", 12));
  if (how == "long") throw std::runtime_error(std::string(100'000, 'x'));
  if (how == "bytes") throw std::runtime_error("\xff\xfe");
  return opgraft::Status();
}

class FailWhenMade {
 public:
  explicit FailWhenMade(const opgraft::KernelInfo& info) {
    const opgraft::Status status = Fail(info.Attribute<std::string>("how"));
    if (!status.ok()) throw std::runtime_error(status.message());
  }
  void Compute(opgraft::Tensor<const float> x, opgraft::Tensor<float> y) const {
    std::ranges::copy(x, y.begin());
  }
};

/// How many of it there are.
class Alive {
 public:
  Alive() { ++count; }
  Alive(const Alive&) = delete;
  Alive& operator=(const Alive&) = delete;
  ~Alive() { --count; }
  void Compute(opgraft::Tensor<std::int64_t> y) const { y[0] = count; }

 private:
  static inline std::atomic<std::int64_t> count = 0;
};

}  // namespace

OPGRAFT_OP("test.pack::Fail")
    .Input<float>("x")
    .Output<float>("y")
    .Attribute<std::string>("how", "not")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](opgraft::Tensor<const float> x, opgraft::Tensor<float> y, const std::string& how) {
      std::ranges::copy(x, y.begin());
      return Fail(how);
    });

OPGRAFT_OP("test.pack::FailWhenMade")
    .Input<float>("x")
    .Output<float>("y")
    .Attribute<std::string>("how", "not")
    .Shape(opgraft::SameAs("x"))
    .Cpu<FailWhenMade>();

OPGRAFT_OP("test.pack::Allocate")
    .Input<float>("x")
    .Output<float>("y")
    .OptionalOutput<std::string>("z")
    .Attribute<std::string>("how", "well")
    .Cpu([](opgraft::Tensor<const float> x, opgraft::Output<float> y,
            opgraft::Output<std::string> z, const std::string& how) {
      constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
      if (how == "negative") y.Allocate({2, -1});
      if (how == "overflow") y.Allocate({kMost, kMost, 4});
      if (how == "huge") y.Allocate({std::int64_t{1} << 50});
      if (how == "strings") z.Allocate({-5});
      if (how == "huge strings") z.Allocate({std::int64_t{1} << 50});
      if (how == "not") return;
      const opgraft::Tensor<float> out = y.Allocate({x.dimension(0), 1});
      if (how == "twice") y.Allocate({1});
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = x[i] + static_cast<float>(out.dimension(0) + 10 * out.dimension(1));
      }
      if (how != "not strings" && z.IsWanted()) z.Allocate({1})[0] = "z";
    });

OPGRAFT_OP("test.pack::Alive").Output<std::int64_t>("y").Shape(opgraft::Sizes({})).Cpu<Alive>();
