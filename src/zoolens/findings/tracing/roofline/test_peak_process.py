"""Which sizes of products are tried."""

import pytest

from zoolens.findings.tracing.roofline import peak_process


def tried_sizes(monkeypatch, rates, *, undisturbed=True):
    tried = []

    def make(size):
        tried.append(size)
        return size

    monkeypatch.setattr(peak_process, "_shortest", lambda size: (2 * size**3 / rates[size], undisturbed))
    row = peak_process._gemm("torch", "1", "float16", make)
    assert row["per_second"] == pytest.approx(max(rates[size] for size in tried))
    return tried


def test_a_library_that_gets_slower_with_the_size_is_not_asked_for_the_largest(monkeypatch):
    assert tried_sizes(monkeypatch, {128: 1.5e9, 512: 2e8, 1024: 2e8}) == [128, 512]


def test_one_that_gets_quicker_is_asked_for_all(monkeypatch):
    assert tried_sizes(monkeypatch, {128: 1e9, 512: 3e9, 1024: 4e9}) == [128, 512, 1024]


def test_a_rate_that_others_may_have_spoilt_excludes_less(monkeypatch):
    rates = {128: 1.5e9, 512: 1e9, 1024: 2e9}
    assert tried_sizes(monkeypatch, rates) == [128, 512]
    assert tried_sizes(monkeypatch, rates, undisturbed=False) == [128, 512, 1024]
