"""Parameters of OpenAI's requests: read, or refused by name."""

import pytest

from zoolens.faces.serving.contracts.language import Conversation, Sampling
from zoolens.faces.serving.transports.openai_requests import WrongParameter, read_chat, read_completion

TEXT = {"model": "m", "prompt": "Once"}
TALK = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


def test_what_is_left_out_is_openais_default():
    asked = read_completion(TEXT)
    (generation,) = asked.generations
    assert (generation.model, generation.prompt, generation.most) == ("m", "Once", 16)
    assert (generation.sampling, generation.stops, generation.top) == (Sampling(1.0, 1.0, None), (), None)
    assert (asked.chat, asked.streamed, asked.counted) == (False, False, False)
    asked = read_chat(TALK)
    assert asked.chat
    (generation,) = asked.generations
    assert (generation.most, generation.top) == (None, None)
    assert generation.prompt == Conversation([{"role": "user", "content": "Hello"}])


def test_what_is_said():
    said = {
        "temperature": 0,
        "top_p": 0.5,
        "seed": 3,
        "stop": "x",
        "max_tokens": 0,
        "logprobs": 5,
        "user": "me",
        "n": 1,
    }
    generation = read_completion({**TEXT, **said, "suffix": None, "logit_bias": {}}).generations[0]
    assert (generation.sampling, generation.stops, generation.top) == (Sampling(0.0, 0.5, 3), ("x",), 5)
    assert generation.most == 0
    streamed = {"stream": True, "stream_options": {"include_usage": True}, "stop": ["a", "b"]}
    asked = read_chat({**TALK, **streamed, "logprobs": True, "top_logprobs": 2, "max_completion_tokens": 7})
    assert (asked.streamed, asked.counted) == (True, True)
    (generation,) = asked.generations
    assert (generation.stops, generation.top, generation.most) == (("a", "b"), 2, 7)
    assert read_chat({**TALK, "logprobs": True}).generations[0].top == 0
    for given, read in (("Once", ["Once"]), ([1, 2], [(1, 2)]), (["a", "b"], ["a", "b"]), ([[1], "b"], [(1,), "b"])):
        assert [each.prompt for each in read_completion({**TEXT, "prompt": given}).generations] == read
    echoed = read_completion({**TEXT, "echo": True, "return_tokens_as_token_ids": True, "top_k": 0, "min_p": 0.0})
    assert (echoed.generations[0].echo, echoed.numbered) == (True, True)
    parts = [{"type": "text", "text": "Hi"}]
    answered = {"role": "assistant", "content": "a", "refusal": None, "tool_calls": None, "annotations": []}
    messages = [{"role": "user", "content": parts}, answered]
    prompt = read_chat({**TALK, "messages": messages}).generations[0].prompt
    assert prompt == Conversation([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "a"}])


@pytest.mark.parametrize(
    ("changed", "parameter", "says"),
    [
        ({"model": 3}, "model", "name of a model"),
        ({"prompt": None}, "prompt", "a text, or the ids"),
        ({"prompt": []}, "prompt", "a text, or the ids"),
        ({"prompt": ["a", []]}, "prompt", "a text, or the ids"),
        ({"prompt": [1, True]}, "prompt", "a text, or the ids"),
        ({"prompt": ["a"] * 129}, "prompt", "129 prompts; 128 are answered at most"),
        ({"temperature": "1"}, "temperature", "a number from 0 to 2; got 1"),
        ({"temperature": 2.5}, "temperature", "from 0 to 2"),
        ({"temperature": True}, "temperature", "from 0 to 2"),
        ({"top_p": 0}, "top_p", "above 0"),
        ({"seed": -1}, "seed", "a whole number from 0"),
        ({"max_tokens": 1.5}, "max_tokens", "a whole number from 0"),
        ({"logprobs": True}, "logprobs", "a whole number from 0"),
        ({"logprobs": 21}, "logprobs", "a whole number from 0 to 20; got 21"),
        ({"stop": [""]}, "stop", "a text of 1 to"),
        ({"stop": ["a"] * 17}, "stop", "at most 16"),
        ({"stream": 1}, "stream", "true or false"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "needs stream"),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options", "include_usage alone"),
        ({"n": 2}, "n", "not implemented; it may be 1, or left out"),
        ({"n": True}, "n", "not implemented"),
        ({"store": True}, "store", "may be false, or left out"),
        ({"echo": "yes"}, "echo", "true or false"),
        ({"top_k": 40}, "top_k", "not implemented"),
        ({"presence_penalty": 0.1}, "presence_penalty", "not implemented"),
        ({"logit_bias": {"5": 1}}, "logit_bias", "not implemented"),
        ({"min_p": 0.1}, "min_p", "not implemented"),
        ({"mirostat": 0}, "mirostat", "not known here"),
    ],
)
def test_what_would_change_the_answer_is_refused_by_name(changed, parameter, says):
    with pytest.raises(WrongParameter, match=says) as refused:
        read_completion({**TEXT, **changed})
    assert refused.value.parameter == parameter


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"messages": []}, "a list of 1 to"),
        ({"messages": ["Hello"]}, r"messages\[0\] must be an object"),
        ({"messages": [{"role": "user", "content": None}]}, r"content of messages\[0\] must be one text"),
        ({"messages": [{"role": "robot", "content": "a"}]}, "no role of system"),
        ({"messages": [{"role": "user", "content": "a", "name": "Bob"}]}, "has 'name'"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}, "must be one text"),
        ({"top_logprobs": 2}, "needs logprobs"),
        ({"logprobs": 2}, "true or false"),
        ({"max_tokens": 2, "max_completion_tokens": 3}, "two names of one number"),
        ({"tools": [{"type": "function"}]}, "not implemented"),
        ({"response_format": {"type": "json_object"}}, "not implemented"),
        ({"prompt": "x"}, "not known here"),
    ],
)
def test_conversations_that_cannot_be_answered(changed, says):
    with pytest.raises(WrongParameter, match=says):
        read_chat({**TALK, **changed})
