"""A run's software environment as a requirements lock and a Dockerfile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import Run
from zoolens.findings.measure.lock import OURS

_NOT_ON_AN_INDEX = {"zoolens"}  # installed from its own source; the Dockerfile says how


def requirements_lock(run: Run) -> str:
    """Exact versions of every package beside the model when it ran, the ones that shape the numbers first.

    A run in an environment of its own (--env) has the packages of that environment, not those of zoolens' own.
    """
    own = run.stack.lock.get("environment_packages")
    title = "# Software of zoolens run {}"
    if own is None:
        return _lock(run, title, run.stack.lock["all_packages"], [*_runtime_packages(run), *_input_packages(run)])
    asked = ", ".join(run.stack.identity["environment"])
    title += f", in the environment that the model ran in: {asked}"
    return _lock(run, title, own, _runtime_packages(run))


def outer_lock(run: Run) -> str | None:
    """The packages of zoolens itself, which prepared the inputs, where the model ran in an environment of its own."""
    if run.stack.lock.get("environment_packages") is None:
        return None
    title = "# Software of zoolens run {}, outside of the environment that the model ran in"
    return _lock(run, title, run.stack.lock["all_packages"], _input_packages(run))


def _lock(run: Run, title: str, installed: Mapping[str, str], deciding: Iterable[str]) -> str:
    packages = {name: version for name, version in installed.items() if name not in _NOT_ON_AN_INDEX}
    names = {canonicalize_name(name) for name in deciding}
    lines = [
        title.format(run.id),
        f"# {run.ref} on {run.dataset.name} in {run.stack.runtime}, Python {run.stack.identity['python']}",
        "# These decide the figures:",
        *_pins(packages, lambda name: name in names),
        "# Everything else that was installed:",
        *_pins(packages, lambda name: name not in names),
    ]
    return "\n".join(lines) + "\n"


def _runtime_packages(run: Run) -> list[str]:
    return list(run.stack.identity["packages"])


def _input_packages(run: Run) -> list[str]:
    return [*OURS, *run.stack.identity.get("decoder", {})]


def _pins(packages: Mapping[str, str], wanted: Callable[[str], bool]) -> list[str]:
    """A local part such as +cpu is left out: no index can satisfy it."""
    return [f"{name}=={version.partition('+')[0]}" for name, version in packages.items() if wanted(name)]


def dockerfile(run: Run) -> str:
    python = run.stack.identity["python"]
    machine = run.stack.lock["machine"]
    resolved = run.resolved
    locks = list(_locks(run))
    own_environment = [
        "# zoolens builds the model's environment when it is run, with exactly the versions of that lock.",
        f"ENV PIP_CONSTRAINT=/work/{locks[0]}",
    ] * (len(locks) > 1)
    options = {name: value for name, value in run.stack.identity["options"].items() if value not in (None, "default")}
    return "\n".join(
        [
            f"# Stack of zoolens run {run.id}: {run.ref} in {run.stack.runtime}.",
            f"# Measured on {machine['cpu']}, {machine['cores']} cores; effective precision "
            f"{resolved.get('precision') or 'unknown'}, provider {resolved.get('provider') or 'unknown'}.",
            f"# Options: {', '.join(f'{k}={v}' for k, v in options.items()) or 'defaults'}.",
            "# A container fixes the software; the processor stays that of the host and can change the figures.",
            f"FROM python:{python}-slim",
            "WORKDIR /work",
            f"COPY {' '.join(locks)} ./",
            f"RUN pip install --no-cache-dir --no-deps -r {locks[-1]}",
            "# Build context: a checkout of zoolens beside this file, as ./zoolens",
            "COPY zoolens ./zoolens",
            "RUN pip install --no-cache-dir --no-deps ./zoolens",
            "# Run it with your store and data mounted, such as",
            "# docker run -v ~/.local/share/zoolens:/root/.local/share/zoolens -v /data:/data IMAGE",
            'ENTRYPOINT ["zoolens"]',
            *own_environment,
            f'CMD ["reproduce", "{run.id}", "--yes"]' if own_environment else f'CMD ["reproduce", "{run.id}"]',
            "",
        ]
    )


def _locks(run: Run) -> dict[str, str]:
    """The locks by file name: the model's packages first, those that are installed in the image last."""
    outer = outer_lock(run)
    locks = {"requirements.lock": requirements_lock(run)}
    return locks if outer is None else {**locks, "zoolens-requirements.lock": outer}


def write_stack(run: Run, folder: Path) -> list[Path]:
    if run.stack.address:
        raise ZoolensError(
            f"Run {run.id[:8]} was answered by the server at {run.stack.address}, whose environment is unknown.",
            hint="Export a run of a model that ran on this machine.",
        )
    contents = {**_locks(run), "Dockerfile": dockerfile(run)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ZoolensError(f"{folder} cannot be written: {error.strerror}.", hint="Name another with -o.") from error
    return [folder / name for name in contents]
