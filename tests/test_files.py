"""Files are whole or as they were, whatever happens while they are written."""

import errno
import os
import stat
import subprocess
import sys

import pytest

from transformer_lib import files


def test_the_content_is_written_and_replaces_the_old(tmp_path):
    path = tmp_path / "new folder" / "file"
    files.write_whole(path, b"old")
    files.write_whole(path, b"\x00new\r\n")
    assert path.read_bytes() == b"\x00new\r\n"
    assert list(path.parent.iterdir()) == [path]


def test_others_may_read_it_as_the_umask_says(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    files.write_whole(tmp_path / "ours", b"")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "ours")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, step, full)
    with pytest.raises(OSError, match=r"file could not be written and is as it was: No space left") as caught:
        files.write_whole(path, b"new")
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"old"


def test_a_write_that_stops_halfway_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    script = (  # the system itself refuses the second kilobyte
        "import resource, signal, sys; from transformer_lib import files\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))\n"
        "try:\n    files.write_whole(sys.argv[1], bytes(5000))\n"
        "except OSError as error:\n    print('refused:', error)"
    )
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert "refused:" in done.stdout
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"old"


def test_an_interrupt_leaves_no_temporary_file(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_whole(tmp_path / "file", b"new")
    assert list(tmp_path.iterdir()) == []
