"""The settings of a policy: a pydantic model whose mistakes become one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from zoolens.base.errors import ZoolensError


class Settings(BaseModel):
    """Base of every policy's settings: an unknown name is an error, so that a typo is found and not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


S = TypeVar("S", bound=Settings)


def read_settings(kind: type[S], given: Mapping[str, Any], policy: str) -> S:
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        problem = error.errors()[0]
        name = ".".join(map(str, problem["loc"]))
        if problem["type"] == "extra_forbidden":
            what = f"has no setting {name!r}"
        elif problem["type"] == "missing":
            what = f"needs the setting {name!r}"
        else:
            what = (
                f"cannot take {name} = {str(problem['input'])[:60]!r}: {problem['msg'].removeprefix('Value error, ')}"
            )
        known = ", ".join(kind.model_fields) or "none"
        raise ZoolensError(f"The policy {policy} {what}.", hint=f"Its settings: {known}.") from error
