"""A paired training as a file: which two functions, on what data, how long. Whoever names the file runs their code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from zoolens.base.errors import ZoolensError
from zoolens.training.crosstrain.study.yaml_files import load_fields
from zoolens.training.crosstrain.training.recipe import MAX_EPOCHS, MAX_LIMIT
from zoolens.training.pairs.data.batch_choice import MAX_BATCH, Augmentation
from zoolens.training.pairs.data.opening import DataChoice, Pipelines
from zoolens.training.pairs.data.recording import is_function
from zoolens.training.pairs.loop.single_run import Length
from zoolens.training.pairs.sides.open_pair import PairOptions
from zoolens.training.port.training.paired import TrainingRequest

SUFFIXES: Final = (".yaml", ".yml")


class PortRecipe(BaseModel):
    """`a`, `b`: "file.py:function" or "module:function", as `data` and `test_data` may be; a file is looked for beside
    the recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    a: str = Field(min_length=1, max_length=4096)
    b: str = Field(min_length=1, max_length=4096)
    input: tuple[str, ...] = Field(min_length=1, max_length=16, description="one shape, or a list of them")
    data: str = Field(default="demo", max_length=4096)
    test_data: str | None = Field(default=None, max_length=4096)
    data_b: str | None = Field(default=None, max_length=4096, description="B's own data; those of `data` are A's then")
    test_data_b: str | None = Field(default=None, max_length=4096)
    train_on: Literal["a", "own"] = Field(default="a", description="with data_b: both on A's data, or each on its own")
    data_order: Literal["channels_first", "channels_last"] | None = None
    epoch_steps: int | None = Field(default=None, ge=1)
    record: Path | None = Field(default=None, description="folder of the recording of your own data")
    record_limit: float = Field(default=8.0, gt=0, description="GiB")
    device: Literal["cpu", "gpu"] = "cpu"
    batch: int = Field(default=64, ge=1, le=MAX_BATCH)
    augmentation: Augmentation = "none"
    epochs: int = Field(default=1, ge=1, le=MAX_EPOCHS)
    max_steps: int | None = Field(default=None, ge=1)
    seeds: int = Field(default=3, ge=1, le=1000)
    own_init: bool = False
    train_limit: int | None = Field(default=None, ge=1, le=MAX_LIMIT)
    test_limit: int | None = Field(default=None, ge=1, le=MAX_LIMIT)
    map: dict[str, str] = Field(default_factory=dict, description="tensors of A to tensors of B, by name")
    timeout: float = Field(default=300.0, ge=1)

    @field_validator("input", mode="before")
    @classmethod
    def _one_or_more(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    def request(self) -> TrainingRequest:
        """What `train_pair` is asked for."""
        length, seeds = Length(self.epochs, self.max_steps), range(self.seeds)
        return TrainingRequest(
            self.a, self.b, self.input, self.pipelines(), length, seeds, self.own_init, self.options()
        )

    def options(self) -> PairOptions:
        """How both sides are opened."""
        return PairOptions(self.map, self.timeout, self.device)

    def pipelines(self) -> Pipelines:
        """The data of both sides."""
        return Pipelines(self.choice(), self.choice_b(), self.train_on)

    def choice(self) -> DataChoice:
        """The data alone, for what does not train whole epochs."""
        limits = self.train_limit, self.test_limit
        return DataChoice(
            self.data, self.test_data, self.batch, self.augmentation, limits, self.data_order, self.epoch_steps,
            self.record, int(self.record_limit * (1 << 30)),
        )  # fmt: skip

    def choice_b(self) -> DataChoice | None:
        """B's own data; None: it has those of A."""
        if self.data_b is None:
            return None
        folder = None if self.record is None else self.record.with_name(f"{self.record.name}-b")
        return replace(self.choice(), data=self.data_b, test_data=self.test_data_b, record=folder)


def load_port_recipe(path: Path) -> PortRecipe:
    """The recipe in a file; the files of its functions are those beside it."""
    recipe = load_fields(path, PortRecipe)
    functions = {name: getattr(recipe, name) for name in ("a", "b", "data", "test_data", "data_b", "test_data_b")}
    folder = path.absolute().parent
    return recipe.model_copy(update={name: _beside(folder, text) for name, text in functions.items() if text})


def recipe_of_options(options: Mapping[str, Any]) -> PortRecipe:
    """The recipe that the options of the command line make; a value that no recipe can have is told by its option."""
    try:
        return PortRecipe.model_validate(options)
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]).replace("_", "-")
        why = first["msg"].replace("Input should", "it should")
        raise ZoolensError(f"--{option} cannot be {first['input']!r}: {why}.") from error


def wish_of(recipe: PortRecipe, path: Path) -> str:
    """What a recipe asks for that only the user may grant: to run the Python functions that it names, with the rights
    of the user, and to write where it says."""
    texts = [value for value in recipe.model_dump().values() if isinstance(value, str)]
    functions = dict.fromkeys([recipe.a, recipe.b, *filter(is_function, texts)])
    folder = f", and to keep a recording in {recipe.record}" if recipe.record else ""
    return f"The recipe {path} asks to run {', '.join(functions)} with your rights, outside the sandbox{folder}."


def _beside(folder: Path, side: str) -> str:
    code, _, function = side.rpartition(":")
    return f"{folder / code}:{function}" if code.endswith(".py") and not Path(code).is_absolute() else side
