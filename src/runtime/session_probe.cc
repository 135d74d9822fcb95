// Makes the sessions one after the other, each without optimisation and in the caller's thread.
#include "runtime/session_probe.h"

#include "adapter/calls.h"

namespace opgraft::ort {
namespace {

constexpr int kFatal = 4;  // of OrtLoggingLevel: a refusal is an answer, not an error
constexpr int kNothing = 0;
constexpr int kSequential = 0;

}  // namespace

SessionProbe::SessionProbe(const OrtApi* api, const OrtEnv* environment,
                           const OrtSessionOptions* options)
    : api_(api), environment_(environment) {
  const auto then = [&](auto call) {
    if (status_.ok()) status_ = FromRuntime(api_, call());
  };
  then([&] { return CloneSessionOptions(api_, options, &options_); });
  then([&] { return SetSessionLogSeverityLevel(api_, options_, kFatal); });
  then([&] { return SetSessionGraphOptimizationLevel(api_, options_, kNothing); });
  then([&] { return SetSessionExecutionMode(api_, options_, kSequential); });
  then([&] { return SetIntraOpNumThreads(api_, options_, 1); });
  then([&] { return SetOptimizedModelFilePath(api_, options_, ""); });
  then([&] { return DisableProfiling(api_, options_); });
}

SessionProbe::~SessionProbe() {
  if (options_ != nullptr) ReleaseSessionOptions(api_, options_);
}

bool SessionProbe::Loads(std::string_view model) {
  OrtSession* session = nullptr;
  const Status status = FromRuntime(api_, CreateSessionFromArray(api_, environment_, model.data(),
                                                                 model.size(), options_, &session));
  if (session != nullptr) ReleaseSession(api_, session);
  return status.ok();
}

}  // namespace opgraft::ort
