// Answers to questions about plans (planning/questions.h) as tables and bars for the terminal.
//
// Every function returns whole lines, each ended by a newline; none is wider than 120 columns.
#pragma once

#include <string>
#include <vector>

#include "planning/questions.h"

namespace lazytrain {

// One line a value with a bar of its tokens a second; what there is now is marked.
std::string answers_table(const std::vector<Answer>& answers, const Machine& machine);

// The same, with the best and the largest batch in words below.
std::string batch_table(const BatchAnswer& batches, const Machine& machine);

// Which limit binds, and what a little more of each would buy.
std::string explanation_table(const Explanation& explanation);

}  // namespace lazytrain
