// Calls opgraft._base._failure, which may itself fail.
#include "python/call/failure.h"

#include <nanobind/stl/string.h>

#include "base/text.h"
#include "python/call/python_api.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// Calls a function of opgraft._base._failure. The result is invalid if that raises.
template <class... Arguments>
nb::object CallModule(const char* function, const Arguments&... arguments) {
  try {
    return nb::module_::import_("opgraft._base._failure").attr(function)(arguments...);
  } catch (nb::python_error&) {
    return {};
  }
}

}  // namespace

std::string ToUtf8(const nb::object& text) {
  const bool is_text = text.is_valid() && PyUnicode_Check(text.ptr());
  const char* utf8 = is_text ? PyUnicode_AsUTF8AndSize(text.ptr(), nullptr) : nullptr;
  if (utf8 == nullptr) PyErr_Clear();
  return utf8 != nullptr ? utf8 : "";
}

void Raise(const Status& status, std::int64_t opset_limit) {
  const nb::object type =
      nb::module_::import_("opgraft._base._errors").attr(Name(status.kind()).data());
  nb::object error = type(Readable(status.message()));
  if (opset_limit != 0) error.attr("opset_limit") = opset_limit;
  PyErr_SetObject(type.ptr(), error.ptr());
  throw nb::python_error();
}

Failure::Failure(bool keep_frames) {
  text_ = ToUtf8(CallModule("describe", error_.value(), nb::bool_(keep_frames)));
  if (text_.empty()) text_ = TypeName(error_.type().ptr()) + ", which cannot be described";
}

Status Failure::ToStatus(const std::string& what, bool is_kept) const {
  return ToStatus(what, is_kept, nb::none());
}

Status Failure::ToStatus(const std::string& what, bool is_kept, const std::string& subject) const {
  return ToStatus(what, is_kept, nb::str(subject.c_str()));
}

Status Failure::ToStatus(const std::string& what, bool is_kept, const nb::object& subject) const {
  const nb::object number = is_kept ? CallModule("keep", error_.value()) : nb::object();
  const std::string mark =
      number.is_valid() ? "[" + std::to_string(PyLong_AsLongLong(number.ptr())) + "] " : "";
  const nb::object hint = CallModule("hint", error_.value(), subject);
  return Status::PyOp(mark + what + " raised " + text_ + ToUtf8(hint));
}

}  // namespace opgraft::pyop
