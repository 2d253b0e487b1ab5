"""GGUF files are held against their names: parameters, types and architecture."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.verdicts import Outcome
from zoolens.findings.audit.gguf_claims import audit_files
from zoolens.inventory.runtimes.llamacpp.gguf_copy import copy_gguf
from zoolens.testing import language_models

pytestmark = pytest.mark.usefixtures("trusted_models")
PARAMETERS = sum(values.size for values in language_models.weights().values())
MILLIONS = PARAMETERS / 1e6
SAME, DIFFERENT, NOT_KNOWN = Outcome.SAME, Outcome.DIFFERENT, Outcome.NOT_KNOWN

# What stands in the name of a file -> what is claimed, and whether it is so.
NAMES = {
    f"tiny-{MILLIONS:.2f}M": ("parameters", [SAME]),
    f"tiny-{MILLIONS * 1.15:.3f}M-chat": ("parameters", [NOT_KNOWN]),
    "tiny-7B": ("parameters", [DIFFERENT]),
    "tiny-8x7B": ("parameters", []),  # a mixture, whose count is another
    "tiny-0.0M": ("parameters", [NOT_KNOWN]),  # rounded, but far from it
    f"tiny-1B-of-{MILLIONS:.2f}M": ("parameters", [NOT_KNOWN, SAME]),  # a name may say the size of another model too
    "tiny2M": ("parameters", []),
    "tiny.F32": ("type", [SAME]),
    "tiny-fp32": ("type", [SAME]),
    "tiny.Q8_0": ("type", [DIFFERENT]),
    "tiny-f16.F32": ("type", [NOT_KNOWN, SAME]),  # and the type of something else
    "tiny.bf16": ("type", [DIFFERENT]),
    # llama.cpp takes other types for rows that are no whole blocks of 256.
    "tiny.Q4_K_M": ("type", [NOT_KNOWN]),
    "tiny.IQ3_M": ("type", [NOT_KNOWN]),
}


def claims(found, **wanted):
    return [claim for claim in found.claims if all(getattr(claim, key) == value for key, value in wanted.items())]


def test_names(tmp_path):
    for name in NAMES:
        language_models.gguf(tmp_path, name=f"{name}.gguf")
    found = {each.ref.removesuffix(".gguf"): each for each in audit_files([str(tmp_path)])}
    for name, (what, wanted) in NAMES.items():
        assert [claim.outcome for claim in claims(found[name], what=what, by="file name")] == wanted, name
        assert found[name].outcome is (wanted or [SAME])[0], name
    assert found["tiny.F32"].summary == f"llama, {PARAMETERS:,} parameters: 100.0 % in F32"
    (claim,) = claims(found["tiny.F32"], by="file_type")
    assert claim.fact == "100.0 % of its blocks' matrices are F32"
    (claim,) = claims(found["tiny.F32"], what="architecture")
    assert (claim.claimed, claim.outcome) == ("llama", SAME)


def test_other_files(tmp_path):
    pytest.importorskip("gguf")

    def types(tensor):
        return "Q8_0" if len(tensor.shape) == 2 and tensor.shape[-1] % 32 == 0 else "F32"

    stated = {"general__file_type": np.uint32(2), "general__size_label": "3B"}
    source = language_models.gguf(tmp_path, name="stated.gguf", **stated).path()
    language_models.gguf(tmp_path, name="gemma.gguf", general__architecture="gemma3")
    language_models.gguf(tmp_path, name="named.gguf", general__name="tiny bf16")
    for name in ("copy.Q8_0.gguf", "copy.Q4_0.gguf"):
        copy_gguf(source, tmp_path / name, types)
    (tmp_path / "link.Q4_0.gguf").symlink_to(tmp_path / "copy.Q8_0.gguf")
    found = {each.ref: each for each in audit_files([str(tmp_path)])}
    assert found["link.Q4_0.gguf"].outcome is DIFFERENT
    for name, outcome in (("copy.Q8_0.gguf", SAME), ("copy.Q4_0.gguf", DIFFERENT)):
        assert [claim.outcome for claim in claims(found[name], what="type", by="file name")] == [outcome]
    assert found["stated.gguf"].outcome is DIFFERENT
    for by, claimed in (("file_type", "Q4_0"), ("size_label", "3B")):
        assert [claim.outcome for claim in claims(found["stated.gguf"], by=by, claimed=claimed)] == [DIFFERENT]
    assert found["named.gguf"].outcome is NOT_KNOWN  # the name of the original, which may have been in that type
    assert found["gemma.gguf"].outcome is NOT_KNOWN
    assert "'gemma3', whose structure is not known here" in found["gemma.gguf"].error
