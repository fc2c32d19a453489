// Commands on model folders: import, export, inspect.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "core/log.h"
#include "formats/gguf.h"
#include "model/model_folder.h"
#include "standard_output.h"
#include "training/checkpoint_ownership.h"
#include "training/signals.h"
#include "training/trainer.h"

namespace lazytrain {
namespace {

// Thrown out of work that a signal ended: what was written so far is removed on the way out.
struct Stopped {};

void require_name(const std::string& folder, const char* option) {
  if (folder.empty()) fail(ExitCode::usage, "{}: an empty name; give the name of a folder", option);
}

int run_import(const std::string& file, const std::string& out) {
  require_name(out, "--out");
  const StopSignals signals(OnSignal::end);
  const bool bar = log::terminal();
  remove_stale_imports(out);
  try {
    import_gguf(file, out, [&](std::int64_t done, std::int64_t total) {
      if (bar && total > 0) fmt::print(stderr, "\rimporting {:3} %", 100 * done / total);
      if (signals.requested()) throw Stopped();
    });
  } catch (const Stopped&) {
    return static_cast<int>(ExitCode::interrupted);
  }
  if (bar) fmt::print(stderr, "\n");
  const ModelFolder model(out);
  print("{}: {} parameters, {} layers, written as safetensors with its tokenizer\n", out,
        parameter_count(model.architecture()), model.architecture().layers);
  return 0;
}

struct ExportOptions {
  std::string checkpoint, model, out, dtype;
  bool overwrite = false;
};

// A model folder is made anew: what is there, be it a model or not, is somebody's.
void require_free(const std::filesystem::path& out, bool overwrite) {
  std::error_code error;
  if (is_own_checkpoint(out))
    fail(ExitCode::usage, "--out {}: a checkpoint, which would be damaged; choose another folder",
         out.string());
  if (!std::filesystem::is_directory(out, error)) return;
  remove_stale_files(out);
  if (!overwrite && !std::filesystem::is_empty(out, error))
    fail(ExitCode::usage,
         "--out {}: this folder is not empty; choose a new one, or give --overwrite to write over the model "
         "in it",
         out.string());
}

int run_export(const ExportOptions& options) {
  require_name(options.out, "--out");
  const ModelFolder folder(options.model);
  static_cast<void>(folder.check_export(options.out));
  require_free(options.out, options.overwrite);
  const StopSignals signals(OnSignal::end);
  try {
    export_checkpoint(Checkpoint(options.checkpoint), folder, options.out, options.dtype, [&] {
      if (signals.requested()) throw Stopped();
    });
  } catch (const Stopped&) {
    return static_cast<int>(ExitCode::interrupted);
  }
  print("{}: the model of {}\n", options.out, options.checkpoint);
  return 0;
}

// Parts of models and runs that are no model folders.
void hint(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.extension() == ".safetensors")
    fail(ExitCode::usage, "{}: weights alone; give the folder that they lie in: lazytrain inspect {}",
         path.string(), std::filesystem::absolute(path).parent_path().string());
  if (is_own_checkpoint(path) && !std::filesystem::exists(path / "config.json", ignored))
    fail(ExitCode::usage,
         "{}: a checkpoint; `lazytrain export {} --model MODEL --out FOLDER` makes a model folder of it, "
         "where "
         "MODEL is the folder that training started from",
         path.string(), path.string());
}

int run_inspect(const std::string& path) {
  hint(path);
  if (std::filesystem::is_regular_file(path)) {
    const Gguf gguf(path);
    for (const auto& tensor : gguf.tensors()) {
      std::string shape;
      for (const std::int64_t size : tensor.shape)
        shape += fmt::format("{}{}", shape.empty() ? "" : " x ", size);
      print("{:<40} {:<6} {}\n", tensor.name, to_string(tensor.type), shape);
    }
    return 0;
  }
  const ModelFolder folder(path);
  const Architecture& a = folder.architecture();
  print("{}: {}, {} parameters{}\n", path, a.model_type, parameter_count(a),
        a.tied_head ? ", tied head" : "");
  print("layers {}, hidden {}, heads {} (key-value {}), head_dim {}, ffn {}, vocabulary {}, positions {}\n",
        a.layers, a.hidden, a.heads, a.kv_heads, a.head_dim, a.ffn, a.vocab, a.max_position);
  print("{:<12} {:>14} {:>14}\n", "group", "parameters", "bf16 bytes");
  for (const ParameterGroup& group : folder.groups()) {
    std::int64_t parameters = 0;
    for (const ParameterTensor& tensor : group.tensors) parameters += tensor.elements;
    const std::string name = group.kind == GroupKind::embedding ? "embedding"
                             : group.kind == GroupKind::head    ? "head"
                                                                : fmt::format("layer {}", group.layer);
    print("{:<12} {:>14} {:>14}\n", name, parameters, 2 * group.elements);
  }
  return 0;
}

}  // namespace

void add_import(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("import", "Turn a GGUF file into a model folder");
  struct Options {
    std::string file, out;
  };
  const auto options = std::make_shared<Options>();
  command->add_option("file", options->file, "model.gguf")->required()->check(CLI::ExistingFile);
  command->add_option("--out", options->out, "new folder")->required();
  command->footer("Example:\n  lazytrain import model.gguf --out models/small\n");
  command->callback(
      [options, &action] { action = [options] { return run_import(options->file, options->out); }; });
}

void add_export(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("export", "Make a model folder from a checkpoint");
  const auto options = std::make_shared<ExportOptions>();
  command->add_option("checkpoint", options->checkpoint, "checkpoint-N folder")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--model", options->model, "the folder that training started from")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--out", options->out, "new folder, or an empty one")->required();
  command->add_flag("--overwrite", options->overwrite, "write over the model in --out");
  command->add_option("--dtype", options->dtype, "bfloat16 or float32 (default: as in the model)")
      ->check(CLI::IsMember({"bfloat16", "float32"}));
  command->footer(
      "Example:\n  lazytrain export runs/a/checkpoint-500 --model models/small --out models/tuned\n");
  command->callback([options, &action] { action = [options] { return run_export(*options); }; });
}

void add_inspect(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("inspect", "Show what a model folder or GGUF file holds");
  const auto path = std::make_shared<std::string>();
  command->add_option("path", *path, "model folder or .gguf")->required()->check(CLI::ExistingPath);
  command->footer("Example:\n  lazytrain inspect models/small\n");
  command->callback([path, &action] { action = [path] { return run_inspect(*path); }; });
}

}  // namespace lazytrain
