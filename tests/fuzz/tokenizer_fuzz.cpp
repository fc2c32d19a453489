// One tokenizer.json, and short texts through the tokenizer that it makes.
#include "fuzz.h"
#include "text/tokenizer.h"

namespace lazytrain::fuzz {

void fuzz_one(std::span<const std::byte> input) {
  read_or_refuse([&] {
    const Tokenizer tokenizer = Tokenizer::parse(text_of(input), "tokenizer.json");
    // A part of the input, too: it may spell what the vocabulary has.
    const std::string own(text_of(input).substr(input.size() / 2, 200));
    for (const std::string& text :
         {std::string("Is 2 + 2 = 4?  \n\tÅngström\u0301 \xF0\x9F\x98\x80 <|im_end|>"),
          std::string("\xff\xfe\x80"), own}) {
      read_or_refuse([&] {
        std::vector<std::int32_t> ids;
        std::vector<ByteRange> ranges;
        tokenizer.encode(text, {.add_special_tokens = true}, ids, &ranges);
        check(ids.size() == ranges.size(), "every token covers a range");
        for (const std::int32_t id : ids)
          check(id >= 0 && id < tokenizer.vocabulary_size(), "ids are of the vocabulary");
        static_cast<void>(tokenizer.decode(ids));
        static_cast<void>(tokenizer.encode(text, {.parse_special = false, .continues = true}));
      });
    }
  });
}

}  // namespace lazytrain::fuzz
