// The small files of a checkpoint: the first byte says which one the rest is.
#include "training/checkpoint.h"

#include "fuzz.h"
#include "training/trainer_log.h"
#include "training/trainer_state.h"

namespace lazytrain::fuzz {

void fuzz_one(std::span<const std::byte> input) {
  if (input.empty()) return;
  const auto choice = static_cast<unsigned>(input.front()) % 3;
  const std::span<const std::byte> content = input.subspan(1);
  read_or_refuse([&] {
    if (choice == 0) {
      const TrainerState state =
          trainer_state_from_text(std::string(text_of(content)), "lazytrain_state.json");
      check(to_text(trainer_state_from_text(to_text(state), "again")) == to_text(state),
            "a written state reads as it was");
    } else if (choice == 1) {
      file("manifest.json", content);
      const Checkpoint checkpoint(folder());
      check(checkpoint.size().value >= 0, "a checkpoint has a size");
    } else {
      const TrainerLog log(folder(), {}, 5, text_of(content));
      check(!log.state_json({}).empty(), "the history can be written again");
    }
  });
}

}  // namespace lazytrain::fuzz
