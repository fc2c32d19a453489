// Commands on model folders: import, export, inspect.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "core/log.h"
#include "formats/gguf.h"
#include "model/model_folder.h"
#include "standard_output.h"
#include "training/trainer.h"

namespace lazytrain {
namespace {

int run_import(const std::string& file, const std::string& out) {
  const bool bar = log::terminal();
  import_gguf(file, out, [&](std::int64_t done, std::int64_t total) {
    if (bar && total > 0) fmt::print(stderr, "\rimporting {:3} %", 100 * done / total);
  });
  if (bar) fmt::print(stderr, "\n");
  const ModelFolder model(out);
  print("{}: {} parameters, {} layers, written as safetensors with its tokenizer\n", out,
        parameter_count(model.architecture()), model.architecture().layers);
  return 0;
}

int run_export(const std::string& checkpoint, const std::string& model, const std::string& out,
               const std::string& dtype) {
  const ModelFolder folder(model);
  export_checkpoint(Checkpoint(checkpoint), folder, out, dtype);
  print("{}: the model of {}\n", out, checkpoint);
  return 0;
}

int run_inspect(const std::string& path) {
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
  struct Options {
    std::string checkpoint, model, out, dtype;
  };
  const auto options = std::make_shared<Options>();
  command->add_option("checkpoint", options->checkpoint, "checkpoint-N folder")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--model", options->model, "the folder that training started from")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--out", options->out, "new folder")->required();
  command->add_option("--dtype", options->dtype, "bfloat16 or float32 (default: as in the model)")
      ->check(CLI::IsMember({"bfloat16", "float32"}));
  command->footer(
      "Example:\n  lazytrain export runs/a/checkpoint-500 --model models/small --out models/tuned\n");
  command->callback([options, &action] {
    action = [options] {
      return run_export(options->checkpoint, options->model, options->out, options->dtype);
    };
  });
}

void add_inspect(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("inspect", "Show what a model folder or GGUF file holds");
  const auto path = std::make_shared<std::string>();
  command->add_option("path", *path, "model folder or .gguf")->required()->check(CLI::ExistingPath);
  command->footer("Example:\n  lazytrain inspect models/small\n");
  command->callback([path, &action] { action = [path] { return run_inspect(*path); }; });
}

}  // namespace lazytrain
