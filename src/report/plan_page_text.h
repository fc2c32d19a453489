// The three files that plan.html is made of, as they are in this folder (plan_page.html, .css, .js). The
// definitions are generated when the program is built, see cmake/EmbedText.cmake.
#pragma once

#include <string_view>

namespace lazytrain {

extern const std::string_view kPlanPageHtml, kPlanPageCss, kPlanPageJs;

}  // namespace lazytrain
