from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.findings.graph.segments.suffix_automaton import CommonRun, SuffixAutomaton

sequences = st.lists(st.integers(0, 3), max_size=14)


def length(start, stop):
    return stop - start


def every_common_run(a, b):
    for i in range(len(a)):
        for j in range(len(b)):
            most = 0
            while i + most < len(a) and j + most < len(b) and a[i + most] == b[j + most]:
                most += 1
                yield CommonRun(i, j, most)


@settings(max_examples=100, deadline=None)
@given(sequences, sequences, st.lists(st.integers(0, 5), min_size=14, max_size=14))
def test_the_best_run_is_the_best_of_all(a, b, weights):
    """Worth is a weight of symbols, so that longer is not always better; the first of equals is taken."""

    def worth(start, stop):
        return sum(weights[symbol] for symbol in b[start:stop]), stop - start

    found = SuffixAutomaton(a).best(b, worth)
    every = list(every_common_run(a, b))
    if not every:
        assert found is None
        return
    assert found == max(every, key=lambda run: (worth(run.b, run.b + run.length), -run.a, -run.b))


@given(sequences)
def test_a_sequence_shares_all_of_itself(a):
    found = SuffixAutomaton(a).best(a, length)
    assert found == (CommonRun(0, 0, len(a)) if a else None)


def test_it_has_at_most_twice_as_many_states_as_symbols():
    symbols = [0, 1, 1, *([0, 1] * 50)]
    assert len(SuffixAutomaton(symbols)._next) <= 2 * len(symbols)
