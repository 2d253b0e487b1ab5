"""Whose machine it is."""

import threading

import pytest

from zoolens.base.safety.node_consent import NODE_CODE, code_may_run_here, working_for_others


@pytest.mark.parametrize(("consent", "may"), [(None, False), ("", False), ("yes", False), ("allow", True)])
def test_a_node_runs_code_only_where_its_user_says_so_in_every_thread_of_a_job(monkeypatch, consent, may):
    monkeypatch.delenv(NODE_CODE, raising=False)
    if consent is not None:
        monkeypatch.setenv(NODE_CODE, consent)
    assert code_may_run_here()
    found = []
    with working_for_others():
        thread = threading.Thread(target=lambda: found.append(code_may_run_here()))
        thread.start()
        thread.join()
        assert [*found, code_may_run_here()] == [may, may]
    assert code_may_run_here()
