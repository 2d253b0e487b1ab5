import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.findings.queries.language.keyword_arguments import with_keywords
from zoolens.findings.queries.language.parser import parse
from zoolens.findings.queries.language.syntax import Query


def test_keywords_say_what_text_says():
    given = {
        "reference": "resnet50", "within": "95%", "where": "zoo = 'timm'", "order": "latency DESC", "limit": 3,
        "exec": {"batch": 8}, "confidence": 0.9, "task": None,
    }  # fmt: skip
    text = (
        "SELECT MODELS CORR resnet50 WITHIN 95% ON memory <= 20% AND flops < 2G AND accuracy >= 0.7 "
        "WHERE zoo = 'timm' ORDER BY latency DESC LIMIT 3 EXEC (batch=8) CONFIDENCE 90%"
    )
    asked = with_keywords(Query(), given, {"memory": "20%", "flops": "< 2G", "accuracy": 0.7})
    assert asked == parse(text)


def test_keywords_in_any_case_and_of_any_whole_type():
    asked = with_keywords(Query(reference="a"), {"bound": "OFF", "limit": np.int64(3)}, {"Memory": "20%"})
    assert asked == parse("CORR a ON memory <= 20% BOUND OFF LIMIT 3")


def test_keywords_add_bounds_and_replace_the_rest():
    asked = with_keywords(parse("CORR a WITHIN 90% ON memory <= 20%"), {"within": 0.95}, {"flops": "2G"})
    assert asked == parse("CORR a WITHIN 95% ON memory <= 20% AND flops <= 2G")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"within": 95}, 'within=95 is not a share. Write within="95%"'),
        ({"within": 1.5}, "is not a share"),
        ({"within": "95 MB"}, "is not a share"),
        ({"within": "90% OF REFERENCE"}, "is not a share"),
        ({"within": float("nan")}, "is not a share"),
        ({"confidence": 1}, "is not a share"),
        ({"limit": 0}, "whole number"),
        ({"limit": True}, "whole number"),
        ({"limit": 2.0}, "whole number"),
        ({"limit": 10**10}, "whole number"),
        ({"where": "zoo ="}, "Expected"),
    ],
)
def test_what_makes_no_sense(given, told):
    with pytest.raises(ZoolensError, match=told):
        with_keywords(Query(reference="a"), given, {})


def test_nothing_asked():
    with pytest.raises(ZoolensError, match="does not say what to look for"):
        with_keywords(Query(), {"limit": 5}, {})
