"""/folder: the models and datasets that lie in a folder, so that they can be evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import Field

from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, Query, Shown
from zoolens.faces.ui.jobs.permissions import check_folder
from zoolens.inventory.catalog.found_models import find_models
from zoolens.inventory.datasets.found_data import find_data

_MOST: Final = 200


class FolderQuery(Query):
    path: str = Field(min_length=1, max_length=1000, description="The whole path of a folder that --allow names.")


class FoundModel(Answer):
    """`path` is what a job takes; `described`: a manifest says what it takes and answers."""

    path: Shown
    name: Shown
    described: bool


class FoundDataset(Answer):
    """`data` is what a job takes; `reason`: why it is taken for a dataset."""

    data: Shown
    reason: Shown
    labelled: bool


class FolderFound(Answer):
    """What lies in a folder, and what was left out with the reason."""

    models: list[FoundModel]
    data: list[FoundDataset]
    left_out: list[Shown]


def folder(context: Context, query: FolderQuery) -> FolderFound:
    root = check_folder(query.path, context.settings.allowed)
    models, data = find_models(root), find_data(root)
    found = [(path, True) for path in models.manifests] + [(path, False) for path in models.files]
    return FolderFound(
        models=[_model(path, root, described=described) for path, described in found[:_MOST]],
        data=[FoundDataset(data=one.spec, reason=one.reason, labelled=one.labelled) for one in data.found[:_MOST]],
        left_out=[*models.left_out, *data.left_out][:_MOST],
    )


def _model(path: Path, root: Path, *, described: bool) -> FoundModel:
    return FoundModel(path=str(path), name=str(path.relative_to(root)), described=described)


ENDPOINTS: Final = (Endpoint("/folder", "Models and datasets that lie in a folder", folder),)
