"""Conversations become the text that transformers makes of them; a hostile template ends in words."""

from importlib.util import find_spec

import pytest

from zoolens.base.errors import DatasetError, ManifestError
from zoolens.inventory.manifests.chat_template import ChatTemplate
from zoolens.inventory.preprocess.chat_rendering import ChatRenderer

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# As those of Llama 3, Mistral and Gemma are written: headers and dates, turns that must alternate, namespaces.
HEADERS = """{{- bos_token }}
{%- if strftime_now is defined and false %}{{ strftime_now("%d %b %Y") }}{%- endif %}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
ALTERNATING = (
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% else %}"
    "{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}{% endif %}{% endfor %}"
)
NAMESPACES = """{%- set state = namespace(count=0, tools=dict(a=1)) -%}
{% for message in messages %}
{% if message.content is string %}{% set text = message.content %}
{% else %}{% set text = message.content[0].text %}{% endif %}
{% if loop.last %}{% continue %}{% endif %}
{% set state.count = state.count + 1 %}
<start_of_turn>{{ message.role if message.role != "assistant" else "model" }}
{{ text.split('</think>')[-1].strip() }}<end_of_turn>
{% endfor %}
{{ state.count }} {{ messages | tojson }} {{ messages[::-1][0].role | upper }} {{ state.tools.items() | list }}
"""
TEMPLATES = {"smollm2": SMOLLM2, "headers": HEADERS, "alternating": ALTERNATING, "namespaces": NAMESPACES}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
TALK = [
    {"role": "user", "content": "What is 2 + 2?\n"},
    {"role": "assistant", "content": '<think>easy</think> 4, "of course" & <b>more</b> é 😀'},
    {"role": "user", "content": "  Why? {{ 7 * 7 }} {% endfor %}"},
]


@pytest.fixture
def renderer():
    made = []

    def make(template, **settings):
        made.append(ChatRenderer(ChatTemplate(template=template, tokens=TOKENS), **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_the_template_of_smollm2(renderer):
    assert renderer(SMOLLM2).render(TALK[:1], answer=True) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nWhat is 2 + 2?\n<|im_end|>\n<|im_start|>assistant\n"
    )
    assert renderer("{{ messages | length }}{{ pad_token }}{{ bos_token }}\n\n").render(TALK, answer=False) == "3<s>\n"


@pytest.mark.skipif(not find_spec("transformers"), reason="needs transformers")
@pytest.mark.parametrize("answer", [False, True])
@pytest.mark.parametrize("name", TEMPLATES)
def test_texts_are_those_of_transformers(renderer, name, answer):
    from transformers.utils.chat_template_utils import render_jinja_template

    (theirs,), _ = render_jinja_template([TALK], chat_template=TEMPLATES[name], add_generation_prompt=answer, **TOKENS)
    assert renderer(TEMPLATES[name]).render(TALK, answer=answer) == theirs


def test_a_template_may_refuse_a_conversation_and_is_asked_again(renderer):
    one = renderer(ALTERNATING)
    with pytest.raises(
        DatasetError, match=r"refuses the conversation: Conversation roles must alternate.*assistant/\.$"
    ):
        one.render(TALK[1:], answer=True)
    assert one.render(TALK[:1], answer=True) == "<s>[INST] What is 2 + 2?\n [/INST]"
    with pytest.raises(DatasetError, match="can only concatenate str"):
        one.render([{"role": "user", "content": None}], answer=True)


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ ''.__class__.__mro__ }}", "refuses the conversation: access to attribute '__class__'"),
        ("{{ messages.append(1) }}", "refuses the conversation: access to attribute 'append'"),
        ("{{ raise_exception.__globals__['json'] }}", "refuses the conversation: access to attribute '__globals__'"),
        ("{{ '{0.__class__.__mro__}'.format(1) }}", "refuses the conversation: access to attribute '__class__'"),
        ("{% include '/etc/passwd' %}", "refuses the conversation: no loader"),
        ("{% for a in range(99999999) %}{% endfor %}", "refuses the conversation: Range too big"),
        ("{{ 'x' * 2000000 }}", "makes more than 1,048,576 characters"),
        ("{{ 'x' * 4000000000 }}", "takes more than the 1 GiB"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "refuses the conversation: maximum recursion"),
        ("{{ 1 / 0 }}", "refuses the conversation: division by zero"),
    ],
)
def test_hostile_templates_are_refused_in_words(renderer, template, says):
    one = renderer(template)
    with pytest.raises(DatasetError, match=says):
        one.render(TALK, answer=True)


@pytest.mark.parametrize("template", ["{% for %}", "{{ ", "{% nothing %}", "{{ x | nothing }}"])
def test_a_template_that_is_none_is_refused(renderer, template):
    with pytest.raises(ManifestError, match="The chat template cannot be read: "):
        renderer(template)


def test_a_loop_that_does_not_end_is_ended(renderer):
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    one = renderer("{% if messages[0].role == 'bad' %}" + loop + "{% endif %}fine", seconds=0.7)
    with pytest.raises(DatasetError, match=r"takes longer than 0\.7 s"):
        one.render([{"role": "bad", "content": ""}], answer=True)
    assert one.render(TALK, answer=True) == "fine"
