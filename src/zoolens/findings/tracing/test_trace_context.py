import pytest

from zoolens.base.errors import ZoolensError
from zoolens.findings.tracing.trace_context import VARIABLE, TraceContext, inherited_context, parse_traceparent

HEADER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_header_is_read_and_written_as_the_w3c_has_it():
    context = parse_traceparent(HEADER)
    assert context == TraceContext("0af7651916cd43dd8448eb211c80319c", 0xB7AD6B7169203331)
    assert context.header == HEADER


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00-0af7-b7ad-01",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-{'a' * 32}-{'0' * 16}-01",
        f"ff-{'a' * 32}-b7ad6b7169203331-01",
        HEADER + "-more",
        HEADER + "\n00",
    ],
)
def test_what_is_no_header_is_refused_in_a_sentence(header):
    with pytest.raises(ZoolensError, match="is not a traceparent"):
        parse_traceparent(header)


def test_later_versions_may_say_more():
    assert parse_traceparent(HEADER.replace("00-", "01-", 1) + "-more").parent == 0xB7AD6B7169203331


def test_the_variable_is_taken_over_and_a_wrong_one_is_left_alone(monkeypatch):
    monkeypatch.setenv(VARIABLE, HEADER)
    assert inherited_context().header == HEADER
    monkeypatch.setenv(VARIABLE, "nonsense")
    assert inherited_context().parent is None
    with pytest.raises(ZoolensError):
        inherited_context("nonsense")
