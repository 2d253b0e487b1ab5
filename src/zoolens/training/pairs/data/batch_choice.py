"""What may be asked of the batches of a training, and the sentences that refuse the rest. It needs no numpy."""

from __future__ import annotations

from typing import Final, Literal, get_args

from zoolens.base.errors import DatasetError

Augmentation = Literal["none", "flip", "flip-crop"]
AUGMENTATIONS: Final[tuple[str, ...]] = get_args(Augmentation)
MAX_BATCH: Final = 1 << 20  # samples


def check_batches(batch: int, augmentation: str, epoch_steps: int | None) -> None:
    """Refuses a size of batches, an augmentation or a length of epochs that there cannot be."""
    if not 1 <= batch <= MAX_BATCH:
        raise DatasetError(f"A batch must have 1 to {MAX_BATCH:,} samples; got {batch}.")
    if augmentation not in AUGMENTATIONS:
        known = ", ".join(AUGMENTATIONS)
        raise DatasetError(f"There is no augmentation {augmentation!r}.", hint=f"Use one of {known}.")
    if epoch_steps is not None and epoch_steps < 1:
        raise DatasetError(f"An epoch must have at least 1 step; got {epoch_steps}.")
