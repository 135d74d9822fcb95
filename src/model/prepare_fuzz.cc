// The fuzzer of Prepare: whatever the bytes are, they are prepared or refused, and what was
// prepared can be prepared again.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "model/prepare.h"

namespace {

[[noreturn]] void Fail(std::string_view what, const opgraft::Status& status) {
  std::fprintf(stderr, "prepare_fuzz: %s: %s\n", what.data(), status.message().c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using opgraft::ErrorKind;
  using opgraft::Status;
  using opgraft::model::NoOperators;
  using opgraft::model::Prepare;
  using opgraft::model::PreparedModel;
  const std::string_view model(reinterpret_cast<const char*>(data), size);
  for (const char* runtime : {"1.19.2", "1.31.1"}) {
    NoOperators operators;
    PreparedModel prepared;
    const Status status = Prepare(model, "the model", runtime, operators, &prepared);
    if (!status.ok() && status.kind() != ErrorKind::kModel) Fail("not a ModelError", status);
    if (!status.ok() || prepared.bytes.empty()) continue;
    PreparedModel again;
    const Status second = Prepare(prepared.bytes, "the prepared model", runtime, operators, &again);
    if (!second.ok()) Fail("what was prepared is refused", second);
    if (!again.bytes.empty()) Fail("what was prepared is changed again", second);
  }
  return 0;
}
