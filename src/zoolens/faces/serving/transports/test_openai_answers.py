"""Answers in OpenAI's form are JSON whatever a model or a client says."""

import json
from math import inf

from zoolens.base.protocol import documents, json_text
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.contracts.language import LikelyToken, TextPart, WrittenToken
from zoolens.faces.serving.transports.openai_answers import Answer, error_document
from zoolens.faces.serving.transports.openai_requests import WrongParameter, read_chat, read_completion


def test_tokens_that_are_impossible_have_a_logarithm_that_json_can_express():
    chosen, impossible = LikelyToken(1, b"a", -0.5), LikelyToken(2, b"b", -inf)
    parts = [TextPart("a", (WrittenToken(chosen, 0, (chosen, impossible)),), "length", 1, 1)]
    asked = read_completion({"model": "m", "prompt": "x", "logprobs": 2})
    (choice,) = json.loads(json_text.dump(Answer(asked).whole([parts])))["choices"]
    assert [list(each.items()) for each in choice["logprobs"]["top_logprobs"]] == [[("a", -0.5), ("b", -9999.0)]]
    asked = read_chat({"model": "m", "messages": [{"role": "user", "content": "x"}], "logprobs": True})
    (choice,) = json.loads(json_text.dump(Answer(asked).whole([parts])))["choices"]
    assert [one["logprob"] for one in choice["logprobs"]["content"][0]["top_logprobs"]] == [-0.5, -9999.0]


def test_an_error_repeats_half_of_a_surrogate_pair_as_an_escape():
    wrong = WrongParameter("a\ud800", "The parameter 'a\ud800' is not known here.")
    told = json.loads(json_text.dump(error_document(wrong)))["error"]
    assert (told["param"], told["message"]) == ("a\\ud800", "The parameter 'a\\ud800' is not known here.")
    error = ServingError(Refusal.NOT_FOUND, "There is no model '\udfff😀é'.")
    assert json.loads(documents.error_body(error)) == {"error": "There is no model '\\udfff😀é'."}
