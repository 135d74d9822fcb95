// Parses "process;name=value;...".
#include "workers/options.h"

#include <charconv>

namespace opgraft::workers {
namespace {

constexpr char kHow[] = ". Fix: isolation=\"process\", workers=2, timeout=1.5";
constexpr int kMostWorkers = 256;
constexpr double kMostSeconds = 1e9;  ///< the clock counts nanoseconds in 64 bits

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

template <class Number>
bool Read(std::string_view text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

bool ReadSeconds(std::string_view text, double* seconds) {
  return Read(text, seconds) && *seconds >= 0 && *seconds <= kMostSeconds;
}

bool Set(std::string_view name, std::string_view value, Options* options) {
  if (name == "workers") {
    return Read(value, &options->workers) && options->workers >= 1 &&
           options->workers <= kMostWorkers;
  }
  if (name == "python") return options->python = value, true;
  if (name == "timeout") return ReadSeconds(value, &options->timeout);
  if (name == "start_timeout") return ReadSeconds(value, &options->start_timeout);
  if (name == "memory_limit") return Read(value, &options->memory_limit);
  if (name == "cpu_limit") return Read(value, &options->cpu_limit);
  if (name == "retries") return Read(value, &options->retries) && options->retries >= 0;
  if (name == "sandbox") return options->sandbox = value == "1", value == "1" || value == "0";
  if (name == "writable") return options->writable = value, true;
  if (name == "environment") return options->environment = Split(value, ','), true;
  return false;
}

}  // namespace

Status Options::Parse(std::string_view text, Options* options) {
  *options = Options();
  const std::vector<std::string> entries = Split(text, ';');
  if (entries.empty() || entries[0] != "process") {
    return Status::Error("isolation: expected \"process\", not '" + std::string(text) + "'" + kHow);
  }
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const std::string_view entry = entries[i];
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const bool has_value = equals < entry.size();
    if (!has_value || !Set(entry.substr(0, equals), entry.substr(equals + 1), options)) {
      return Status::Error("isolation: '" + std::string(entry) +
                           "' is not a setting of worker processes, or its value is out of range" +
                           kHow);
    }
  }
  if (!options->writable.empty() && !options->sandbox) {
    return Status::Error("isolation: 'writable' is for sandbox=True");
  }
  return Status();
}

std::string Options::PoolKey() const {
  std::string key = python + ";" + std::to_string(memory_limit) + ";" + std::to_string(cpu_limit);
  if (sandbox) key += ";sandbox;" + writable;
  for (const std::string& name : environment) key += ";" + name;
  return key;
}

}  // namespace opgraft::workers
