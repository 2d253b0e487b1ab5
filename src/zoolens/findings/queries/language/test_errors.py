from zoolens.findings.queries.language.errors import QueryError


def shown(text, wrong, **options):
    start = text.index(wrong)
    return str(QueryError("It is wrong.", text, start, start + len(wrong), **options)).splitlines()


def test_it_is_a_sentence_the_line_a_caret_and_a_hint():
    assert shown("CORR x WITIN 5%", "WITIN", hint="Write WITHIN.") == [
        "It is wrong.",
        "  CORR x WITIN 5%",
        "         ^^^^^",
        "Write WITHIN.",
    ]


def test_of_many_lines_the_one_that_is_wrong_is_shown_with_its_number():
    lines = shown("CORR x\n\tWITIN 5%\nLIMIT 5", "WITIN")
    assert lines[1:] == ["  line 2:  WITIN 5%", "           ^^^^^"]


def test_of_a_long_line_the_surroundings_are_shown():
    text = "a" * 500 + " WITIN " + "b" * 500
    _, line, carets = shown(text, "WITIN")
    assert len(line) < 110
    assert line[carets.index("^") : carets.rindex("^") + 1] == "WITIN"
    assert line.startswith("  … ")
    assert line.endswith(" …")


def test_a_long_mistake_is_cut():
    _, line, carets = shown("x " + "w" * 1_000, "w" * 1_000)
    assert len(line) < 110
    assert len(carets) <= len(line)


def test_wide_letters_take_two_columns():
    _, line, carets = shown("name = '模型' WITIN", "WITIN")
    assert carets.index("^") == line.index("WITIN") + 2


def test_the_end_of_a_text_can_be_pointed_at():
    error = QueryError("More is due.", "CORR", 4, 4)
    assert str(error).splitlines()[2] == "      ^"
