// The published mixed-integer program for boundary placement (LazyTrain, equations 1-8). Symbols: A = bytes
// of one boundary, rho = seconds to recompute one layer, F = forward of one layer.
//
//   x_se   block of layers [s, e) between two materialised boundaries, e - s <= 4: binary, one path 0 -> L
//   (1) z_i    boundary i is materialised; z_i = g_i + c_i + n_i (device, host, disk); g_0 = g_L = 1
//   (2, 3) sum A g_i <= M_G,  sum A c_i <= M_C,  sum A n_i <= M_N
//   (4) d_w    activation bytes that leave in window w: d_w + G_w <= C_w + eps_w, none before it is produced
//   (5) h_w    activation bytes that return in window w: h_w + P_w <= C_w + eps_w, all before they are used
//       q_w, r_w the same to and from the disk, for boundaries that live there; they cross the link as well
//   (6) min sum R(s,e) x_se + lambda (sum z + sum c + 2 sum n)
//           + sum (eps_w - mandatory exposure) / rate                                            (7, 8)
//
// with R(s,e) = rho x (e - s - 1), G and P the gradients and weights that cross anyway, and C_w = rate x
// compute time of window w. There is one window per layer slot: forward 0..L-1, head, backward L-1..0, tail.
// lambda = 1e-4 F breaks ties. M_G is what the device has left beside everything that is no boundary.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planning/inputs.h"
#include "planning/solver.h"

namespace lazytrain {

// Layers of the deepest model whose program is solved: its rows grow with the square of the layers, and
// beyond this a solve takes many seconds.
inline constexpr std::int64_t kMostPaperLayers = 256;

struct PaperInstance {
  std::int64_t layers = 0;
  std::int64_t longest_segment = 4;
  double boundary_bytes = 0;  // A, all micro-batches
  // floor(M_G / A), floor(M_C / A), floor(M_N / A)
  std::int64_t device_boundaries = 0, host_boundaries = 0, disk_boundaries = 0;
  double recompute = 0;                    // rho
  double tie_break = 0;                    // lambda
  double d2h = 0, h2d = 0;                 // bytes per second
  double disk_read = 0, disk_write = 0;    // likewise, above 0 where boundaries may be there
  std::vector<double> window;              // seconds of each of the 2 L + 2 windows
  std::vector<double> gradients, weights;  // mandatory bytes of each window: G and P
};

enum class BoundaryHome : std::uint8_t { recomputed, device, host, disk };

struct PaperPlacement {
  MilpStatus status = MilpStatus::failed;
  double objective = 0, bound = 0;
  std::vector<BoundaryHome> homes;  // L + 1; empty where there is no placement
};

PaperPlacement solve_paper_instance(const PaperInstance& instance);

// Objective of a given placement by direct reasoning (no solver): least exposure of a fluid link. For checks.
double paper_objective(const PaperInstance& instance, const std::vector<BoundaryHome>& homes);

PaperInstance make_paper_instance(const PlanningInputs& inputs, const BatchGeometry& batch,
                                  std::int64_t device_boundaries, std::int64_t host_boundaries,
                                  std::int64_t disk_boundaries = 0);

// `plan` with the boundaries, objective and bound of the solved program, and the roomiest knobs with which it
// fits. The capacities are what lowering leaves free; where the lowered plan is too large after all, the
// program is solved again with one boundary less. Empty where no placement fits, or the model has more than
// kMostPaperLayers.
std::optional<Plan> solve_paper(const PlanningInputs& inputs, const Plan& plan);

}  // namespace lazytrain
