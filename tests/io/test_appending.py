"""Files that grow line by line: locked, whole, and every failure a sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from icdc.errors import InputError, UsageError
from icdc.io.appending import LockedFile


def test_lines_are_added_and_a_cut_one_goes(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    with LockedFile(path) as file:
        assert file.size == 0
        file.append("one\n")
        file.append("two\n")
        assert file.read() == b"one\ntwo\n"
    path.write_bytes(b"one\ntwo\nthr")
    with LockedFile(path) as file:
        assert file.read() == b"one\ntwo\n"
        file.append("three\n")
    assert path.read_text() == "one\ntwo\nthree\n"


def test_a_second_process_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    code = "import sys, time; from icdc.io.appending import LockedFile; f = LockedFile(sys.argv[1]); "
    code += "print('locked', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(UsageError, match=r"lines\.jsonl is in use by another process"):
            LockedFile(path)
        other.kill()  # however it ends
    LockedFile(path).close()


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.jsonl").write_text("one\n")
    link = tmp_path / "link.jsonl"
    link.symlink_to("real.jsonl")
    with LockedFile(link) as file:
        file.append("two\n")
        with pytest.raises(UsageError, match="in use"):
            LockedFile(tmp_path / "real.jsonl")
    assert link.is_symlink()
    assert (tmp_path / "real.jsonl").read_text() == "one\ntwo\n"


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none/x\.jsonl: cannot be written \(No such file or directory\)"):
        LockedFile(tmp_path / "none" / "x.jsonl")
    with pytest.raises(InputError, match=r"cannot be written \(Is a directory\)"):
        LockedFile(tmp_path)
    path = tmp_path / "folder" / "x.jsonl"
    path.parent.mkdir()
    with LockedFile(path) as file:
        path.unlink()
        path.parent.rmdir()
        with pytest.raises(InputError, match="removed or replaced"):
            file.append("lost\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_said(tmp_path: Path) -> None:
    link = tmp_path / "full.jsonl"
    link.symlink_to("/dev/full")
    with LockedFile(link) as file:
        assert file.read() == b""
        with pytest.raises(InputError, match=r"full\.jsonl: cannot be written \(No space left on device\)"):
            file.append("one\n")
