#include "optim/clipping.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "optim/weight_decay.h"

namespace lazytrain {
namespace {

TEST(Clipping, FactorIsOneBelowTheLimit) {
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_factor(0.0, 1.0), 1.0);
}

TEST(Clipping, FactorAboveTheLimit) {
  EXPECT_DOUBLE_EQ(clip_factor(4.0, 1.0), 1.0 / 4.000001);
  EXPECT_DOUBLE_EQ(clip_factor(6.0, 3.0), 3.0 / 6.000001);
}

TEST(Clipping, ZeroTurnsItOff) {
  EXPECT_EQ(clip_factor(1e9, 0.0), 1.0);
}

TEST(Clipping, NormOfPartials) {
  constexpr std::array<double, 3> kPartials{9.0, 16.0, 144.0};
  EXPECT_EQ(gradient_norm(sum_of_squares(kPartials)), 13.0);
  EXPECT_EQ(gradient_norm(sum_of_squares(std::span(kPartials).subspan(2),
                                         sum_of_squares(std::span(kPartials).first(2)))),
            13.0);
}

TEST(Clipping, NonFiniteGradientsShowInTheNorm) {
  const std::array<double, 2> with_nan{1.0, std::numeric_limits<double>::quiet_NaN()};
  const std::array<double, 2> with_infinity{std::numeric_limits<double>::infinity(), 1.0};
  EXPECT_FALSE(std::isfinite(gradient_norm(sum_of_squares(with_nan))));
  EXPECT_FALSE(std::isfinite(gradient_norm(sum_of_squares(with_infinity))));
}

TEST(WeightDecay, FollowsHuggingFaceTrainer) {
  for (const char* name :
       {"model.embed_tokens.weight", "lm_head.weight", "model.layers.0.self_attn.q_proj.weight",
        "model.layers.3.mlp.down_proj.weight", "model.layers.0.linear_attn.A_log", "model.normal.weight"}) {
    EXPECT_TRUE(weight_decay_applies(name)) << name;
  }
  for (const char* name :
       {"model.norm.weight", "norm.weight", "model.layers.0.input_layernorm.weight",
        "model.layers.0.post_attention_layernorm.weight", "model.layers.0.self_attn.q_norm.weight",
        "model.layers.0.self_attn.q_proj.bias", "model.layers.0.linear_attn.dt_bias",
        "decoder.LayerNorm.weight", "block.RMSNorm_0.weight"}) {
    EXPECT_FALSE(weight_decay_applies(name)) << name;
  }
}

}  // namespace
}  // namespace lazytrain
