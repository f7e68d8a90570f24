"""A demand matrix in bytes: generated from a workload's name, or read from a file and checked."""

import csv
import os
import stat
import zipfile

import numpy as np

from testbed import workloads
from testbed.errors import UserError, nearest
from testbed.settings import MAX_HOSTS

SUFFIXES = (".csv", ".tsv", ".npy", ".npz")
_MAX_TEXT_BYTES = 512 << 20
_MAX_LINE_CHARACTERS = 64 * MAX_HOSTS


def demand_of(settings):
    """Name and matrix of the demand that settings ask for, before it is turned into bytes.

    Parameters
    ----------
    settings : Settings

    Returns
    -------
    name : str
        Of the workload, with its parameters, or the file's name without its ending.
    matrix : ndarray, shape (n, n)
        Fractions of the period where `is_normalised(settings)`, else whole bytes.

    Raises
    ------
    UserError
    """
    if is_workload(settings.demand):
        try:
            return settings.demand, workloads.generate(settings.demand, settings.hosts or 8, settings.seed)
        except ValueError as error:
            raise UserError(f"--demand {settings.demand}: {error}") from None
    path = settings.demand
    if not path.endswith(SUFFIXES):
        if os.path.exists(path):
            raise UserError(f"--demand {path}: unknown kind of file; use one of {', '.join(SUFFIXES)}")
        raise UserError(f"--demand {path}: neither a workload nor a file{nearest(path, workloads.WORKLOADS)}")
    matrix = _checked(read(path), path, settings)
    return os.path.splitext(os.path.basename(path))[0], matrix


def is_workload(text):
    """Whether a text names a workload that is generated, and no file."""
    return text.partition(":")[0] in workloads.WORKLOADS and not text.endswith(SUFFIXES)


def is_normalised(settings):
    """Whether the demand is in fractions of the period."""
    return settings.normalised or is_workload(settings.demand)


def read(path):
    """The numbers in a demand file, as they stand there.

    Parameters
    ----------
    path : str
        .csv, .tsv, .npy or .npz; the last with one array, or one named `demand`.

    Returns
    -------
    ndarray of float, shape (n, n)

    Raises
    ------
    UserError
        No such file, no numbers, not square, or too large; with row and column, counted from 1.
    """
    try:
        if not os.path.isdir(path) and not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would never end
            raise UserError(f"--demand {path}: this is no regular file")
        if path.endswith((".csv", ".tsv")):
            return _read_text(path)
        return _read_numpy(path)
    except OSError as error:
        raise UserError(f"--demand {path}: {error.strerror or error}") from None


def _read_text(path):
    if os.path.getsize(path) > _MAX_TEXT_BYTES:
        raise UserError(f"--demand {path}: larger than {_MAX_TEXT_BYTES >> 20} MiB of text; use .npy")
    rows = []
    try:
        with open(path, encoding="utf-8-sig", newline="") as stream:
            for cells in csv.reader(_lines(stream, path), delimiter="\t" if path.endswith(".tsv") else ","):
                if not any(cell.strip() for cell in cells):
                    continue
                if max(len(cells), len(rows) + 1) > MAX_HOSTS:
                    raise UserError(f"--demand {path}: row {len(rows) + 1} is beyond {MAX_HOSTS} hosts, the most that are possible")
                rows.append([_number(cell, path, len(rows) + 1, column) for column, cell in enumerate(cells, 1)])
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"--demand {path}: this is no text table ({error})") from None
    if not rows:
        raise UserError(f"--demand {path}: the file is empty; expected n rows of n numbers")
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows):
            raise UserError(f"--demand {path}: not square: {len(rows)} rows, but row {number} has {len(row)} columns")
    return np.array(rows, dtype=float)


def _lines(stream, path):
    """The lines of a file; refuses one that is longer than the memory should be asked for."""
    number = 0
    while line := stream.readline(_MAX_LINE_CHARACTERS):
        number += 1
        if len(line) == _MAX_LINE_CHARACTERS and not line.endswith("\n"):
            raise UserError(f"--demand {path}: line {number} is longer than {_MAX_LINE_CHARACTERS:,} characters")
        yield line


def _number(text, path, row, column):
    try:
        return float(text)
    except ValueError:
        raise UserError(f"--demand {path}: row {row}, column {column}: {text.strip()[:40]!r} is not a number"
                        ) from None


def _read_numpy(path):
    try:
        if path.endswith(".npz"):
            with zipfile.ZipFile(path) as archive:
                member = _member(archive, path)
                with archive.open(member) as stream:
                    _check_header(stream, path)
                with archive.open(member) as stream:
                    array = np.lib.format.read_array(stream, allow_pickle=False)
        else:
            with open(path, "rb") as stream:
                _check_header(stream, path)
                stream.seek(0)
                array = np.lib.format.read_array(stream, allow_pickle=False)
    except (UserError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - NumPy, zipfile and zlib raise a dozen kinds for a damaged file
        raise UserError(f"--demand {path}: not readable as {os.path.splitext(path)[1]} "
                        f"({' '.join(str(error).split())})") from None
    return array.astype(float)


def _member(archive, path):
    names = [name for name in archive.namelist() if name.endswith(".npy")]
    if len(names) != 1 and "demand.npy" not in names:
        raise UserError(f"--demand {path}: {len(names)} arrays in it; give one, or name it 'demand'")
    return "demand.npy" if "demand.npy" in names else names[0]


def _check_header(stream, path):
    """Refuse by the header what is no plain square array of numbers, before memory is given to it."""
    version = np.lib.format.read_magic(stream)
    reader = {(1, 0): np.lib.format.read_array_header_1_0}.get(version, np.lib.format.read_array_header_2_0)
    shape, _, dtype = reader(stream)
    if dtype.hasobject:
        raise UserError(f"--demand {path}: it holds Python objects (a pickle), which are not loaded; save numbers")
    if dtype.kind not in "iufb":
        raise UserError(f"--demand {path}: it holds {dtype}, not numbers")
    if len(shape) != 2 or shape[0] != shape[1]:
        raise UserError(f"--demand {path}: not square: its shape is {shape}")
    if shape[0] > MAX_HOSTS:
        raise UserError(f"--demand {path}: {shape[0]} hosts; at most {MAX_HOSTS} are possible")


def _checked(matrix, path, settings):
    """The matrix with a zero diagonal, sized for the hosts, or the first thing that is wrong with it."""
    n = len(matrix)
    if n < 2:
        raise UserError(f"--demand {path}: {n} host; at least 2 are needed")
    if n > MAX_HOSTS:
        raise UserError(f"--demand {path}: {n} hosts; at most {MAX_HOSTS} are possible")
    _refuse(~np.isfinite(matrix), matrix, path, "is not finite")
    _refuse(matrix < 0, matrix, path, "is negative")
    if settings.ignore_diagonal:
        matrix = matrix * (1 - np.eye(n))
    _refuse(np.eye(n, dtype=bool) & (matrix != 0), matrix, path,
            "is on the diagonal: a host sends nothing to itself; use --ignore-diagonal to leave the diagonal out")
    if not settings.normalised:
        _refuse(matrix != np.floor(matrix), matrix, path,
                "is no whole number of bytes; use --normalised for fractions of the period")
        _refuse(matrix > 2**53, matrix, path, "is more than 2^53 bytes")
    if not matrix.any():
        raise UserError(f"--demand {path}: all zero: there is nothing to send")
    if settings.hosts is not None and n > settings.hosts:
        raise UserError(f"--demand {path}: {n} hosts, but --hosts is {settings.hosts}; use --hosts {n}")
    idle = (settings.hosts or n) - n
    return np.pad(matrix, ((0, idle), (0, idle)))


def _refuse(wrong, matrix, path, what):
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise UserError(f"--demand {path}: row {row + 1}, column {column + 1}: {matrix[row, column]:g} {what}")
