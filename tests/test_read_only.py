"""A home that cannot be written, and a disk that is full, still allow looking at what was measured."""

import os
import shutil
import subprocess

import pytest

from command_server import CommandServer

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


@pytest.fixture(scope="module")
def namespace():
    """A server of commands that runs where mounts are private; skipped where the kernel does not let us."""
    unshare = shutil.which("unshare")
    probe = [unshare or "unshare", "--mount", "--map-root-user", "sh", "-c", "mount -t tmpfs none /mnt"]
    if unshare is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("MOUNTS NOT ALLOWED: this kernel gives no private mounts, so that no disk can be made read-only")
    server = CommandServer(unshare, "--mount", "--map-root-user")
    yield server
    server.close()


@pytest.fixture
def in_namespace(namespace):
    """Run a shell script among the private mounts; gives the server whose commands see what it mounted."""

    def run(script):
        done = namespace.run(script, code="import os, sys; os.execlp('sh', 'sh', '-euc', sys.argv[1])")
        assert done.returncode == 0, done.stderr
        return namespace

    return run


def read_everything(server, out, environment):
    """What the commands that only read print; each of them works."""
    printed = ""
    for arguments in READS:
        done = server.run(*(word.format(out=out) for word in arguments), environment=environment)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        printed += done.stdout
    return printed


def read_only(folder):
    return f"mount --bind '{folder}' '{folder}'; mount -o remount,bind,ro '{folder}'"


def test_a_read_only_home_can_be_read(measured, in_namespace, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    server = in_namespace(read_only(measured))
    assert "steady" in read_everything(server, out, None)
    assert (out / "figures.csv").stat().st_size > 100


def test_a_full_disk_can_be_read(measured, in_namespace, tmp_path):
    out, disk = tmp_path / "out", tmp_path / "disk"
    out.mkdir()
    disk.mkdir()
    script = (
        f"mount -t tmpfs -o size=8m none '{disk}'; cp -r '{measured}/.' '{disk}/'\n"
        f"dd if=/dev/zero of='{disk}/filler' bs=4k 2>/dev/null || true"
    )
    assert "steady" in read_everything(in_namespace(script), out, {**os.environ, "ZOOLENS_HOME": str(disk)})


def test_a_write_to_a_read_only_home_is_a_sentence(measured, in_namespace, fake_model, data):
    model = fake_model("third", seed=3)
    done = in_namespace(read_only(measured)).run("eval", model, "--data", data, "--no-cold")
    assert done.returncode != 0
    assert "cannot be" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
