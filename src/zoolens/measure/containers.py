"""A run's software stack as a requirements lock and a Dockerfile."""

from __future__ import annotations

from pathlib import Path

from zoolens.store.records import Run

_NOT_ON_AN_INDEX = {"zoolens"}  # installed from its own source; the Dockerfile says how


def requirements_lock(run: Run) -> str:
    """Exact versions of every package that was installed, the ones that shape the numbers first."""
    packages: dict[str, str] = dict(run.stack.lock["all_packages"])
    key = {name: version for name, version in run.stack.identity["packages"].items() if version}
    lines = [
        f"# Software of zoolens run {run.id}",
        f"# {run.model.ref} on {run.dataset.name} in {run.stack.runtime}, Python {run.stack.identity['python']}",
        "# These decide the figures:",
        *(f"{name}=={version}" for name, version in key.items()),
        "# Everything else that was installed:",
    ]
    known = {_normal(name) for name in (*key, *_NOT_ON_AN_INDEX)}
    lines += [f"{name}=={_public(version)}" for name, version in packages.items() if _normal(name) not in known]
    return "\n".join(lines) + "\n"


def dockerfile(run: Run) -> str:
    python = run.stack.identity["python"]
    machine = run.stack.lock["machine"]
    resolved = run.resolved
    options = {name: value for name, value in run.stack.identity["options"].items() if value not in (None, "default")}
    return "\n".join(
        [
            f"# Stack of zoolens run {run.id}: {run.model.ref} in {run.stack.runtime}.",
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
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in (("requirements.lock", requirements_lock(run)), ("Dockerfile", dockerfile(run))):
        path = folder / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _public(version: str) -> str:
    """Without a local part such as +cpu, which no index can satisfy."""
    return version.partition("+")[0]
