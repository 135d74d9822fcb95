// Reads a protobuf message field by field, each with the slice of bytes that it occupies.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <vector>

namespace opgraft::model {

/// Thrown if a field does not have the wire type that ONNX gives it.
struct WireTypeError : protozero::exception {
  const char* what() const noexcept override { return "a field has the wrong wire type"; }
};

/// One field of a message. The typed readers throw a WireTypeError if the wire type differs.
class Field {
 public:
  std::uint32_t tag() const { return tag_; }
  /// The whole field, including its tag and length.
  std::string_view slice() const { return slice_; }

  /// A string or a message.
  std::string_view Bytes() const { return Expect(protozero::pbf_wire_type::length_delimited); }

  std::int64_t Integer() const {
    Expect(protozero::pbf_wire_type::varint);
    return static_cast<std::int64_t>(number_);
  }

  double Double() const {
    Expect(protozero::pbf_wire_type::fixed64);
    return std::bit_cast<double>(number_);
  }

  float Float() const {
    Expect(protozero::pbf_wire_type::fixed32);
    return std::bit_cast<float>(static_cast<std::uint32_t>(number_));
  }

  /// Appends a repeated integer or float, which may be packed or one element per field.
  void AppendTo(std::vector<std::int64_t>* integers) const {
    if (type_ != protozero::pbf_wire_type::length_delimited) return integers->push_back(Integer());
    const char* next = bytes_.data();
    const char* const end = next + bytes_.size();
    while (next != end) {
      integers->push_back(static_cast<std::int64_t>(protozero::decode_varint(&next, end)));
    }
  }

  void AppendTo(std::vector<float>* floats) const { AppendFixed(floats); }
  void AppendTo(std::vector<double>* doubles) const { AppendFixed(doubles); }

 private:
  friend class FieldReader;

  template <class Element>
  void AppendFixed(std::vector<Element>* elements) const {
    if (type_ != protozero::pbf_wire_type::length_delimited) {
      if constexpr (sizeof(Element) == sizeof(float))
        return elements->push_back(Float());
      else
        return elements->push_back(Double());
    }
    if (bytes_.size() % sizeof(Element) != 0) throw protozero::invalid_length_exception();
    const std::size_t start = elements->size();
    elements->resize(start + bytes_.size() / sizeof(Element));
    if (!bytes_.empty()) std::memcpy(elements->data() + start, bytes_.data(), bytes_.size());
  }

  std::string_view Expect(protozero::pbf_wire_type type) const {
    if (type_ != type) throw WireTypeError();
    return bytes_;
  }

  std::uint32_t tag_ = 0;
  protozero::pbf_wire_type type_ = protozero::pbf_wire_type::unknown;
  std::string_view slice_;
  std::string_view bytes_;
  std::uint64_t number_ = 0;
};

/// `for (FieldReader reader(message); reader.Next();) use(reader.field());`
/// Throws protozero::exception if the bytes are not protobuf.
class FieldReader {
 public:
  explicit FieldReader(std::string_view message) : reader_(message.data(), message.size()) {}

  bool Next() {
    const char* const start = reader_.data().data();
    if (!reader_.next()) return false;
    field_ = Field();
    field_.tag_ = reader_.tag();
    field_.type_ = reader_.wire_type();
    switch (field_.type_) {
      case protozero::pbf_wire_type::length_delimited: {
        const protozero::data_view view = reader_.get_view();
        field_.bytes_ = {view.data(), view.size()};
        break;
      }
      case protozero::pbf_wire_type::varint: field_.number_ = reader_.get_uint64(); break;
      case protozero::pbf_wire_type::fixed32: field_.number_ = reader_.get_fixed32(); break;
      case protozero::pbf_wire_type::fixed64: field_.number_ = reader_.get_fixed64(); break;
      default: reader_.skip();
    }
    field_.slice_ = {start, static_cast<std::size_t>(reader_.data().data() - start)};
    return true;
  }

  const Field& field() const { return field_; }

 private:
  protozero::pbf_reader reader_;
  Field field_;
};

/// Returns the last string or message under `tag`, or an empty one if there is none.
inline std::string_view ReadText(std::string_view message, std::uint32_t tag) {
  std::string_view text;
  for (FieldReader reader(message); reader.Next();) {
    if (reader.field().tag() == tag) text = reader.field().Bytes();
  }
  return text;
}

}  // namespace opgraft::model
