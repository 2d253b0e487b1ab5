"""The axes of a language model: which tokenizer splits its texts, and how many tokens of a text it is given.

What a variant changes must not change what is foreseen, or easier texts look like a better model. So lower case is
never tried, which has less to foresee, nor the other end of a text that is too long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from zoolens.base.errors import ZoolensError
from zoolens.findings.audit.doctor.text_axes import SPECIAL, special_tokens_axis
from zoolens.findings.audit.doctor.variants import Axis, AxisChoice, Change, NotSwept, with_input
from zoolens.findings.measure.jobs import Job
from zoolens.inventory.catalog.gguf_draft import draft_gguf
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.manifests.digests import digest
from zoolens.inventory.manifests.schema import AssetFile, Manifest
from zoolens.inventory.manifests.schema_texts import PREDICTING
from zoolens.inventory.manifests.tokenizer import ROLE, Tokenizer
from zoolens.inventory.preprocess.generating_tokenizer import GeneratingTokenizer

CONTEXT: Final = "context length"
TOKENIZER: Final = "tokenizer"
_CUT: Final = (
    "Texts are cut at max_length. A longer one foresees more of each text, and its later tokens are easier: figures of "
    "different lengths are not of the same tokens."
)
_COMMON_GROUND: Final = (
    "Without a token for the beginning nothing stands before the first token of a text, which is then not foreseen: "
    "variants with and without one are compared on the tokens that both foresee."
)
_SLOT: Final = "context"
_DOUBLED: Final = 4  # times


def next_token_axes(job: Job, screened: Dataset) -> Iterator[Axis | NotSwept]:
    """`screened`: the texts whose length is looked at."""
    if job.manifest.task == PREDICTING:
        yield _special_tokens(job, screened)
        yield _tokenizer(job)
        yield _context(job, screened)
        yield NotSwept("chat template", "texts are foreseen as they are written, outside of a conversation.")


def next_token_notes(job: Job, axes: Sequence[Axis]) -> Iterator[str]:
    """What is to be known of variants that do not foresee the same tokens."""
    if job.manifest.task == PREDICTING:
        slots = {axis.slot for axis in axes}
        if slots & {SPECIAL, TOKENIZER}:
            yield _COMMON_GROUND
        if _SLOT in slots:
            yield _CUT


def _special_tokens(job: Job, screened: Dataset) -> Axis | NotSwept:
    declared = _declared(job)
    if declared.words is None and _lengths(job, screened, special=True) == _lengths(job, screened, special=False):
        return NotSwept(SPECIAL, "the tokenizer adds none to these texts.")
    return special_tokens_axis(declared)


def _tokenizer(job: Job) -> Axis | NotSwept:
    if job.asset.format != "gguf":
        return NotSwept(TOKENIZER, "only GGUF files hold one beside that of the manifest.")
    try:
        draft = draft_gguf(job.paths["model"], beside=False)
    except ZoolensError as error:
        return NotSwept(TOKENIZER, f"that of the GGUF file cannot be read: {error.message}")
    own = next(file for file in draft.assets[0].files if file.role == ROLE)
    if own.sha256 == digest(job.paths[ROLE]):
        return NotSwept(TOKENIZER, "it is the one that the GGUF file holds.")
    choice = AxisChoice(TOKENIZER, TOKENIZER, "the one in the GGUF file", _with_file(job, own))
    return Axis(TOKENIZER, job.paths[ROLE].name, (choice,))


def _with_file(job: Job, own: AssetFile) -> Change:
    def change(manifest: Manifest) -> Manifest:
        place = job.manifest.assets.index(job.asset)
        asset = manifest.assets[place]
        files = tuple(own if file.role == ROLE else file for file in asset.files)
        changed = asset.model_copy(update={"files": files})
        return manifest.model_copy(
            update={"assets": (*manifest.assets[:place], changed, *manifest.assets[place + 1 :])}
        )

    return change


def _context(job: Job, screened: Dataset) -> Axis | NotSwept:
    declared = _declared(job)
    longest = max(_lengths(job, screened, special=declared.special_tokens))
    lengths = [declared.max_length << times for times in range(1, _DOUBLED + 1)]
    if longest <= declared.max_length:
        return NotSwept(CONTEXT, f"no text has more than the {declared.max_length:,} tokens of max_length.")
    # A length that still cuts texts leaves out their last tokens, and is not compared on the same ones.
    length = next((length for length in lengths if length >= longest), None)
    if length is None:
        return NotSwept(CONTEXT, f"texts have up to {longest:,} tokens; at most {lengths[-1]:,} are tried.")
    choice = AxisChoice(_SLOT, CONTEXT, f"{length:,} tokens", _of_length(length))
    return Axis(_SLOT, f"{declared.max_length:,} tokens", (choice,))


def _declared(job: Job) -> Tokenizer:
    declared = job.manifest.inputs[0].tokenizer
    assert declared is not None  # it takes text
    return declared


def _lengths(job: Job, screened: Dataset, *, special: bool) -> list[int]:
    """Tokens of each text."""
    tokenizer = GeneratingTokenizer(_declared(job), job.paths[ROLE])
    try:
        texts = [str(sample.value.item()) for sample in screened]
        return [len(tokenizer.prompt(text, special=special)) for text in texts]
    finally:
        tokenizer.close()


def _of_length(length: int) -> Change:
    def change(manifest: Manifest) -> Manifest:
        tokenizer = manifest.inputs[0].tokenizer
        assert tokenizer is not None
        return with_input(manifest, tokenizer=tokenizer.model_copy(update={"max_length": length}))

    return change
