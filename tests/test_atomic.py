"""A file is replaced at once: old bytes or new ones, with its mode, its owner and the links to it."""

import os
import stat

import pytest

from accelify import atomic


def put(content):
    return lambda file: file.write(content)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_has_the_usual_mode(tmp_path):
    atomic.write(tmp_path / "a", put(b"new"))
    (tmp_path / "plain").touch()
    assert (tmp_path / "a").read_bytes() == b"new"
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_new_file_has_the_mode_that_is_asked_for(tmp_path):
    atomic.write(tmp_path / "a", put(b""), mode=0o644)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644


def test_a_file_keeps_its_mode(tmp_path):
    path = tmp_path / "run.sh"
    path.write_bytes(b"old")
    path.chmod(0o750)
    atomic.write(path, put(b"new"), mode=0o644)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_file_keeps_its_owner(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    os.chown(path, 12345, 12345)
    path.chmod(0o6755)
    atomic.write(path, put(b"new"))
    after = path.stat()
    assert (after.st_uid, after.st_gid, stat.S_IMODE(after.st_mode)) == (12345, 12345, 0o6755)


@pytest.mark.parametrize("must_keep_owner", [False, True])
def test_an_owner_that_cannot_be_kept(must_keep_owner, tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    mine, real = path.stat(), os.fstat

    def of_another(descriptor):
        values = list(real(descriptor))
        values[4] = mine.st_uid + 1
        return os.stat_result(values)

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fstat", of_another)
    monkeypatch.setattr(os, "fchown", refuse)
    if must_keep_owner:
        with pytest.raises(atomic.OwnerWouldChange), atomic.staged(path, put(b"new"), must_keep_owner=True):
            raise AssertionError("not reached")
        assert path.read_bytes() == b"old"
    else:
        atomic.write(path, put(b"new"))
        assert path.read_bytes() == b"new"
    assert names_in(tmp_path) == ["a"]


def test_a_link_stays_one(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a").write_bytes(b"old")
    (tmp_path / "link").symlink_to("far/a")
    atomic.write(tmp_path / "link", put(b"new"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "far" / "a").read_bytes() == b"new"
    assert names_in(tmp_path / "far") == ["a"]


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fail(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atomic.write(path, fail)
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["a"]


def test_a_reader_sees_the_old_bytes_until_the_new_ones_are_complete(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with atomic.staged(path, put(b"new")) as new:
        assert path.read_bytes() == b"old"
        assert new.temporary.parent == path.parent
        assert new.temporary.read_bytes() == b"new"
        new.replace()
        assert path.read_bytes() == b"new"
    assert names_in(tmp_path) == ["a"]


def test_what_is_staged_and_not_wanted_goes(tmp_path):
    with atomic.staged(tmp_path / "a", put(b"new")):
        pass
    assert names_in(tmp_path) == []


def test_file_and_folder_are_on_the_disk(tmp_path, monkeypatch):
    synced, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_mode) or real(descriptor))
    atomic.write(tmp_path / "a", put(b"new"))
    assert [stat.S_ISDIR(mode) for mode in synced] == [False, True]


def test_leftovers_of_what_was_killed_go_and_those_of_the_living_stay(tmp_path):
    left = tmp_path / ".a.abcd1234.part"
    strangers = [tmp_path / name for name in (".b.abcd1234.part", ".a.part", "a.abcd1234.part", ".a.ABCD1234.part")]
    for path in (left, *strangers):
        path.touch()
    with atomic.staged(tmp_path / "a", put(b"new")) as new:
        atomic.remove_leftovers(tmp_path, {"a"})
        assert not left.exists()
        new.replace()
    assert (tmp_path / "a").read_bytes() == b"new"
    assert names_in(tmp_path) == sorted(["a", *(path.name for path in strangers)])


def test_a_named_pipe_and_a_missing_folder_stop_no_cleaning(tmp_path):
    os.mkfifo(tmp_path / ".a.abcd1234.part")
    atomic.remove_leftovers(tmp_path, {"a"})
    atomic.remove_leftovers(tmp_path / "nowhere", {"a"})
    assert names_in(tmp_path) == [".a.abcd1234.part"]
