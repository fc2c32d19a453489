// What report_to asks for beside trainer_log.jsonl: trainer_log.csv, and event files for TensorBoard under
// runs/train. Both hold what log_history holds. They are by-products: a disk that is full, or a folder that
// cannot be written, costs lines and gives one warning; it ends no run and costs no checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lazytrain {

class RunReports {
 public:
  // `history` are the entries of log_history up to `step`, where the run begins or goes on. `anew`: what an
  // earlier run left in the folder is not this run's, and goes (training_loss.svg too). Else entries beyond
  // `step` go, and the rest stays as it was written.
  RunReports(const std::vector<std::string>& report_to, const std::filesystem::path& output_dir,
             std::span<const std::string> history, std::int64_t step, bool anew);
  ~RunReports();
  RunReports(const RunReports&) = delete;
  RunReports& operator=(const RunReports&) = delete;

  // One more entry of log_history, a JSON object.
  void add(const std::string& entry);

 private:
  class File;
  void start_csv(const std::filesystem::path& output_dir, std::span<const std::string> history);
  void start_events(const std::filesystem::path& output_dir, std::span<const std::string> history,
                    std::int64_t step);

  std::unique_ptr<File> csv_, events_;
};

}  // namespace lazytrain
