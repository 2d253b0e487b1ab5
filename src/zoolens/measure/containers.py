"""A run's software stack as a requirements lock and a Dockerfile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from packaging.utils import canonicalize_name

from zoolens.errors import ZoolensError
from zoolens.store.records import Run

_NOT_ON_AN_INDEX = {"zoolens"}  # installed from its own source; the Dockerfile says how


def requirements_lock(run: Run) -> str:
    """Exact versions of every package that was installed beside zoolens, the ones that shape the numbers first."""
    packages: dict[str, str] = {
        name: version for name, version in run.stack.lock["all_packages"].items() if name not in _NOT_ON_AN_INDEX
    }
    identity = run.stack.identity
    deciding = {canonicalize_name(name) for name in [*identity["packages"], *identity.get("decoder", {})]}
    lines = [
        f"# Software of zoolens run {run.id}",
        f"# {run.ref} on {run.dataset.name} in {run.stack.runtime}, Python {run.stack.identity['python']}",
    ]
    if run.stack.identity["environment"]:
        own = ", ".join(run.stack.identity["environment"])
        lines.append(f"# The model ran in an environment of its own, which zoolens builds again: {own}")
    lines += ["# These decide the figures:", *_pins(packages, lambda name: name in deciding)]
    lines += ["# Everything else that was installed:", *_pins(packages, lambda name: name not in deciding)]
    return "\n".join(lines) + "\n"


def _pins(packages: dict[str, str], wanted: Callable[[str], bool]) -> list[str]:
    """A local part such as +cpu is left out: no index can satisfy it."""
    return [f"{name}=={version.partition('+')[0]}" for name, version in packages.items() if wanted(name)]


def dockerfile(run: Run) -> str:
    python = run.stack.identity["python"]
    machine = run.stack.lock["machine"]
    resolved = run.resolved
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
            "COPY requirements.lock .",
            "RUN pip install --no-cache-dir --no-deps -r requirements.lock",
            "# Build context: a checkout of zoolens beside this file, as ./zoolens",
            "COPY zoolens ./zoolens",
            "RUN pip install --no-cache-dir --no-deps ./zoolens",
            "# Run it with your store and data mounted, such as",
            "# docker run -v ~/.local/share/zoolens:/root/.local/share/zoolens -v /data:/data IMAGE",
            'ENTRYPOINT ["zoolens"]',
            f'CMD ["reproduce", "{run.id}"]',
            "",
        ]
    )


def write_stack(run: Run, folder: Path) -> list[Path]:
    contents = {"requirements.lock": requirements_lock(run), "Dockerfile": dockerfile(run)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ZoolensError(f"{folder} cannot be written: {error.strerror}.", hint="Name another with -o.") from error
    return [folder / name for name in contents]
