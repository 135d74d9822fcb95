// opgraft-run: runs a model in a program without Python, with the ONNX Runtime that it is given.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "adapter/calls.h"
#include "core/platform.h"
#include "opgraft/host.h"
#include "opgraft/onnxruntime.h"
#include "run/npy.h"
#include "run/record.h"
#include "run/values.h"

namespace opgraft::run {
namespace {

constexpr char kUsage[] =
    "usage: opgraft-run --onnxruntime LIBRARY [--allow MODULE]... [--import MODULE]...\n"
    "                   [--pack FILE]... [--prefer NAME]... [--gpu NUMBER] [--isolate SETTINGS]\n"
    "                   [--input NAME=FILE.npy]... [--output NAME=FILE.npy]...\n"
    "                   [--record FILE] [--exact] MODEL\n"
    "Runs MODEL with the given libonnxruntime.so and prints its outputs. --allow names a Python\n"
    "module that the model may run, or 'package.*'; --import a module to import first, for the\n"
    "operators that it declares; --pack a pack to load first; --prefer an operator of ONNX\n"
    "Runtime's own domains, or a domain, that a pack must run; --gpu a GPU for the nodes that can\n"
    "run there; --isolate settings of worker processes for the Python operators, such as\n"
    "'process;workers=2;timeout=1.5' (docs/isolation.md); --record a file that always names the\n"
    "operators that are running, in case something ends the process; --exact rounds the result of\n"
    "each node that runs in a wider type than its own. Python is the one that OPGRAFT_PYTHON "
    "names,\n"
    "else python3 on the PATH.\n";

struct Options {
  std::string runtime;
  std::string model;
  Allowed allowed;
  std::vector<std::string> packs;
  std::string gpu;      ///< the number of the GPU; empty for none
  std::string isolate;  ///< the settings of worker processes; empty for none
  std::string record;   ///< the file of the record; empty for none
  bool is_exact = false;
  std::map<std::string, std::string> inputs;
  std::map<std::string, std::string> outputs;
};

Status AddPair(const std::string& option, const std::string& entry,
               std::map<std::string, std::string>* pairs) {
  const std::size_t equals = entry.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == entry.size()) {
    return Status::Error(option + " " + entry + ": expected NAME=FILE.npy");
  }
  const auto [pair, is_new] = pairs->emplace(entry.substr(0, equals), entry.substr(equals + 1));
  return is_new ? Status() : Status::Error(option + " " + pair->first + " is given twice");
}

Status ParseOptions(int count, char** arguments, Options* options) {
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (!argument.starts_with("--")) {
      if (!options->model.empty())
        return Status::Error("two models are given\n" + std::string(kUsage));
      options->model = argument;
      continue;
    }
    if (argument == "--exact") {
      options->is_exact = true;
      continue;
    }
    if (i + 1 == count) return Status::Error(argument + " needs a value\n" + kUsage);
    const std::string value = arguments[++i];
    Status status;
    if (argument == "--onnxruntime") {
      options->runtime = value;
    } else if (argument == "--allow") {
      options->allowed.modules.push_back(value);
    } else if (argument == "--isolate") {
      options->isolate = value;
    } else if (argument == "--import") {
      options->allowed.imports.push_back(value);
    } else if (argument == "--pack") {
      options->packs.push_back(value);
    } else if (argument == "--gpu") {
      options->gpu = value;
    } else if (argument == "--record") {
      options->record = value;
    } else if (argument == "--prefer") {
      options->allowed.prefer.push_back(value);
    } else if (argument == "--input") {
      status = AddPair(argument, value, &options->inputs);
    } else if (argument == "--output") {
      status = AddPair(argument, value, &options->outputs);
    } else {
      status = Status::Error("unknown option " + argument + "\n" + kUsage);
    }
    if (!status.ok()) return status;
  }
  if (options->runtime.empty() || options->model.empty()) return Status::Error(kUsage);
  return Status();
}

/// A loaded runtime and a session in it, which are released with the object.
class Runner {
 public:
  Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner() {
    if (session_ != nullptr) ort::ReleaseSession(api_, session_);
    if (environment_ != nullptr) ort::ReleaseEnv(api_, environment_);
  }

  Status Open(const Options& options);
  Status Run(const std::map<std::string, Array>& inputs, std::map<std::string, Array>* outputs,
             std::map<std::string, std::string>* others);

  /// Sets the type of an array whose file does not contain it.
  Status Adopt(const std::string& name, Array* array) const;

  const std::vector<std::string>& input_names() const { return input_names_; }
  const std::vector<std::string>& output_names() const { return output_names_; }

 private:
  Status Take(OrtStatus* returned) const { return ort::FromRuntime(api_, returned); }

  template <class Counter, class Getter>
  Status ReadNames(const Counter& count, const Getter& get, std::vector<std::string>* names) const;

  const OrtApi* api_ = nullptr;
  OrtEnv* environment_ = nullptr;
  OrtSession* session_ = nullptr;
  std::vector<std::string> input_names_;
  std::vector<std::string> output_names_;
};

Status Runner::Open(const Options& options) {
  constexpr int kOnlyFatal = 4;  // the program itself prints errors
  void* library = nullptr;
  Status status = platform::LoadLibrary(options.runtime, /*is_global=*/false, &library);
  if (!status.ok()) return status;
  // Not linked, because the version of the symbol would tie the program to one release.
  void* symbol = platform::FindSymbol(library, "OrtGetApiBase");
  if (symbol == nullptr) return Status::Unavailable(options.runtime + " is not ONNX Runtime");
  const OrtApiBase* base = reinterpret_cast<const OrtApiBase* (*)()>(symbol)();
  api_ = ort::GetApi(base, ort::kApiVersion);
  if (api_ == nullptr) {
    return Status::Unavailable(options.runtime + " is ONNX Runtime " + ort::GetVersionString(base) +
                               ", which is too old");
  }
  for (const std::string& pack : options.packs) {
    if (status = Load(pack); !status.ok()) return status;
  }
  OrtSessionOptions* session_options = nullptr;
  status = Take(ort::CreateEnv(api_, kOnlyFatal, "opgraft-run", &environment_));
  if (status.ok()) status = Take(ort::CreateSessionOptions(api_, &session_options));
  if (!status.ok()) return status;
  if (!options.gpu.empty()) {
    int gpu = -1;
    std::from_chars(options.gpu.data(), options.gpu.data() + options.gpu.size(), gpu);
    status = UseCuda(base, environment_, session_options, gpu);
  }
  if (status.ok() && options.is_exact) {
    status = Take(ort::AddSessionConfigEntry(api_, session_options, "opgraft.exact", "1"));
  }
  if (status.ok() && !options.isolate.empty()) {
    char* text = nullptr;
    const int kind = opgraft_isolate(base, session_options, options.isolate.c_str(), &text);
    status = internal::TakeStatus(kind, text);
  }
  if (status.ok()) {
    status = CreateSession(base, environment_, options.model, session_options, options.allowed,
                           &session_);
  }
  ort::ReleaseSessionOptions(api_, session_options);
  if (status.ok()) {
    status = ReadNames(ort::SessionGetInputCount, ort::SessionGetInputName, &input_names_);
  }
  if (!status.ok()) return status;
  return ReadNames(ort::SessionGetOutputCount, ort::SessionGetOutputName, &output_names_);
}

template <class Counter, class Getter>
Status Runner::ReadNames(const Counter& count, const Getter& get,
                         std::vector<std::string>* names) const {
  OrtAllocator* allocator = nullptr;
  std::size_t number = 0;
  Status status = Take(ort::GetAllocatorWithDefaultOptions(api_, &allocator));
  if (status.ok()) status = Take(count(api_, session_, &number));
  for (std::size_t i = 0; status.ok() && i < number; ++i) {
    char* name = nullptr;
    status = Take(get(api_, session_, i, allocator, &name));
    if (!status.ok()) break;
    names->push_back(name);
    status = Take(ort::AllocatorFree(api_, allocator, name));
  }
  return status;
}

Status Runner::Adopt(const std::string& name, Array* array) const {
  const auto at = std::find(input_names_.begin(), input_names_.end(), name);
  Status status =
      AdoptType(api_, session_, static_cast<std::size_t>(at - input_names_.begin()), array);
  return status.ok() ? status : Status::Error("input '" + name + "': " + status.message());
}

Status Runner::Run(const std::map<std::string, Array>& inputs,
                   std::map<std::string, Array>* outputs,
                   std::map<std::string, std::string>* others) {
  Status status;
  std::vector<const char*> input_names;
  std::vector<const char*> output_names;
  std::vector<OrtValue*> input_values;
  std::vector<OrtValue*> output_values(output_names_.size());
  std::list<std::string> packed;
  for (const auto& [name, array] : inputs) {
    if (!status.ok()) break;
    input_names.push_back(name.c_str());
    input_values.push_back(nullptr);
    status = MakeValue(api_, array, &packed.emplace_back(), &input_values.back());
  }
  for (const std::string& name : output_names_) output_names.push_back(name.c_str());
  if (status.ok()) {
    status = Take(ort::Run(api_, session_, nullptr, input_names.data(), input_values.data(),
                           input_values.size(), output_names.data(), output_names.size(),
                           output_values.data()));
  }
  for (std::size_t i = 0; status.ok() && i < output_values.size(); ++i) {
    int is_tensor = 0;
    status = Take(ort::IsTensor(api_, output_values[i], &is_tensor));
    if (!status.ok()) break;
    status = is_tensor != 0 ? ReadValue(api_, output_values[i], &(*outputs)[output_names_[i]])
                            : FormatValue(api_, output_values[i], &(*others)[output_names_[i]]);
  }
  for (OrtValue* value : input_values) ort::ReleaseValue(api_, value);
  for (OrtValue* value : output_values) ort::ReleaseValue(api_, value);
  return status;
}

/// Checks that each name given with an option is one of the model's.
Status CheckNames(const std::string& option, const std::map<std::string, std::string>& given,
                  const std::vector<std::string>& known) {
  for (const auto& [name, file] : given) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string list;
    for (const std::string& other : known) list += (list.empty() ? "" : ", ") + other;
    return Status::Error(option + " " + name + ": the model has no such " + option.substr(2) +
                         "; its " + option.substr(2) + "s are " + list);
  }
  return Status();
}

Status Main(int count, char** arguments) {
  Options options;
  Runner runner;
  std::map<std::string, Array> inputs;
  std::map<std::string, Array> outputs;
  std::map<std::string, std::string> others;  // outputs that are not tensors, as texts
  Status status = ParseOptions(count, arguments, &options);
  if (status.ok()) status = OpenRecord(options.record);
  for (const auto& [name, file] : options.inputs) {
    if (status.ok()) status = ReadNpy(file, &inputs[name]);
  }
  if (status.ok()) status = runner.Open(options);
  if (status.ok()) status = CheckNames("--input", options.inputs, runner.input_names());
  if (status.ok()) status = CheckNames("--output", options.outputs, runner.output_names());
  if (!status.ok()) return status;
  for (auto& [name, array] : inputs) {
    if (status = runner.Adopt(name, &array); !status.ok()) return status;
  }
  for (const std::string& name : runner.input_names()) {
    if (inputs.contains(name)) continue;
    return Status::Error("the model's input '" + name + "' is missing: --input " + name +
                         "=FILE.npy");
  }
  if (status = runner.Run(inputs, &outputs, &others); !status.ok()) return status;
  for (const std::string& name : runner.output_names()) {
    const auto output = outputs.find(name);
    const std::string text = output == outputs.end() ? others[name] : Format(output->second);
    std::printf("%s %s\n", name.c_str(), text.c_str());
  }
  for (const auto& [name, file] : options.outputs) {
    if (!outputs.contains(name)) {
      return Status::Error("--output " + name +
                           ": it is not a tensor, and .npy files only hold tensors");
    }
    if (status = WriteNpy(file, outputs[name]); !status.ok()) return status;
  }
  return Status();
}

}  // namespace
}  // namespace opgraft::run

int main(int count, char** arguments) {
  const opgraft::Status status = opgraft::run::Main(count, arguments);
  opgraft::run::CloseRecord();
  if (status.ok()) return 0;
  std::fprintf(stderr, "opgraft-run: %s: %s\n", std::string(Name(status.kind())).c_str(),
               status.message().c_str());
  return 1;
}
