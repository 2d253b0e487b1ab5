"""A home that cannot be written, and a disk that is full, still allow looking at what was measured."""

import shutil
import subprocess
import sys

import pytest

READS = [
    ["runs"],
    ["runs", "show", "last"],
    ["compare", "last~1", "last"],
    ["query", "CORR steady"],
    ["export", "-o", "{out}/figures.csv"],
]


@pytest.fixture
def measured(zoolens, home, fake_model, data):
    for name, seed in (("steady", 1), ("other", 2)):
        done = zoolens(
            "eval",
            fake_model(name, behaviour="label_leak", seed=seed),
            "--data",
            data,
            "--latency-seconds",
            "0.05",
            "--no-cold",
        )
        assert done.returncode == 0, done.stderr
    return home


def in_namespace(script, home):
    """Run a shell script where mounts are private; skipped where the kernel does not let us."""
    unshare = shutil.which("unshare")
    probe = [unshare or "unshare", "--mount", "--map-root-user", "sh", "-c", "mount -t tmpfs none /mnt"]
    if unshare is None or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("MOUNTS NOT ALLOWED: this kernel gives no private mounts, so that no disk can be made read-only")
    command = [unshare, "--mount", "--map-root-user", "sh", "-euc", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def commands(home, out):
    lines = []
    for arguments in READS:
        words = " ".join(f"'{word.format(out=out)}'" for word in arguments)
        lines.append(f"'{sys.executable}' -m zoolens {words} || {{ echo failed: $? {arguments[0]}; }}")
    return "\n".join(lines)


def test_a_read_only_home_can_be_read(measured, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    script = f"mount --bind '{measured}' '{measured}'; mount -o remount,bind,ro '{measured}'\n" + commands(
        measured, out
    )
    done = in_namespace(script, measured)
    assert "failed" not in done.stdout, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "steady" in done.stdout
    assert (out / "figures.csv").stat().st_size > 100


def test_a_full_disk_can_be_read(measured, tmp_path):
    out, disk = tmp_path / "out", tmp_path / "disk"
    out.mkdir()
    disk.mkdir()
    script = (
        f"mount -t tmpfs -o size=8m none '{disk}'; cp -r '{measured}/.' '{disk}/'\n"
        f"dd if=/dev/zero of='{disk}/filler' bs=4k 2>/dev/null || true\n"
        f"export ZOOLENS_HOME='{disk}'\n" + commands(disk, out)
    )
    done = in_namespace(script, measured)
    assert "failed" not in done.stdout, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "steady" in done.stdout


def test_a_write_to_a_read_only_home_is_a_sentence(measured, fake_model, data):
    model = fake_model("third", seed=3)
    script = (
        f"mount --bind '{measured}' '{measured}'; mount -o remount,bind,ro '{measured}'\n"
        f"'{sys.executable}' -m zoolens eval '{model}' --data '{data}' --no-cold && exit 9 || exit 0"
    )
    done = in_namespace(script, measured)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cannot be" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
