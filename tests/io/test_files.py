"""Files are written whole or not at all, or grow by whole lines; what cannot be read is said in one sentence."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from icdc.errors import InputError, UsageError
from icdc.io.files import LockedFile, read_bytes, replacing, write_atomically


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that holds something already."""
    path = tmp_path / "answer.txt"
    write_atomically(path, "old")
    return path


def unharmed(file: Path) -> bool:
    """Tell whether the old contents are there, and nothing beside them."""
    return file.read_text() == "old" and list(file.parent.iterdir()) == [file]


def test_text_and_bytes_replace_what_was_there(file: Path) -> None:
    write_atomically(file, "né")
    assert file.read_bytes() == "né".encode()
    write_atomically(file, b"\xff")
    assert file.read_bytes() == b"\xff"
    assert list(file.parent.iterdir()) == [file]


def test_readers_see_the_old_contents_until_the_end(file: Path) -> None:
    with replacing(file) as opened:
        opened.write(b"new")
        opened.flush()
        assert file.read_text() == "old"
    assert file.read_text() == "new"


def test_a_full_disk_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(InputError, match=r"answer\.txt: cannot be written \(No space left on device\)"):
        write_atomically(file, "new")
    assert unharmed(file)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_breaks_off_the_writing_is_passed_on(file: Path, error: type[BaseException]) -> None:
    def half(file: Path) -> None:
        with replacing(file) as opened:
            opened.write(b"half")
            raise error

    with pytest.raises(error):
        half(file)
    assert unharmed(file)


def test_folders_are_made_only_where_that_is_meant(tmp_path: Path) -> None:
    target = tmp_path / "no" / "such" / "file"
    with pytest.raises(InputError, match="cannot be written"):
        write_atomically(target, b"")
    assert list(tmp_path.iterdir()) == []
    write_atomically(target, b"new", make_folder=True)
    assert target.read_bytes() == b"new"


def test_names_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("", ".", tmp_path):
        with pytest.raises(InputError, match="cannot be written"):
            write_atomically(name, b"new")
    assert list(tmp_path.iterdir()) == []


def test_files_are_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_atomically(tmp_path / "ours", b"")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


@pytest.mark.parametrize(
    ("name", "sentence"), [("gone", "no such file"), (".", "this is a directory"), ("a\0b", "cannot be read")]
)
def test_what_cannot_be_read(name: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=sentence):
        read_bytes(name)


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    real = tmp_path / "folder" / "real.txt"
    real.write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to(real)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert list(real.parent.iterdir()) == [real]


def test_devices_are_not_replaced(tmp_path: Path) -> None:
    link = tmp_path / "null.txt"
    link.symlink_to(os.devnull)
    with pytest.raises(InputError, match=r"null\.txt: cannot be written \(it is not a regular file\)"):
        write_atomically(link, "new")


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
    code = "import sys, time; from icdc.io.files import LockedFile; f = LockedFile(sys.argv[1]); "
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
