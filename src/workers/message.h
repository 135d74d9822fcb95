// Messages between a host and its workers: numbers and texts in a row. A reader trusts nothing.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/python_spec.h"
#include "opgraft/status.h"

namespace opgraft::workers {

/// What a host asks of a worker.
enum class Request : std::uint64_t { kCreate = 1, kCompute = 2, kDrop = 3, kAnswer = 4 };
/// What a worker replies. kQuestion asks whether an output is unwanted; the answer comes as a
/// request. kLastError is an error after which the worker ends.
enum class Reply : std::uint64_t { kDone = 1, kError = 2, kQuestion = 3, kLastError = 4 };
/// How an input or output is given.
enum class Form : std::uint64_t { kAbsent = 0, kMemory = 1, kTexts = 2 };

class Writer {
 public:
  explicit Writer(std::string* bytes) : bytes_(*bytes) { bytes_.clear(); }

  void Number(std::uint64_t number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  template <class Enumeration>
  void Kind(Enumeration kind) {
    Number(static_cast<std::uint64_t>(kind));
  }
  void Text(std::string_view text) {
    Number(text.size());
    bytes_.append(text);
  }
  void Numbers(std::span<const std::int64_t> numbers) {
    Number(numbers.size());
    for (const std::int64_t number : numbers) Number(static_cast<std::uint64_t>(number));
  }
  void Texts(std::span<const std::string_view> texts) {
    Number(texts.size());
    for (const std::string_view text : texts) Text(text);
  }

 private:
  std::string& bytes_;
};

/// After a value that is not there, ok() is false and all further values are 0 or empty.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  std::uint64_t Number() {
    std::uint64_t number = 0;
    if (const std::string_view bytes = Take(sizeof(number)); bytes.size() == sizeof(number)) {
      std::memcpy(&number, bytes.data(), sizeof(number));
    }
    return number;
  }
  template <class Enumeration>
  Enumeration Kind() {
    return static_cast<Enumeration>(Number());
  }
  std::string_view Text() { return Take(Number()); }
  std::vector<std::int64_t> Numbers() {
    std::vector<std::int64_t> numbers(Count());
    for (std::int64_t& number : numbers) number = static_cast<std::int64_t>(Number());
    return numbers;
  }
  std::vector<std::string_view> Texts() {
    std::vector<std::string_view> texts(Count());
    for (std::string_view& text : texts) text = Text();
    return texts;
  }

 private:
  /// Each of the values that follow takes at least eight bytes, so that no count allocates more
  /// memory than the message has.
  std::size_t Count() {
    const std::uint64_t count = Number();
    ok_ = ok_ && count <= bytes_.size() / sizeof(std::uint64_t);
    return ok_ ? count : 0;
  }
  std::string_view Take(std::uint64_t size) {
    ok_ = ok_ && size <= bytes_.size();
    if (!ok_) return {};
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  std::string_view bytes_;
  bool ok_ = true;
};

void WriteSpec(const pyop::Spec& spec, Writer* writer);
void ReadSpec(Reader* reader, pyop::Spec* spec);

/// Returns the size in bytes of a tensor in ONNX Runtime's layout; false if there is no such tensor
/// or its size does not fit into 63 bits.
bool TensorSize(std::int64_t element_type, std::span<const std::int64_t> shape, std::size_t* size);

}  // namespace opgraft::workers
