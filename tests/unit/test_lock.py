"""One measured run at a time."""

import pytest

from testbed import lock
from testbed.errors import UserError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "PATH", str(tmp_path / "lock"))


def test_second_is_refused_and_the_holder_named():
    with lock.alone(False, pytest.fail):
        with pytest.raises(UserError, match="another measured run is going on .process"):
            with lock.alone(True, pytest.fail):
                pytest.fail("both are inside")


def test_lock_is_free_again_afterwards_and_after_an_error():
    with pytest.raises(KeyError), lock.alone(True, pytest.fail):
        raise KeyError
    with lock.alone(True, pytest.fail):
        pass


def test_file_that_was_left_behind_does_not_matter(tmp_path):
    (tmp_path / "lock").write_text("4711")
    with lock.alone(True, pytest.fail):
        assert (tmp_path / "lock").read_text() != "4711"
