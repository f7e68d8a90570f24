"""Files that are whole or not there."""

import contextlib
import os

from testbed.errors import TestbedError


@contextlib.contextmanager
def whole(path):
    """Gives the path to write to, and puts it in the place of `path` at the end: the file is whole or not there.

    Raises
    ------
    TestbedError
        It cannot be written.
    """
    try:
        yield path + ".part"
        os.replace(path + ".part", path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(path + ".part")
        raise TestbedError(f"writing {path}: {error.strerror or error}") from None
