#include "model/fields.h"

#include <gtest/gtest.h>

#include <limits>
#include <protozero/pbf_writer.hpp>
#include <string>

namespace opgraft::model {
namespace {

/// Returns the bytes of a message that `write` fills.
std::string Message(const auto& write) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  write(writer);
  return bytes;
}

/// Returns the only field of `message`, which must outlive the field.
Field OnlyField(std::string_view message) {
  FieldReader reader(message);
  EXPECT_TRUE(reader.Next());
  const Field field = reader.field();
  EXPECT_FALSE(reader.Next());
  return field;
}

void ReadAll(std::string_view message) {
  for (FieldReader reader(message); reader.Next();) {
  }
}

TEST(FieldReaderTest, AnEmptyMessageHasNoFields) {
  EXPECT_FALSE(FieldReader("").Next());
  EXPECT_FALSE(FieldReader(std::string_view()).Next());
}

TEST(FieldReaderTest, ReadsEachKindOfField) {
  const std::string message = Message([](protozero::pbf_writer& writer) {
    writer.add_string(1, "text");
    writer.add_int64(2, std::numeric_limits<std::int64_t>::min());
    writer.add_int32(3, -1);
    writer.add_float(25, -1.5F);
  });
  FieldReader reader(message);
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.field().tag(), 1U);
  EXPECT_EQ(reader.field().Bytes(), "text");
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.field().tag(), 2U);
  EXPECT_EQ(reader.field().Integer(), std::numeric_limits<std::int64_t>::min());
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.field().tag(), 3U);
  EXPECT_EQ(reader.field().Integer(), -1);
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.field().tag(), 25U);
  EXPECT_EQ(reader.field().Float(), -1.5F);
  EXPECT_FALSE(reader.Next());
}

TEST(FieldReaderTest, TheSlicesTogetherAreTheMessage) {
  const std::string fields[] = {
      Message([](protozero::pbf_writer& writer) { writer.add_string(1, std::string(200, 'x')); }),
      Message([](protozero::pbf_writer& writer) { writer.add_int64(300, 1000); }),
      Message([](protozero::pbf_writer& writer) { writer.add_float(3, 0.5F); }),
      Message([](protozero::pbf_writer& writer) { writer.add_double(4, 0.5); }),
      Message([](protozero::pbf_writer& writer) { writer.add_string(5, ""); }),
  };
  std::string message;
  for (const std::string& field : fields) message += field;
  FieldReader reader(message);
  std::size_t position = 0;
  for (const std::string& field : fields) {
    ASSERT_TRUE(reader.Next());
    EXPECT_EQ(reader.field().slice(), field);
    EXPECT_EQ(reader.field().slice().data(), message.data() + position);  // a view, not a copy
    position += field.size();
  }
  EXPECT_FALSE(reader.Next());
}

TEST(FieldReaderTest, BytesCutShortThrow) {
  const std::string fields[] = {
      Message([](protozero::pbf_writer& writer) { writer.add_string(100, std::string(200, 'x')); }),
      Message([](protozero::pbf_writer& writer) { writer.add_int64(100, -1); }),
      Message([](protozero::pbf_writer& writer) { writer.add_float(100, 0.5F); }),
      Message([](protozero::pbf_writer& writer) { writer.add_double(100, 0.5); }),
  };
  for (const std::string& field : fields) {
    for (std::size_t size = 1; size < field.size(); ++size) {
      EXPECT_THROW(ReadAll(field.substr(0, size)), protozero::exception) << size;
    }
    EXPECT_NO_THROW(ReadAll(field));
  }
}

TEST(FieldReaderTest, BytesThatAreNoProtobufThrow) {
  EXPECT_THROW(ReadAll("\x0b"), protozero::exception);           // a group
  EXPECT_THROW(ReadAll("\x0f"), protozero::exception);           // an invalid wire type
  EXPECT_THROW(ReadAll({"\x00\x00", 2}), protozero::exception);  // tag 0
  EXPECT_THROW(ReadAll("\x08" + std::string(11, '\xff')),
               protozero::exception);  // a varint that is too long
  EXPECT_THROW(ReadAll("\x0a\xff\xff\xff\xff\x0f"), protozero::exception);  // a length of 4 GiB
}

TEST(FieldTest, TheWrongWireTypeThrows) {
  const std::string text = Message([](auto& writer) { writer.add_string(1, "text"); });
  EXPECT_THROW(OnlyField(text).Integer(), WireTypeError);
  EXPECT_THROW(OnlyField(text).Float(), WireTypeError);
  const std::string integer = Message([](auto& writer) { writer.add_int64(1, 1); });
  EXPECT_THROW(OnlyField(integer).Bytes(), WireTypeError);
  EXPECT_THROW(OnlyField(integer).Float(), WireTypeError);
  const std::string real = Message([](auto& writer) { writer.add_float(1, 1); });
  EXPECT_THROW(OnlyField(real).Bytes(), WireTypeError);
  EXPECT_THROW(OnlyField(real).Integer(), WireTypeError);
  const std::string wide = Message([](auto& writer) { writer.add_double(1, 1); });
  EXPECT_THROW(OnlyField(wide).Bytes(), WireTypeError);
  EXPECT_THROW(OnlyField(wide).Integer(), WireTypeError);
  EXPECT_THROW(OnlyField(wide).Float(), WireTypeError);
}

TEST(FieldTest, RepeatedIntegersArePackedOrNot) {
  const std::vector<std::int64_t> values = {0, -1, 300, std::numeric_limits<std::int64_t>::max()};
  const std::string message = Message([&](protozero::pbf_writer& writer) {
    writer.add_packed_int64(8, values.begin(), values.end());
    writer.add_int64(8, 5);
    writer.add_bytes(8, "");  // packed, without elements
    writer.add_int64(8, -6);
  });
  std::vector<std::int64_t> integers = {9};
  for (FieldReader reader(message); reader.Next();) reader.field().AppendTo(&integers);
  EXPECT_EQ(integers, (std::vector<std::int64_t>{9, 0, -1, 300, values[3], 5, -6}));
}

TEST(FieldTest, RepeatedFloatsArePackedOrNot) {
  const std::vector<float> values = {0.5F, -2, std::numeric_limits<float>::infinity()};
  const std::string message = Message([&](protozero::pbf_writer& writer) {
    writer.add_packed_float(7, values.begin(), values.end());
    writer.add_float(7, 4);
    writer.add_bytes(7, "");
  });
  std::vector<float> floats = {9};
  for (FieldReader reader(message); reader.Next();) reader.field().AppendTo(&floats);
  EXPECT_EQ(floats, (std::vector<float>{9, 0.5F, -2, values[2], 4}));
}

TEST(FieldTest, RepeatedElementsOfTheWrongKindThrow) {
  std::vector<std::int64_t> integers;
  std::vector<float> floats;
  const std::string integer = Message([](auto& writer) { writer.add_int64(1, 1); });
  EXPECT_THROW(OnlyField(integer).AppendTo(&floats), WireTypeError);
  const std::string real = Message([](auto& writer) { writer.add_float(1, 1); });
  EXPECT_THROW(OnlyField(real).AppendTo(&integers), WireTypeError);
}

TEST(FieldTest, PackedElementsCutShortThrow) {
  std::vector<std::int64_t> integers;
  const std::string varint = Message([](auto& writer) { writer.add_bytes(1, "\x01\xff"); });
  EXPECT_THROW(OnlyField(varint).AppendTo(&integers), protozero::exception);
  std::vector<float> floats;
  const std::string five_bytes = Message([](auto& writer) { writer.add_bytes(1, "12345"); });
  EXPECT_THROW(OnlyField(five_bytes).AppendTo(&floats), protozero::exception);
  EXPECT_TRUE(floats.empty());
}

}  // namespace
}  // namespace opgraft::model
