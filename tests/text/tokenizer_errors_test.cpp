// What a tokenizer.json may not contain, each with its sentence.
#include <gmock/gmock.h>

#include <string>

#include "small_tokenizer.h"

namespace lazytrain::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

struct Fault {
  const char* name;
  const char* patch;     // JSON merge patch of the small tokenizer
  const char* sentence;  // part of the error
};
void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

class TokenizerFault : public ::testing::TestWithParam<Fault> {};

TEST_P(TokenizerFault, IsRefusedInOneSentence) {
  json document = small_document();
  document.merge_patch(json::parse(GetParam().patch));
  const std::string sentence = error_of(ExitCode::model_file, [&] { tokenizer_of(document); });
  EXPECT_THAT(sentence, HasSubstr(GetParam().sentence));
  EXPECT_THAT(sentence, HasSubstr("tokenizer.json: "));
  EXPECT_EQ(sentence.find('\n'), std::string::npos);
}

constexpr Fault kFaults[] = {
    {"NoModel", R"({"model": null})", "the key 'model' is missing"},
    {"Model", R"({"model": {"type": "WordPiece"}})",
     R"(model: the type "WordPiece" is not supported (BPE and Unigram are))"},
    {"UnigramOfBytes", R"({"model": {"type": "Unigram"}})",
     "a Unigram model behind a ByteLevel pre_tokenizer is not supported"},
    {"ByteFallback", R"({"model": {"byte_fallback": true, "vocab": {"!": null}}})",
     "'byte_fallback' is not supported with ByteLevel"},
    {"Dropout", R"({"model": {"dropout": 0.1}})", "'dropout' 0.1 is not supported"},
    {"Suffix", R"({"model": {"end_of_word_suffix": "</w>"}})",
     R"('end_of_word_suffix' "</w>" is not supported)"},
    {"NoVocabulary", R"({"model": {"vocab": null}})", "the key 'vocab' is missing"},
    {"VocabularyIsAList", R"({"model": {"vocab": [1]}})", "'vocab' should be an object"},
    {"IdIsText", R"({"model": {"vocab": {"a": "1"}}})", "the id of the token 'a' should be a whole number"},
    {"NegativeId", R"({"model": {"vocab": {"a": -1}}})", "'a' has the id -1, which is not plausible"},
    {"HugeId", R"({"model": {"vocab": {"a": 4000000000}}})",
     "'a' has the id 4000000000, which is not plausible"},
    {"SharedId", R"({"model": {"vocab": {"a": 98}}})", "the tokens 'a' and 'b' have the same id 98"},
    {"MergeOfOne", R"({"model": {"merges": ["ab"]}})", "merge 0 is 'ab', which is not two tokens"},
    {"MergeOfNumbers", R"({"model": {"merges": [3]}})", "merge 0 should be a string or a pair of strings"},
    {"MergeOfStrangers", R"({"model": {"merges": ["a b", "a c"]}})",
     "merge 1 needs the token 'ac', which the vocabulary lacks"},
    {"UnknownToken", R"({"model": {"unk_token": "<unk>"}})",
     "the unk_token '<unk>' is not in the vocabulary"},
    {"Normalizer", R"({"normalizer": {"type": "BertNormalizer"}})",
     "normalizer: the type 'BertNormalizer' is not supported"},
    {"NormalizerInSequence",
     R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "ByteLevel"}]}})",
     "the type 'ByteLevel' is not supported"},
    {"Precompiled", R"({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAAQ=="}})",
     "normalizer: 'precompiled_charsmap' is damaged"},
    {"Prepend", R"({"normalizer": {"type": "Prepend"}})", "normalizer: the key 'prepend' is missing"},
    {"ReplacePattern", R"({"normalizer": {"type": "Replace", "pattern": " ", "content": ""}})",
     "the pattern of a Replace should have the key 'Regex' or 'String'"},
    {"PreTokenizer", R"({"pre_tokenizer": {"type": "BertPreTokenizer"}})",
     "pre_tokenizer: the type 'BertPreTokenizer' is not supported"},
    {"MetaspaceLetter", R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "__"}})",
     "pre_tokenizer: 'replacement' should be one character"},
    {"MetaspaceScheme",
     R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"}})",
     "the prepend_scheme 'last' is not known"},
    {"NoByteLevel", R"({"pre_tokenizer": null})", "pre_tokenizer has no ByteLevel step"},
    {"NoDecoder", R"({"decoder": null})", "decoder is missing, which is not supported"},
    {"DecoderOfWords", R"({"pre_tokenizer": null, "decoder": {"type": "WordPiece"}})",
     "decoder: the type 'WordPiece' is not supported"},
    {"DecoderStrip", R"({"pre_tokenizer": null, "decoder": {"type": "Strip", "content": " ", "start": -1}})",
     "'start' should be a whole number, zero or more"},
    {"StepAfterByteLevel",
     R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]}})",
     "the step 'Digits' after ByteLevel is not supported"},
    {"Behavior", R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Both"}})",
     "the Split behaviour 'Both' is not known"},
    {"Pattern", R"({"pre_tokenizer": {"type": "Split", "pattern": "a", "behavior": "Isolated"}})",
     "should have the key 'Regex' or 'String'"},
    {"BrokenRegex",
     R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"}})",
     "the regular expression is not valid at byte 2: missing closing parenthesis"},
    {"Flag", R"({"pre_tokenizer": {"add_prefix_space": 1}})", "'add_prefix_space' should be true or false"},
    {"Decoder", R"({"decoder": {"type": "Metaspace"}})", "decoder: the type 'Metaspace' is not supported"},
    {"PostProcessor", R"({"post_processor": {"type": "BertProcessing"}})",
     "the type 'BertProcessing' is not supported"},
    {"TemplateId",
     R"({"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
         "special_tokens": {"<s>": {"ids": [999]}}}})",
     "999 is not the id of a token"},
    {"TemplateWithoutText", R"({"post_processor": {"type": "TemplateProcessing", "single": []}})",
     "'single' leaves the text out"},
    {"AddedTokens", R"({"added_tokens": {}})", "added_tokens: should be an array"},
    {"AddedTokenTakesAnId", R"({"added_tokens": [{"content": "<s>", "id": 97}]})",
     "the tokens 'a' and '<s>' have the same id 97"},
    {"AddedTokenHasTwoIds", R"({"added_tokens": [{"content": "a", "id": 1000}]})",
     "the token 'a' has two ids, 97 and 1000"},
};
INSTANTIATE_TEST_SUITE_P(EachKind, TokenizerFault, ::testing::ValuesIn(kFaults),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(TokenizerFile, UnigramModelsAreRefusedInOneSentence) {
  const auto refusal = [](const char* patch) {
    json document = json::parse(R"({"decoder": {"type": "Fuse"},
      "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1]]}})");
    document.merge_patch(json::parse(patch));
    return error_of(ExitCode::model_file, [&] { tokenizer_of(document); });
  };
  EXPECT_THAT(refusal(R"({"model": {"unk_id": null}})"), HasSubstr("without 'unk_id' is not supported"));
  EXPECT_THAT(refusal(R"({"model": {"unk_id": 2}})"), HasSubstr("'unk_id' 2 is not the id of a token"));
  EXPECT_THAT(refusal(R"({"model": {"vocab": {}}})"),
              HasSubstr("'vocab' should be an array of tokens and scores"));
  EXPECT_THAT(refusal(R"({"model": {"vocab": [["a"]]}})"),
              HasSubstr("entry 0 of 'vocab' should be a token and its score"));
  EXPECT_THAT(refusal(R"({"model": {"vocab": [["a", 1], ["a", 2]]}})"),
              HasSubstr("the token 'a' has two ids, 0 and 1"));
}

TEST(TokenizerFile, BrokenJsonIsNamedWithItsPlace) {
  EXPECT_THAT(error_of(ExitCode::model_file, [] { Tokenizer::parse("{\n\"model\": }", "tokenizer.json"); }),
              HasSubstr("tokenizer.json:2"));
}

}  // namespace
}  // namespace lazytrain::testing
