// A reader without recursion: lists do not contain lists. It terminates on any text, at worst with
// an error.
#include "aten/encoding.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"

namespace opgraft::aten {
namespace {

bool IsLetter(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         character == '_';
}
bool IsDigit(char character) { return character >= '0' && character <= '9'; }

/// More than the inputs of any node: larger indices are refused.
constexpr std::int64_t kMostInputs = 1 << 20;

class LiteralReader {
 public:
  LiteralReader(std::string_view text, std::string_view attribute, const std::string& who)
      : text_(text), attribute_(attribute), who_(who) {}

  Status ReadArguments(std::vector<WrittenArgument>* arguments) {
    if (!Take('(')) return Expected("'('");
    if (!Take(')')) {
      do {
        WrittenArgument& argument = arguments->emplace_back();
        if (Status status = ReadArgument(&argument); !status.ok()) return status;
      } while (Take(','));
      if (!Take(')')) return Expected("',' or ')'");
    }
    return AtEnd();
  }

  Status ReadWhole(Written* value) {
    Status status = ReadValue(value);
    return status.ok() ? AtEnd() : status;
  }

  Status ReadResults(std::vector<WrittenResult>* results) {
    SkipBlanks();
    if (at_ == text_.size()) return Status();
    do {
      WrittenResult& result = results->emplace_back();
      if (Status status = ReadResult(&result); !status.ok()) return status;
    } while (Take(','));
    return AtEnd();
  }

 private:
  Status Expected(const char* what) const {
    return Status::Model(who_ + ": its attribute '" + std::string(attribute_) +
                         "' is malformed at offset " + std::to_string(at_) + ", where " + what +
                         " is expected: " + Readable(text_.substr(0, 200)));
  }

  Status AtEnd() {
    SkipBlanks();
    return at_ == text_.size() ? Status() : Expected("its end");
  }

  void SkipBlanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  char Peek() {
    SkipBlanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool Take(char character) {
    SkipBlanks();
    if (at_ == text_.size() || text_[at_] != character) return false;
    ++at_;
    return true;
  }

  std::string_view TakeName() {
    SkipBlanks();
    const std::size_t start = at_;
    if (at_ < text_.size() && IsLetter(text_[at_])) {
      while (at_ < text_.size() && (IsLetter(text_[at_]) || IsDigit(text_[at_]))) ++at_;
    }
    return text_.substr(start, at_ - start);
  }

  Status ReadArgument(WrittenArgument* argument) {
    const std::size_t start = at_;
    const std::string_view name = TakeName();
    if (!name.empty() && Take('=')) {
      argument->name = name;
    } else {
      at_ = start;
    }
    if (Peek() != '[') return ReadValue(&argument->value);
    return ReadList(&argument->value);
  }

  Status ReadList(Written* value) {
    value->form = Form::kList;
    Take('[');
    if (Take(']')) return Status();
    do {
      if (Status status = ReadItem(&value->items.emplace_back()); !status.ok()) return status;
    } while (Take(','));
    return Take(']') ? Status() : Expected("',' or ']'");
  }

  Status ReadValue(Written* value) { return Peek() == '[' ? ReadList(value) : ReadItem(value); }

  Status ReadItem(Written* value) {
    const char first = Peek();
    if (first == '%') return ReadPlace(Form::kTensor, value);
    if (first == '"') {
      value->form = Form::kText;
      return ReadText(&value->text);
    }
    if (first == '-' || IsDigit(first)) return ReadNumber(value);
    const std::string_view name = TakeName();
    if (name == "null") return Status();
    if (name == "true" || name == "false") {
      value->form = Form::kBool;
      value->integer = name == "true" ? 1 : 0;
      return Status();
    }
    if (name == "inf" || name == "nan") {
      value->form = Form::kFloat;
      value->real = name == "inf" ? std::numeric_limits<double>::infinity()
                                  : std::numeric_limits<double>::quiet_NaN();
      return Status();
    }
    if (name == "torch") {
      value->form = Form::kName;
      if (!Take('.')) return Expected("'.' and a name of torch");
      value->text = TakeName();
      return value->text.empty() ? Expected("a name of torch") : Status();
    }
    return ReadCall(name, value);
  }

  /// name(...)
  Status ReadCall(std::string_view name, Written* value) {
    constexpr std::pair<std::string_view, Form> kCalls[] = {
        {"complex", Form::kComplexTensor}, {"int", Form::kNumberOf},   {"float", Form::kNumberOf},
        {"bool", Form::kNumberOf},         {"ints", Form::kNumbersOf}, {"floats", Form::kNumbersOf},
        {"bools", Form::kNumbersOf},       {"device", Form::kDevice},
    };
    for (const auto& [known, form] : kCalls) {
      if (known != name) continue;
      if (!Take('(')) return Expected("'('");
      Status status;
      if (form == Form::kDevice) {
        value->form = form;
        status = ReadText(&value->text);
      } else if (form == Form::kComplexTensor && Peek() != '%') {
        status = ReadComplex(value);
      } else {
        status = ReadPlace(form, value);
      }
      if (!status.ok()) return status;
      return Take(')') ? Status() : Expected("')'");
    }
    return Expected("a value");
  }

  Status ReadComplex(Written* value) {
    Written parts[2];
    for (Written& part : parts) {
      if (Status status = ReadItem(&part); !status.ok()) return status;
      if (part.form == Form::kInt) part.real = static_cast<double>(part.integer);
      if (part.form != Form::kFloat && part.form != Form::kInt) return Expected("a number");
      if (&part == &parts[0] && !Take(',')) return Expected("','");
    }
    value->form = Form::kComplex;
    value->real = parts[0].real;
    value->imaginary = parts[1].real;
    return Status();
  }

  Status ReadPlace(Form form, Written* value) {
    value->form = form;
    if (!Take('%')) return Expected("'%' and the index of an input");
    const char* const start = text_.data() + at_;
    const char* const end = text_.data() + text_.size();
    if (start == end || !IsDigit(*start)) return Expected("the index of an input");
    const auto [stop, error] = std::from_chars(start, end, value->integer);
    if (error != std::errc() || value->integer >= kMostInputs) {
      return Expected("the index of an input");
    }
    at_ += static_cast<std::size_t>(stop - start);
    return Status();
  }

  Status ReadNumber(Written* value) {
    const char* const start = text_.data() + at_;
    const char* const end = text_.data() + text_.size();
    const bool is_negative = *start == '-';
    if (is_negative && std::string_view(start + 1, end).starts_with("inf")) {
      value->form = Form::kFloat;
      value->real = -std::numeric_limits<double>::infinity();
      at_ += 4;
      return Status();
    }
    if (is_negative && (start + 1 == end || !IsDigit(start[1]))) return Expected("a number");
    const auto [integer_end, integer_error] = std::from_chars(start, end, value->integer);
    const auto [real_end, real_error] = std::from_chars(start, end, value->real);
    const bool is_integer = integer_end == real_end;
    if ((is_integer ? integer_error : real_error) != std::errc()) return Expected("a number");
    value->form = is_integer ? Form::kInt : Form::kFloat;
    at_ += static_cast<std::size_t>(real_end - start);
    return Status();
  }

  /// Reads a string, which is written as in JSON.
  Status ReadText(std::string* text) {
    if (!Take('"')) return Expected("'\"'");
    while (at_ < text_.size() && text_[at_] != '"') {
      const char character = text_[at_++];
      if (character != '\\') {
        text->push_back(character);
        continue;
      }
      if (Status status = ReadEscape(text); !status.ok()) return status;
    }
    if (at_ == text_.size()) return Expected("'\"'");
    ++at_;
    return Status();
  }

  Status ReadEscape(std::string* text) {
    constexpr std::string_view kEscapes = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const char character = at_ < text_.size() ? text_[at_++] : '\0';
    const std::size_t found = kEscapes.find(character);
    if (character != '\0' && found != kEscapes.npos) {
      text->push_back(kMeanings[found]);
      return Status();
    }
    unsigned code = 0;
    if (character == 'u' && ReadHex(&code)) {
      unsigned low = 0;
      if (code >= 0xd800 && code < 0xdc00 && text_.substr(at_).starts_with("\\u")) {
        at_ += 2;
        if (!ReadHex(&low) || low < 0xdc00 || low > 0xdfff) return Expected("a JSON escape");
        code = 0x10000 + ((code - 0xd800) << 10U) + (low - 0xdc00);
      }
      AppendUtf8(code, text);
      return Status();
    }
    return Expected("a JSON escape");
  }

  bool ReadHex(unsigned* code) {
    if (text_.size() - at_ < 4) return false;
    const char* const start = text_.data() + at_;
    const auto [stop, error] = std::from_chars(start, start + 4, *code, 16);
    at_ += 4;
    return error == std::errc() && stop == start + 4;
  }

  static void AppendUtf8(unsigned code, std::string* text) {
    const auto add = [&](unsigned byte) { text->push_back(static_cast<char>(byte)); };
    if (code < 0x80) return add(code);
    if (code < 0x800) {
      add(0xc0U | (code >> 6U));
    } else if (code < 0x10000) {
      add(0xe0U | (code >> 12U));
      add(0x80U | ((code >> 6U) & 0x3fU));
    } else {
      add(0xf0U | (code >> 18U));
      add(0x80U | ((code >> 12U) & 0x3fU));
      add(0x80U | ((code >> 6U) & 0x3fU));
    }
    add(0x80U | (code & 0x3fU));
  }

  Status ReadResult(WrittenResult* result) {
    using ResultForm = WrittenResult::Form;
    if (Take('[')) {
      result->form = ResultForm::kList;
      if (Take(']')) return Status();
      do {
        Status status = ReadTensor(TakeName(), &result->tensors.emplace_back());
        if (!status.ok()) return status;
      } while (Take(','));
      return Take(']') ? Status() : Expected("',' or ']'");
    }
    const std::string_view name = TakeName();
    constexpr std::pair<std::string_view, ResultForm> kWords[] = {{"int", ResultForm::kInt},
                                                                  {"float", ResultForm::kFloat},
                                                                  {"bool", ResultForm::kBool},
                                                                  {"null", ResultForm::kNull}};
    for (const auto& [word, form] : kWords) {
      if (word != name || Peek() == '[') continue;
      result->form = form;
      return Status();
    }
    return ReadTensor(name, &result->tensors.emplace_back());
  }

  Status ReadTensor(std::string_view name, WrittenResult::Tensor* tensor) {
    tensor->dtype = FindDtype(name);
    if (tensor->dtype == nullptr) return Expected("an element type of tensors");
    if (!Take('[')) return Expected("'['");
    if (Take('.')) {
      const bool is_open = Take('.') && Take('.') && Take(']');
      return is_open ? Status() : Expected("'...]'");
    }
    tensor->shape.emplace();
    if (Take(']')) return Status();
    do {
      Status status = ReadDimension(&tensor->shape->emplace_back());
      if (!status.ok()) return status;
    } while (Take(','));
    return Take(']') ? Status() : Expected("',' or ']'");
  }

  Status ReadDimension(Dimension* dimension) {
    const char first = Peek();
    if (Take('?')) return Status();
    if (first == '"') return ReadText(&dimension->symbol);
    if (IsDigit(first)) {
      const char* const start = text_.data() + at_;
      const auto [stop, error] =
          std::from_chars(start, text_.data() + text_.size(), dimension->size);
      at_ += static_cast<std::size_t>(stop - start);
      return error == std::errc() ? Status() : Expected("a dimension");
    }
    dimension->symbol = TakeName();
    return dimension->symbol.empty() ? Expected("a dimension") : Status();
  }

  const std::string_view text_;
  const std::string_view attribute_;
  const std::string& who_;
  std::size_t at_ = 0;
};

}  // namespace

Status ReadArguments(std::string_view text, const std::string& who,
                     std::vector<WrittenArgument>* arguments) {
  return LiteralReader(text, "arguments", who).ReadArguments(arguments);
}

Status ReadWritten(std::string_view text, const std::string& who, Written* value) {
  return LiteralReader(text, "arguments", who).ReadWhole(value);
}

Status ReadResults(std::string_view text, const std::string& who,
                   std::vector<WrittenResult>* results) {
  return LiteralReader(text, "results", who).ReadResults(results);
}

std::vector<NodeOutput> OutputsOf(const std::vector<WrittenResult>& results) {
  std::vector<NodeOutput> outputs;
  for (const WrittenResult& result : results) {
    switch (result.form) {
      case WrittenResult::Form::kInt: outputs.push_back({7, SymbolicShape(std::in_place)}); break;
      case WrittenResult::Form::kFloat:
        outputs.push_back({11, SymbolicShape(std::in_place)});
        break;
      case WrittenResult::Form::kBool: outputs.push_back({9, SymbolicShape(std::in_place)}); break;
      default: break;
    }
    for (const WrittenResult::Tensor& tensor : result.tensors) {
      NodeOutput& output = outputs.emplace_back();
      output.element_type = tensor.dtype->element_type;
      output.shape = tensor.shape;
      if (output.shape && tensor.dtype->is_complex) output.shape->push_back({2, ""});
    }
  }
  return outputs;
}

}  // namespace opgraft::aten
