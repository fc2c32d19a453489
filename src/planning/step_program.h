// StepProgram: the mixed-integer program of one training step. Its variables are the decisions of a Plan, the
// length of every slot of the step (planning/step_model.h: StepSlots) and the bytes that each link moves in
// it; its objective is the time of the step. There is no big-M in it: the path is a flow and transfers are
// cumulative windows, so that its relaxation is tight.
//
//   u[s,e]         layers [s, e), e - s >= 2, are a recomputed block           binary
//   u[s,e,keep]    the same, and its sweep keeps all items of the layers       binary
//   a[l,o]         layer l is a block of its own and stashes level o           binary
//   p[b,k]         micro-batches of boundary b that live on tier k
//   q[l,o,k]       micro-batches of layer l's stash of level o on tier k
//   v[l]           layer l is resident: no transfers, updated on the device    binary
//   y[l]           layer l's weights stay in their slot for its backward       binary, the last layers
//   tau[t]         seconds of slot t, stall[t] of them without work
//   W, F, D        bytes that h2d moves in a slot for weights and for fetches, and d2h
//
// Rows, by name:
//   path[b]              one block ends at b as one begins                                            (1)
//   home[b], home[l,o]   every micro-batch of what is kept has one home                               (2)
//   time[t]              tau = work + stall                                                           (3)
//   h2d, d2h, duplex[t]  bytes <= rate x tau                                                          (4)
//   weights[t], due_weights[t], slots[t]   weights are there before their slot and fill no more than the
//                        slots that rotate                                                            (5)
//   fetches[t], due_fetches[t], lead[t]    the same of boundaries and stashes, micro-batch by micro-batch (5)
//   early[s,e]           the boundary of a recomputed block is due before its sweep                   (6)
//   backlog[t], lag[t]   what leaves queues, and is gone when its bytes are given away                (7)
//   kept[l], device[t]   bytes on the device at the beginning of slot t                          (8, 9, 10)
//   disk_*[t]            the same windows for the disk, one slot later                               (11)
//   host, disk           capacities                                                                  (12)
//   updated[l]           the weights of a layer leave the host after their update                    (13)
//   still[t]             bytes that can only move while compute stands still
//   memory[t], cores     host memory and shared cores bound what overlaps
//
// Inside, bytes count in boundaries or weight slots and seconds in forwards of a layer, so that coefficients
// are near 1 and the solver's tolerances mean the same for all models and machines.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "planning/solver.h"
#include "planning/step_model.h"

namespace lazytrain {

using LevelColumns = std::array<std::int32_t, kStashLevelCount>;  // -1: no such column

struct StepProgram {
  MilpProblem problem;
  // Columns of the decisions.
  struct BlockColumn {
    std::int64_t begin, end;
    std::int32_t column;
    bool keep = false;

    // Whether the backward finds all items of layer l of the block.
    [[nodiscard]] bool keeps(std::int64_t l) const { return keep && begin <= l && l + 1 < end; }
    // What the backward of layer l of the block finds.
    [[nodiscard]] std::size_t found(std::int64_t l) const {
      return static_cast<std::size_t>(keeps(l) ? StashLevel::all : StashLevel::none);
    }
  };
  std::vector<BlockColumn> blocks;   // one that keeps comes behind the same without
  std::vector<LevelColumns> levels;  // a[l,o]
  std::vector<std::int32_t> boundary_device, boundary_host, boundary_disk;  // p[b,k], disk: -1 without one
  std::vector<LevelColumns> stash_device, stash_host, stash_disk;           // q[l,o,k]
  std::vector<std::int32_t> resident, retained;                             // v[l], y[l]
  std::vector<std::int32_t> tau, stall;                                     // by slot
  bool whole_shares = false;  // p and q are whole numbers; else shares that are rounded afterwards
  double bytes_unit = 1, seconds_unit = 1;
};

StepProgram make_step_program(const StepModel& model);

// Seconds of the step at a point: the sum of tau, without tie-breaks.
Seconds step_seconds(const StepProgram& program, const std::vector<double>& values);

// The same program with the decisions of `plan`: what remains is the best the links can do with them. False
// where the program has no column for one of them: blocks that are too long, or whose sweep keeps some of its
// layers' items, a disk that is not there.
bool fix_decisions(StepProgram& program, const Plan& plan);

// One row or column a line, as formulas: for people and tests.
std::string dump(const MilpProblem& problem);

}  // namespace lazytrain
