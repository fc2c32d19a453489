#include "training/checkpoint.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/disk_advice.h"
#include "core/error.h"
#include "core/log.h"
#include "formats/json.h"
#include "training/checkpoint_folder.h"
#include "training/checkpoint_ownership.h"

namespace lazytrain {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kManifest = "manifest.json";
constexpr std::string_view kFormat = "lazytrain-checkpoint";
constexpr std::int64_t kVersion = 2;  // 1 had no checksum of the manifest
constexpr std::int64_t kMostSerial = std::int64_t{1} << 53;

std::string hexadecimal(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

// A file name and nothing else: a manifest must not lead out of its folder.
bool plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

void flush(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = descriptor >= 0 && fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (!done)
    fail(ExitCode::disk, "{}: cannot flush it: {}{}", path.string(), std::strerror(error),
         disk_advice(error));
}

// Of everything else in the manifest.
std::string own_checksum(nlohmann::ordered_json manifest) {
  manifest.erase("xxh3");
  const std::string text = manifest.dump();
  return hexadecimal(checksum(std::as_bytes(std::span(text))));
}

std::int64_t whole_number(const nlohmann::ordered_json& object, const char* key) {
  const nlohmann::ordered_json& value = object.at(key);
  if (!value.is_number_integer()) throw std::invalid_argument(fmt::format("{} is no whole number", key));
  return value.get<std::int64_t>();
}

}  // namespace

// ---- Manifest ----

CheckpointManifest read_manifest(const fs::path& folder) {
  CheckpointManifest manifest;
  const fs::path path = folder / kManifest;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    fail(ExitCode::model_file, "{}: no {}: not a complete checkpoint; give another checkpoint-<step> folder",
         folder.string(), kManifest);
  }
  if (const std::uintmax_t size = fs::file_size(path, error); error || size > (std::uintmax_t{16} << 20)) {
    fail(ExitCode::model_file,
         "{}: unreadable, or larger than any manifest of this program; give another checkpoint",
         path.string());
  }
  const nlohmann::ordered_json json =
      parse_ordered_json(read_file(path), path.string(), ExitCode::model_file);
  bool damaged = false;
  try {
    if (json.at("format").get<std::string>() != kFormat)
      throw std::invalid_argument("'format' is another program's");
    const std::int64_t version = whole_number(json, "version");
    if (version != kVersion) {
      throw std::invalid_argument(fmt::format("version {} instead of {}", version, kVersion));
    }
    manifest.step = whole_number(json, "step");
    manifest.serial = whole_number(json, "serial");
    if (manifest.step < 0 || manifest.serial < 0 || manifest.serial > kMostSerial)
      throw std::invalid_argument("step or serial beyond all bounds");
    for (const nlohmann::ordered_json& entry : json.at("files")) {
      CheckpointManifest::File file{.name = entry.at("name").get<std::string>(),
                                    .bytes = whole_number(entry, "bytes")};
      const auto text = entry.at("xxh3").get<std::string>();
      const auto parsed = std::from_chars(text.data(), text.data() + text.size(), file.checksum, 16);
      if (!plain_name(file.name) || file.bytes < 0 || text.size() != 16 || parsed.ec != std::errc() ||
          parsed.ptr != text.data() + text.size()) {
        throw std::invalid_argument("a file entry is not valid");
      }
      manifest.files.push_back(std::move(file));
    }
    damaged = json.at("xxh3").get<std::string>() != own_checksum(json);
  } catch (const nlohmann::json::exception&) {
    fail(ExitCode::model_file,
         "{}: not a checkpoint manifest: a value is missing or of another kind; give another checkpoint",
         path.string());
  } catch (const std::invalid_argument& fault) {
    fail(ExitCode::model_file, "{}: not a checkpoint manifest: {}; give another checkpoint", path.string(),
         fault.what());
  }
  if (damaged)
    fail(ExitCode::model_file,
         "{}: {} is damaged: its checksum is not the one it holds; give another checkpoint", folder.string(),
         kManifest);
  return manifest;
}

void check_sizes(const fs::path& folder, const CheckpointManifest& manifest) {
  for (const CheckpointManifest::File& file : manifest.files) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(folder / file.name, error);
    if (error)
      fail(ExitCode::model_file, "{}: {} is missing; give another checkpoint", folder.string(), file.name);
    if (size != static_cast<std::uintmax_t>(file.bytes)) {
      fail(ExitCode::model_file, "{}: {} has {} bytes instead of {}; give another checkpoint",
           folder.string(), file.name, size, file.bytes);
    }
  }
}

// ---- Writer ----

CheckpointWriter::CheckpointWriter(const OutputLock& lock, std::int64_t step)
    : output_dir_(lock.folder()),
      temporary_(output_dir_ / fmt::format("checkpoint-{}.tmp-{}", step, getpid())),
      step_(step) {
  std::error_code error;
  if (is_own_leftover(temporary_)) remove_own_folder(temporary_, error);
  if (!error && !fs::create_directory(temporary_, error) && !error)
    error = std::make_error_code(std::errc::file_exists);
  if (error)
    fail(ExitCode::disk, "{}: cannot create it: {}{}", temporary_.string(), error.message(),
         disk_advice(error.value()));
  mark_unfinished(temporary_);
}

CheckpointWriter::~CheckpointWriter() {
  if (committed_) return;
  file_.reset();
  std::error_code ignored;
  remove_own_folder(temporary_, ignored);
}

void CheckpointWriter::begin(const std::string& name) {
  end();
  check(plain_name(name) && name != kManifest, "a plain file name");
  check(!files_.contains(name), "a file is written once");
  name_ = name;
  file_ = std::make_unique<AtomicFile>(temporary_ / name);
  checksum_ = std::make_unique<Checksum>();
  bytes_ = 0;
}

void CheckpointWriter::write(std::span<const std::byte> piece) {
  check(file_ != nullptr, "begin() before write()");
  file_->write(piece.data(), piece.size());
  checksum_->add(piece);
  bytes_ += static_cast<std::int64_t>(piece.size());
}

void CheckpointWriter::end() {
  if (file_ == nullptr) return;
  file_->commit();
  files_[name_] = {.bytes = bytes_, .checksum = checksum_->value()};
  file_.reset();
}

void CheckpointWriter::add(const std::string& name, std::string_view text) {
  begin(name);
  write(std::as_bytes(std::span(text)));
  end();
}

void CheckpointWriter::take_in_other_files() {
  for (const fs::directory_entry& entry : fs::directory_iterator(temporary_)) {
    const std::string name = entry.path().filename().string();
    if (files_.contains(name) || name.starts_with('.')) continue;  // ours, the mark
    check(entry.is_regular_file(), "a checkpoint holds plain files only");
    flush(entry.path());
    const MappedFile mapped(entry.path());
    files_[name] = {.bytes = static_cast<std::int64_t>(mapped.bytes().size()),
                    .checksum = checksum(mapped.bytes())};
  }
}

fs::path CheckpointWriter::commit() {
  end();
  take_in_other_files();
  std::int64_t serial = 1;
  for (const CheckpointInfo& other : list_checkpoints(output_dir_))
    serial = std::max(serial, other.serial + 1);

  nlohmann::ordered_json manifest;
  manifest["format"] = kFormat;
  manifest["version"] = kVersion;
  manifest["step"] = step_;
  manifest["serial"] = serial;
  manifest["files"] = nlohmann::ordered_json::array();
  for (const auto& [name, entry] : files_) {
    manifest["files"].push_back(
        {{"name", name}, {"bytes", entry.bytes}, {"xxh3", hexadecimal(entry.checksum)}});
  }
  manifest["xxh3"] = own_checksum(manifest);
  // write_json flushes the file and the folder, and with it every name above.
  write_json(temporary_ / kManifest, manifest);
  unmark_unfinished(temporary_);
  fs::path final_path = output_dir_ / fmt::format("checkpoint-{}", step_);
  put_in_place(temporary_, final_path);
  committed_ = true;
  sync_directory(output_dir_);
  return final_path;
}

// ---- Reader ----

Checkpoint::Checkpoint(fs::path path) : path_(std::move(path)) {
  const CheckpointManifest manifest = read_manifest(path_);
  check_sizes(path_, manifest);
  for (const CheckpointManifest::File& file : manifest.files) {
    const MappedFile mapped(path_ / file.name);
    if (checksum(mapped.bytes()) != file.checksum) {
      fail(ExitCode::model_file,
           "{}: {} is damaged: its checksum is not the one in {}; give another checkpoint", path_.string(),
           file.name, kManifest);
    }
    files_[file.name] = file.bytes;
  }
  step_ = manifest.step;
  serial_ = manifest.serial;
}

Bytes Checkpoint::size() const {
  Bytes sum;
  for (const auto& [name, bytes] : files_) sum.value += bytes;
  return sum;
}

MappedFile Checkpoint::map(const std::string& name) const {
  if (!has(name)) {
    fail(ExitCode::model_file, "{}: the checkpoint has no {}; it cannot be resumed from", path_.string(),
         name);
  }
  return MappedFile(path_ / name);
}

std::string Checkpoint::text(const std::string& name) const {
  return std::string(map(name).text());
}

}  // namespace lazytrain
