"""Parameters of OpenAI's requests: read, or refused by name."""

import pytest

from zoolens.faces.serving.contracts.language import Conversation, Sampling
from zoolens.faces.serving.transports.openai_requests import WrongParameter, read_chat, read_completion

TEXT = {"model": "m", "prompt": "Once"}
TALK = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


def test_what_is_left_out_is_openais_default():
    asked = read_completion(TEXT)
    generation = asked.generation
    assert (generation.model, generation.prompt, generation.most) == ("m", "Once", 16)
    assert (generation.sampling, generation.stops, generation.top) == (Sampling(1.0, 1.0, None), (), None)
    assert (asked.chat, asked.streamed, asked.counted) == (False, False, False)
    asked = read_chat(TALK)
    assert asked.chat
    assert (asked.generation.most, asked.generation.top) == (None, None)
    assert asked.generation.prompt == Conversation([{"role": "user", "content": "Hello"}])


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
    generation = read_completion({**TEXT, **said, "suffix": None, "logit_bias": {}}).generation
    assert (generation.sampling, generation.stops, generation.top) == (Sampling(0.0, 0.5, 3), ("x",), 5)
    assert generation.most == 0
    streamed = {"stream": True, "stream_options": {"include_usage": True}, "stop": ["a", "b"]}
    asked = read_chat({**TALK, **streamed, "logprobs": True, "top_logprobs": 2, "max_completion_tokens": 7})
    assert (asked.streamed, asked.counted) == (True, True)
    assert (asked.generation.stops, asked.generation.top, asked.generation.most) == (("a", "b"), 2, 7)
    assert read_chat({**TALK, "logprobs": True}).generation.top == 0
    assert read_completion({**TEXT, "prompt": ["Once"]}).generation.prompt == "Once"
    assert read_completion({**TEXT, "prompt": [[1, 2]]}).generation.prompt == (1, 2)
    parts = [{"type": "text", "text": "Hi"}]
    answered = {"role": "assistant", "content": "a", "refusal": None, "tool_calls": None, "annotations": []}
    messages = [{"role": "user", "content": parts}, answered]
    prompt = read_chat({**TALK, "messages": messages}).generation.prompt
    assert prompt == Conversation([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "a"}])


@pytest.mark.parametrize(
    ("changed", "parameter", "says"),
    [
        ({"model": 3}, "model", "name of a model"),
        ({"prompt": None}, "prompt", "one text, or the ids"),
        ({"prompt": ["a", "b"]}, "prompt", "one text, or the ids"),
        ({"prompt": [1, True]}, "prompt", "one text, or the ids"),
        ({"temperature": "1"}, "temperature", "a number from 0 to 2; got 1"),
        ({"temperature": 2.5}, "temperature", "from 0 to 2"),
        ({"temperature": True}, "temperature", "from 0 to 2"),
        ({"top_p": 0}, "top_p", "above 0"),
        ({"seed": -1}, "seed", "a whole number from 0"),
        ({"max_tokens": 1.5}, "max_tokens", "a whole number from 0"),
        ({"logprobs": True}, "logprobs", "a whole number from 0"),
        ({"logprobs": 21}, "logprobs", "a whole number from 0"),
        ({"stop": [""]}, "stop", "a text of 1 to"),
        ({"stop": ["a"] * 17}, "stop", "at most 16"),
        ({"stream": 1}, "stream", "true or false"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "needs stream"),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options", "include_usage alone"),
        ({"n": 2}, "n", "not implemented; it may be 1, or left out"),
        ({"n": True}, "n", "not implemented"),
        ({"echo": True}, "echo", "may be false, or left out"),
        ({"presence_penalty": 0.1}, "presence_penalty", "not implemented"),
        ({"logit_bias": {"5": 1}}, "logit_bias", "not implemented"),
        ({"min_p": 0.1}, "min_p", "not known here"),
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
