"""The true classes of a dataset's test samples, kept in the store: figures can be recomputed without the images."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from zoolens.crosstrain.data import load, prepared
from zoolens.crosstrain.exchange.contents import Answers
from zoolens.crosstrain.filing import RUNTIME
from zoolens.crosstrain.recipe import Recipe
from zoolens.errors import ZoolensError
from zoolens.store.records import DatasetRecord, ModelRecord, RunKey, RunKind, StackRecord, fingerprint
from zoolens.store.store import Store

KIND: Final = "labels"
SAFE_NAMES: Final = ("demo", "fashion-mnist", "cifar10-subset")  # of data that may be opened on a stranger's word
_KEY: Final = fingerprint(["crosstrain labels"])
_MODEL: Final = ModelRecord(_KEY, "crosstrain-labels", "labels", {})
_STACK: Final = StackRecord(_KEY, f"{RUNTIME}labels", {}, {})


def keep_labels(store: Store, dataset: DatasetRecord, labels: Answers) -> None:
    run = store.begin_run(_MODEL, dataset, _STACK, kind=RunKind.LABELS)
    store.add_part(run.id, KIND, 0, pa.table({"label": pa.array(np.asarray(labels, np.int32), pa.int32())}))


def kept_labels(store: Store, dataset: DatasetRecord) -> Answers | None:
    run = RunKey(_KEY, dataset.fingerprint, _KEY).id
    table = next(store.iter_tables(run, KIND), None)
    return None if table is None else np.asarray(table["label"].to_numpy(), np.int32)


def labels_here(dataset: DatasetRecord, recipes: Iterable[Recipe]) -> Answers | None:
    """From the data itself, where one of the recipes leads to it."""
    wanted = {(one.dataset, one.train_limit, one.test_limit): one for one in recipes}
    for recipe in wanted.values():
        try:
            found = prepared(recipe)
        except ZoolensError:
            continue
        if found.record.fingerprint == dataset.fingerprint:
            return np.array(load(found.folder).test_y)
    return None
