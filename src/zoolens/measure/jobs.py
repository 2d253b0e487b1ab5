"""Which model is run how: models × runtimes × environments, less what cannot or may not be combined, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from zoolens import plugins
from zoolens.engine.environments import Environment, ensure_environment, parse_env
from zoolens.engine.machine import describe_machine
from zoolens.errors import AssetError, CodeNotAllowed, ConstraintError, ZoolensError
from zoolens.manifests.locations import model_fingerprint, resolve_asset
from zoolens.manifests.schema import Asset, Manifest
from zoolens.measure.lock import installed_packages, resolve_stack
from zoolens.progress import Progress, Silent
from zoolens.runtimes.base import ModelFiles, Options, Runtime, Session, TensorSpec
from zoolens.runtimes.constraints import check, parse_requirements_text, said_once
from zoolens.runtimes.isolated import IsolatedSession, open_isolated, open_model
from zoolens.store.records import ModelRecord, StackRecord
from zoolens.zoos.base import Entry, Weights


@dataclass(frozen=True)
class Job:
    """One model in one runtime in one environment: becomes one run."""

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
        return f"{self.entry.ref} in {self.runtime.name}{mode}{where}"

    @property
    def manifest(self) -> Manifest:
        return self.entry.manifest

    @cached_property
    def paths(self) -> dict[str, Path]:
        return resolve_asset(self.asset, self.entry.folder, fetch=True)

    @cached_property
    def stack(self) -> StackRecord:
        return resolve_stack(
            self.runtime, self.options, self.environment, self.isolate, self.manifest.inputs[0].decoder
        )

    @cached_property
    def model(self) -> ModelRecord:
        key = model_fingerprint(self.manifest, self.asset, self.paths)
        return ModelRecord(key, self.entry.full_ref, self.asset.format, self.manifest.model_dump(mode="json"))

    def files(self) -> ModelFiles:
        architecture = self.asset.architecture
        return ModelFiles(
            format=self.asset.format,
            files=dict(self.paths),
            architecture=architecture.model_dump() if architecture else None,
            inputs=_declared_inputs(self.manifest),
        )

    def open(self) -> Session:
        """In a sandboxed worker, unless the user trusts the model; see `open_model`."""
        return open_model(
            self.runtime,
            self.files(),
            self.options,
            isolate=self.isolate,
            environment=self.environment,
            code=self._code(),
        )

    def open_isolated(self) -> IsolatedSession:
        """In a worker of its own in any case."""
        return open_isolated(self.runtime, self.files(), self.options, environment=self.environment, code=self._code())

    def _code(self) -> dict[str, str] | None:
        return self.manifest.code.model_dump(exclude_none=True) if self.manifest.code else None


@dataclass(frozen=True)
class Skipped:
    """A combination that was asked for and is not run."""

    title: str
    reason: str


@dataclass(frozen=True)
class Wanted:
    """How the user wants models run. No runtimes named: every installed one that can run a model."""

    runtimes: Sequence[str] = ()
    environments: Sequence[str] = ()  # "" is this process's own environment
    require: str = ""
    options: Options = field(default_factory=Options)
    isolate: bool = False
    allow_code: bool = False


def plan_jobs(
    entries: Sequence[Entry], wanted: Wanted, progress: Progress | None = None
) -> tuple[list[Job], list[Skipped]]:
    """Every job that can be run, and what was asked for and cannot. Builds environments that are not there yet."""
    jobs: list[Job] = []
    skipped: list[Skipped] = []
    for entry in entries:
        try:
            _check_entry(entry, wanted)
            found, passed_over = _jobs_of(entry, wanted, progress or Silent())
        except ZoolensError as error:
            skipped.append(Skipped(entry.ref, str(error)))
            continue
        jobs += found
        skipped += passed_over
    return jobs, skipped


def _check_entry(entry: Entry, wanted: Wanted) -> None:
    if entry.manifest.assets and entry.weights is Weights.ABSENT:
        resolve_asset(entry.manifest.assets[0], entry.folder, fetch=False)  # says which file is missing, and why
    if not entry.manifest.assets:
        raise AssetError(
            f"{entry.ref} is structure only: its weights are not on this machine and no location is known.",
            hint="zoolens never fills in random weights; put the file where `zoolens show` says, or choose another.",
        )
    if entry.manifest.code is not None and not wanted.allow_code:
        raise CodeNotAllowed(
            f"{entry.ref} carries Python code in its manifest, which is not run by default.",
            hint="Read it with `zoolens show`; if you trust it, add --allow-code (it runs in a process of its own).",
        )


def _jobs_of(entry: Entry, wanted: Wanted, progress: Progress) -> tuple[list[Job], list[Skipped]]:
    machine = describe_machine()
    clauses = parse_requirements_text(", ".join(t for t in (wanted.require, entry.manifest.requires) if t))
    jobs, reasons = [], []
    for name in wanted.runtimes or plugins.names(plugins.RUNTIMES):
        try:
            runtime: Runtime = plugins.load(plugins.RUNTIMES, name)()
        except ZoolensError as error:
            if wanted.runtimes:
                raise
            reasons.append(str(error))
            continue
        asset = next((one for one in entry.manifest.assets if one.format in runtime.formats), None)
        if asset is None:
            formats = ", ".join(dict.fromkeys(one.format for one in entry.manifest.assets))
            reasons.append(f"{name} does not run {formats}")
            continue
        for text in wanted.environments or ("",):
            if not text and runtime.version() is None:
                reasons.append(f"{name} is not installed{_how_to_get(runtime)}")
                continue
            environment = ensure_environment(parse_env(text), runtime.requirements, progress.say) if text else None
            installed = environment.freeze if environment else installed_packages()
            unmet = [
                *check(clauses, runtime, machine, installed),
                *_framework_mismatch(entry.manifest, runtime, installed),
            ]
            if unmet:
                reasons += unmet
                continue
            needs_own_process = runtime.fragile is not None or entry.manifest.code is not None
            isolate = wanted.isolate or environment is not None or needs_own_process
            jobs.append(Job(entry, asset, runtime, wanted.options, environment, isolate))
    if not jobs:
        # A runtime for other formats is news only where none is for this one.
        telling = [reason for reason in reasons if "does not run" not in reason] or reasons
        raise ConstraintError(f"No runtime here can run {entry.ref}: {'; '.join(said_once(telling))}.")
    asked_for = reasons if wanted.runtimes else []
    return jobs, [Skipped(entry.ref, reason) for reason in asked_for]


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
    return tuple(
        TensorSpec(one.name or f"input{index}", tuple(one.shape), one.dtype)
        for index, one in enumerate(manifest.inputs)
    )
