"""Checks with the client of OpenAI. It runs in the client's environment.

Arguments: address of REST, the token, and a file with the names of the model and of another one, a prompt, what the
model writes behind it, and a conversation with its answer.
"""

import json
import sys
import traceback
from pathlib import Path

import openai

ADDRESS, TOKEN, FILE = sys.argv[1:4]
CASE = json.loads(Path(FILE).read_text())
CLIENT = openai.OpenAI(base_url=f"{ADDRESS}/v1", api_key=TOKEN, max_retries=0)
ASKED = {"model": CASE["model"], "temperature": 0, "max_tokens": CASE["tokens"]}


def error_of(call, **parameters):
    try:
        call(**parameters)
    except openai.APIError as error:
        return error
    raise AssertionError("no error")


def models():
    assert CASE["model"] in [model.id for model in CLIENT.models.list()]
    assert CLIENT.models.retrieve(CASE["model"]).id == CASE["model"]


def completion():
    found = CLIENT.completions.create(**ASKED, prompt=CASE["prompt"], logprobs=2)
    (choice,) = found.choices
    assert choice.text == CASE["text"], choice.text
    assert "".join(choice.logprobs.tokens) == choice.text
    assert max(choice.logprobs.top_logprobs[0].values()) == choice.logprobs.token_logprobs[0]
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens


def completion_as_a_stream():
    parts = list(CLIENT.completions.create(**ASKED, prompt=CASE["prompt"], stream=True))
    assert "".join(part.choices[0].text for part in parts) == CASE["text"]
    assert [part.choices[0].finish_reason for part in parts][-1] in ("stop", "length")


def conversation():
    found = CLIENT.chat.completions.create(**ASKED, messages=CASE["messages"], logprobs=True, top_logprobs=2)
    (choice,) = found.choices
    assert choice.message.content == CASE["answer"], choice.message.content
    assert choice.message.role == "assistant"
    assert b"".join(bytes(token.bytes) for token in choice.logprobs.content).decode() == CASE["answer"]


def conversation_as_a_stream():
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *parts, last = CLIENT.chat.completions.create(**ASKED, messages=CASE["messages"], **options)
    assert "".join(part.choices[0].delta.content or "" for part in parts) == CASE["answer"]
    assert (last.choices, last.usage.completion_tokens > 0) == ([], True)


def its_own_reader_of_streams():
    with CLIENT.chat.completions.stream(**ASKED, messages=CASE["messages"]) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
    assert "".join(deltas) == CASE["answer"]


def errors():
    create = CLIENT.completions.create
    wrong = error_of(create, **ASKED, prompt=CASE["prompt"], presence_penalty=1)
    assert isinstance(wrong, openai.BadRequestError)
    assert (wrong.param, wrong.type) == ("presence_penalty", "invalid_request_error")
    assert "not implemented" in wrong.message
    assert isinstance(error_of(create, model="absent", prompt="A"), openai.NotFoundError)
    other = openai.OpenAI(base_url=f"{ADDRESS}/v1", api_key="wrong", max_retries=0)
    assert isinstance(error_of(other.models.list), openai.AuthenticationError)


def a_stream_that_is_left():
    stream = CLIENT.completions.create(**{**ASKED, "max_tokens": 500}, prompt=CASE["prompt"], stream=True)
    next(iter(stream))
    stream.close()
    assert CLIENT.completions.create(**ASKED, prompt=CASE["prompt"]).choices[0].text == CASE["text"]


CHECKS = (
    models,
    completion,
    completion_as_a_stream,
    conversation,
    conversation_as_a_stream,
    its_own_reader_of_streams,
    errors,
    a_stream_that_is_left,
)


def run():
    results = {}
    for check in CHECKS:
        try:
            check()
        except BaseException:
            results[check.__name__] = traceback.format_exc()[-1500:]
        else:
            results[check.__name__] = "ok"
    print(json.dumps(results))


if __name__ == "__main__":
    run()
