#include "data/token_cache_file.h"

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"

namespace lazytrain {
namespace {

using nlohmann::json;

constexpr std::array<char, 8> kMagic{'L', 'T', 't', 'o', 'k', 'e', 'n', '1'};
constexpr std::size_t kBuffer = std::size_t{4} << 20;
constexpr std::size_t kCheckedAtOnce = std::size_t{16} << 20;

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint64_t key = 0;
};
struct Trailer {
  std::uint64_t samples_bytes = 0;
  std::uint64_t samples = 0;
  std::uint64_t text_bytes = 0;
  std::uint64_t sum = 0;
  std::array<char, 8> magic = kMagic;
};

// The sizes are summed too, behind everything else.
void add_sizes(Checksum& sum, const Trailer& trailer) {
  const std::array<std::uint64_t, 3> sizes{trailer.samples_bytes, trailer.samples, trailer.text_bytes};
  sum.add(std::as_bytes(std::span(sizes)));
}

// Places are u64 and begin where u64 may.
std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + 7) / 8 * 8;
}

json to_json(const DatasetReport& report) {
  return {
      {"name", report.name},           {"file", report.file},         {"kind", report.kind},
      {"malformed", report.malformed}, {"layout", report.layout},     {"layout_found", report.layout_found},
      {"records", report.records},     {"accepted", report.accepted}, {"empty", report.empty},
      {"rejected", report.rejected},   {"replaced", report.replaced}, {"rejections", report.rejections}};
}

DatasetReport report_from(const json& value) {
  DatasetReport report;
  value.at("name").get_to(report.name);
  value.at("file").get_to(report.file);
  value.at("kind").get_to(report.kind);
  value.at("malformed").get_to(report.malformed);
  value.at("layout").get_to(report.layout);
  value.at("layout_found").get_to(report.layout_found);
  value.at("records").get_to(report.records);
  value.at("accepted").get_to(report.accepted);
  value.at("empty").get_to(report.empty);
  value.at("rejected").get_to(report.rejected);
  value.at("replaced").get_to(report.replaced);
  value.at("rejections").get_to(report.rejections);
  return report;
}

std::string text_of(const TokenizedDataset& dataset, const SampleTotals& totals, std::uint64_t fingerprint) {
  json reports = json::array();
  for (const DatasetReport& report : dataset.reports) reports.push_back(to_json(report));
  const json value{
      {"reports", std::move(reports)},        {"begins", dataset.begins},   {"overlong", dataset.overlong},
      {"unsupervised", dataset.unsupervised}, {"refused", dataset.refused}, {"refusals", dataset.refusals},
      {"longest", dataset.longest},           {"tokens", totals.tokens},    {"supervised", totals.supervised},
      {"largest_id", totals.largest_id},      {"fingerprint", fingerprint}};
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Nothing where every byte is as it was written.
std::string damage(const MappedFile& file, std::uint64_t key, Trailer& trailer) {
  const std::span<const std::byte> bytes = file.bytes();
  Header header;
  if (bytes.size() < sizeof(header) + sizeof(trailer)) return "it is cut short";
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::size_t end = bytes.size() - sizeof(trailer);
  std::memcpy(&trailer, bytes.data() + end, sizeof(trailer));
  if (header.magic != kMagic || trailer.magic != kMagic) return "it is cut short, or no file of tokens";
  if (header.key != key) return "it is of other data";
  std::uint64_t left = end - sizeof(header);
  if (trailer.samples_bytes > left) return "its sizes contradict each other";
  left -= std::min(left, padded(trailer.samples_bytes));
  if (trailer.samples > left / 8 || trailer.text_bytes != left - 8 * trailer.samples)
    return "its sizes contradict each other";
  Checksum sum;
  for (std::size_t at = 0; at < end; at += kCheckedAtOnce) {
    sum.add(bytes.subspan(at, std::min(kCheckedAtOnce, end - at)));
    file.release(0, at);
  }
  file.release(0, bytes.size());
  add_sizes(sum, trailer);
  return sum.value() == trailer.sum ? "" : "its checksum is wrong";
}

}  // namespace

TokenCacheWriter::TokenCacheWriter(const std::filesystem::path& path, std::uint64_t key)
    : path_(path), file_(path) {
  buffer_.reserve(kBuffer);
  Header header;
  header.key = key;
  write(&header, sizeof(header));
}

void TokenCacheWriter::flush() {
  file_.write(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void TokenCacheWriter::write(const void* data, std::size_t size) {
  const std::span part(static_cast<const std::byte*>(data), size);
  sum_.add(part);
  if (buffer_.size() + size > kBuffer) flush();
  if (size > kBuffer) {
    file_.write(data, size);
  } else {
    buffer_.insert(buffer_.end(), part.begin(), part.end());
  }
}

void TokenCacheWriter::add(const EncodedSample& sample) {
  places_.push_back(SamplePlace{.begin = bytes_, .tokens = sample.tokens}.packed());
  write(sample.bytes.data(), sample.bytes.size());
  bytes_ += sample.bytes.size();
  totals_.add(sample);
}

void TokenCacheWriter::finish(TokenizedDataset& dataset) {
  flush();
  std::uint64_t fingerprint = 0;
  {
    MappedFile written(file_.temporary());
    const auto bytes = written.bytes().subspan(sizeof(Header), bytes_);
    fingerprint = fingerprint_of(TokenizedSamples(std::move(written), bytes, places_, totals_, 0));
  }
  constexpr std::array<char, 8> kZeros{};
  write(kZeros.data(), padded(bytes_) - bytes_);
  write(places_.data(), sizeof(std::uint64_t) * places_.size());
  const std::string text = text_of(dataset, totals_, fingerprint);
  write(text.data(), text.size());
  Trailer trailer{.samples_bytes = bytes_, .samples = places_.size(), .text_bytes = text.size()};
  add_sizes(sum_, trailer);
  trailer.sum = sum_.value();
  write(&trailer, sizeof(trailer));
  flush();
  file_.commit();
  MappedFile file(path_);
  const auto bytes = file.bytes().subspan(sizeof(Header), bytes_);
  const auto* places =
      reinterpret_cast<const std::uint64_t*>(file.bytes().data() + sizeof(Header) + padded(bytes_));
  file.expect_random_reads();
  dataset.samples = TokenizedSamples(std::move(file), bytes, {places, places_.size()}, totals_, fingerprint);
}

std::optional<TokenizedDataset> read_token_cache(const std::filesystem::path& path, std::uint64_t key,
                                                 std::string& reason) {
  try {
    MappedFile file(path);
    Trailer trailer;
    reason = damage(file, key, trailer);
    if (!reason.empty()) return std::nullopt;
    const auto bytes = file.bytes().subspan(sizeof(Header), trailer.samples_bytes);
    const std::size_t places_at = sizeof(Header) + padded(trailer.samples_bytes);
    const auto* places = reinterpret_cast<const std::uint64_t*>(file.bytes().data() + places_at);
    const json value = json::parse(file.text().substr(places_at + 8 * trailer.samples, trailer.text_bytes));
    TokenizedDataset dataset;
    for (const json& report : value.at("reports")) dataset.reports.push_back(report_from(report));
    value.at("begins").get_to(dataset.begins);
    value.at("overlong").get_to(dataset.overlong);
    value.at("unsupervised").get_to(dataset.unsupervised);
    value.at("refused").get_to(dataset.refused);
    value.at("refusals").get_to(dataset.refusals);
    value.at("longest").get_to(dataset.longest);
    const SampleTotals totals{.tokens = value.at("tokens").get<std::int64_t>(),
                              .supervised = value.at("supervised").get<std::int64_t>(),
                              .largest_id = value.at("largest_id").get<std::int32_t>()};
    const auto fingerprint = value.at("fingerprint").get<std::uint64_t>();
    file.expect_random_reads();
    dataset.samples =
        TokenizedSamples(std::move(file), bytes, {places, trailer.samples}, totals, fingerprint);
    return dataset;
  } catch (const Error& error) {
    reason = error.what();
  } catch (const json::exception&) {
    reason = "its description is not readable";
  }
  return std::nullopt;
}

}  // namespace lazytrain
