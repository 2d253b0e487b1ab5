"""From a model to an open session: which of its files runs in which runtime, in which environment, and why not.

`open_session` is the short way. `placements` lists every way in which a model can be run here.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from zoolens.base.engine.environments import Environment, ensure_environment, parse_env
from zoolens.base.engine.machine import describe_machine
from zoolens.base.errors import AssetError, CodeNotAllowed, ConstraintError, ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.safety.node_consent import ALLOWED, NODE_CODE, code_may_run_here
from zoolens.inventory.catalog.lookup import Model, find
from zoolens.inventory.catalog.packages import installed_packages
from zoolens.inventory.manifests.locations import resolve_asset
from zoolens.inventory.manifests.schema import Asset, Manifest
from zoolens.inventory.manifests.tokenizer import ROLE as TOKENIZER
from zoolens.inventory.runtimes.constraints import Clause, check, parse_requirements_text, said_once
from zoolens.inventory.runtimes.isolation.isolated import open_isolated, open_model
from zoolens.inventory.runtimes.isolation.isolated_session import IsolatedSession
from zoolens.inventory.runtimes.runtime import ModelFiles, Options, Runtime, Session, TensorSpec, Yielding
from zoolens.inventory.runtimes.runtime_names import installed_runtimes, parse_runtime, runtime_named
from zoolens.inventory.zoos.zoo import Entry, Weights


@dataclass(frozen=True)
class Placement:
    """One model in one runtime in one environment."""

    entry: Entry
    asset: Asset
    runtime: Runtime
    options: Options
    environment: Environment | None = None
    isolate: bool = False

    @property
    def title(self) -> str:
        where = f" [{', '.join(self.environment.spec.requirements)}]" if self.environment else ""
        mode = "" if self.options.mode == "default" else f" ({self.options.mode})"
        return f"{self.entry.ref} in {self.runtime.full_name}{mode}{where}"

    @property
    def manifest(self) -> Manifest:
        return self.entry.manifest

    @cached_property
    def paths(self) -> dict[str, Path]:
        """Local, verified files by role; what is not here is fetched."""
        return resolve_asset(self.asset, self.entry.folder, fetch=True)

    def files(self) -> ModelFiles:
        architecture = self.asset.architecture
        return ModelFiles(
            format=self.asset.format,
            files={role: path for role, path in self.paths.items() if role != TOKENIZER},
            architecture=architecture.model_dump() if architecture else None,
            inputs=_declared_inputs(self.manifest),
        )

    def open(self) -> Session:
        """Open the model in a sandboxed worker, unless the user trusts it; see `open_model`."""
        return open_model(
            self.runtime,
            self.files(),
            self.options,
            isolate=self.isolate,
            environment=self.environment,
            code=self._code(),
        )

    def open_isolated(self, yielding: Yielding = Yielding.NEVER) -> IsolatedSession:
        """Open the model in a worker of its own, also where the user trusts it."""
        return open_isolated(
            self.runtime,
            self.files(),
            self.options,
            environment=self.environment,
            code=self._code(),
            yielding=yielding,
        )

    def _code(self) -> dict[str, str] | None:
        return self.manifest.code.model_dump(exclude_none=True) if self.manifest.code else None


@dataclass(frozen=True)
class Skipped:
    """A combination that was asked for and is not run."""

    title: str
    reason: str


@dataclass(frozen=True)
class RunOptions:
    """How the user wants models run. No runtimes named: every installed one that can run a model."""

    runtimes: Sequence[str] = ()
    environments: Sequence[str] = ()  # "" is this process's own environment
    require: str = ""
    options: Options = field(default_factory=Options)
    isolate: bool = False
    allow_code: bool = False


def open_session(
    model: Model,
    *,
    runtime: str | None = None,
    options: Options | None = None,
    environment: str = "",
    allow_code: bool = False,
    progress: Progress | None = None,
) -> Session:
    """Open a model by name, path or entry; close the session, or use it as a context manager.

    Without a `runtime` it is the installed one that reads the fewest formats beside this one. `environment`: packages
    of an isolated environment, such as "onnxruntime==1.18". A ZoolensError says why a model cannot be opened.
    """
    return place(
        model, runtime=runtime, options=options, environment=environment, allow_code=allow_code, progress=progress
    ).open()


def place(
    model: Model,
    *,
    runtime: str | None = None,
    options: Options | None = None,
    environment: str = "",
    allow_code: bool = False,
    progress: Progress | None = None,
) -> Placement:
    """The way in which `open_session` opens a model; its `open` may be called several times."""
    wanted = RunOptions(
        runtimes=(runtime,) if runtime else (),
        environments=(environment,),
        options=options or Options(),
        allow_code=allow_code,
    )
    ways, _ = placements(find(model), wanted, progress)
    return min(ways, key=lambda way: len(way.runtime.formats))


def placements(
    entry: Entry, wanted: RunOptions, progress: Progress | None = None
) -> tuple[list[Placement], list[Skipped]]:
    """Every way to run a model as it is wanted, and what was asked for by name and cannot be done.

    Environments that are not there yet are built. ConstraintError where there is no way at all.
    """
    if not all(map(_is_elsewhere, wanted.runtimes or ("",))):
        _check_weights(entry)
    _check_code(entry, wanted)
    clauses = parse_requirements_text(", ".join(text for text in (wanted.require, entry.manifest.requires) if text))
    ways: list[Placement] = []
    # News only where no runtime is for the formats of this model.
    other_formats: list[str] = []
    telling: list[str] = []
    for name in wanted.runtimes or installed_runtimes():
        try:
            runtime = runtime_named(name)
        except ZoolensError as error:
            if wanted.runtimes:
                raise
            telling.append(str(error))
            continue
        asset = runtime.asset_of(entry.manifest)
        if asset is None:
            formats = ", ".join(dict.fromkeys(candidate.format for candidate in entry.manifest.assets))
            other_formats.append(f"{name} does not run {formats}")
            continue
        if runtime.can("run_here"):
            here, obstacles = _placements_here(entry, asset, runtime, wanted, clauses, progress or Silent())
            ways += here
        elif not (obstacles := list(_not_elsewhere(entry, wanted, runtime))):
            ways.append(Placement(entry, asset, runtime, wanted.options))
        telling += obstacles
    if not ways:
        raise ConstraintError(f"No runtime here can run {entry.ref}: {'; '.join(said_once(telling or other_formats))}.")
    asked_for = [*telling, *other_formats] if wanted.runtimes else []
    return ways, [Skipped(entry.ref, reason) for reason in asked_for]


def _placements_here(
    entry: Entry, asset: Asset, runtime: Runtime, wanted: RunOptions, clauses: Sequence[Clause], progress: Progress
) -> tuple[list[Placement], list[str]]:
    """The ways to run a model in a runtime on this machine, one for each environment, and what is in the way."""
    ways: list[Placement] = []
    obstacles: list[str] = []
    for text in wanted.environments or ("",):
        if not text and runtime.version() is None:
            obstacles.append(f"{runtime.full_name} is not installed{_how_to_get(runtime)}")
            continue
        environment = ensure_environment(parse_env(text), runtime.requirements, progress.say) if text else None
        unmet = _unmet(clauses, entry.manifest, runtime, environment)
        obstacles += unmet
        if not unmet:
            needs_own_process = runtime.fragile is not None or entry.manifest.code is not None
            isolate = wanted.isolate or environment is not None or needs_own_process
            ways.append(Placement(entry, asset, runtime, wanted.options, environment, isolate))
    return ways, obstacles


def _is_elsewhere(name: str) -> bool:
    """Whether what answers is not on this machine, so that the model's files need not be here either."""
    return bool(parse_runtime(name).address) and not runtime_named(name).can("run_here")


def _not_elsewhere(entry: Entry, wanted: RunOptions, runtime: Runtime) -> Iterator[str]:
    """What was asked for and cannot be had where a model runs elsewhere."""
    if any(wanted.environments):
        yield f"{runtime.full_name} runs in no environment of this machine"
    if wanted.require:
        yield f"whether {runtime.full_name} meets the requirements cannot be seen from here"
    if entry.manifest.code is not None:
        yield f"the manifest's code runs beside the model, which is not possible in {runtime.full_name}"


def _check_weights(entry: Entry) -> None:
    if entry.manifest.assets and entry.weights is Weights.ABSENT:
        resolve_asset(entry.manifest.assets[0], entry.folder, fetch=False)  # says which file is missing, and why
    if not entry.manifest.assets:
        raise AssetError(
            f"{entry.ref} is structure only: its weights are not on this machine and no location is known.",
            hint="zoolens never fills in random weights; put the file where `zoolens show` says, or choose another.",
        )


def _check_code(entry: Entry, wanted: RunOptions) -> None:
    if entry.manifest.code is not None and not wanted.allow_code:
        raise CodeNotAllowed(
            f"{entry.ref} carries Python code in its manifest, which is not run by default.",
            hint="Read it with `zoolens show`; if you trust it, add --allow-code (it runs in a process of its own).",
        )
    if entry.manifest.code is not None and not code_may_run_here():
        raise CodeNotAllowed(
            f"{entry.ref} carries Python code in its manifest: the node {platform.node()} does not run it for others.",
            hint=f"Its own user allows it by starting the node with {NODE_CODE}={ALLOWED}.",
        )


def _unmet(
    clauses: Sequence[Clause], manifest: Manifest, runtime: Runtime, environment: Environment | None
) -> list[str]:
    """What the user or the manifest asks for and this runtime, machine or environment does not have."""
    installed = environment.freeze if environment else installed_packages()
    return [
        *check(clauses, runtime, describe_machine(), installed),
        *_framework_mismatch(manifest, runtime, installed),
    ]


def _framework_mismatch(manifest: Manifest, runtime: Runtime, installed: Mapping[str, str]) -> Iterator[str]:
    """The manifest's own version constraint, where the model runs in the framework that made it."""
    made_with = manifest.framework
    if made_with and made_with.version and made_with.name in runtime.distributions:
        version = installed.get(canonicalize_name(made_with.name))
        if version is None or not SpecifierSet(made_with.version).contains(version, prereleases=True):
            yield f"the manifest asks for {made_with.name}{made_with.version} but {version or 'none'} is installed"


def _how_to_get(runtime: Runtime) -> str:
    if runtime.extra:
        return f" (pip install 'zoolens[{runtime.extra}]')"
    return f" (try --env '{','.join(runtime.requirements)}')" if runtime.requirements else ""


def _declared_inputs(manifest: Manifest) -> tuple[TensorSpec, ...]:
    tokenizer, first = manifest.inputs[0].tokenizer, manifest.inputs[0]
    if tokenizer is not None and tokenizer.tensors.names:
        return tuple(TensorSpec(name, tuple(first.shape), first.dtype) for name in tokenizer.tensors.names.values())
    return tuple(
        TensorSpec(spec.name or f"input{index}", tuple(spec.shape), spec.dtype)
        for index, spec in enumerate(manifest.inputs)
    )
