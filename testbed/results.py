"""The results of a sweep: kept row by row as they come, and written as one tidy table."""

import contextlib
import fcntl
import json
import os

import pyarrow as pa
from pyarrow import csv, parquet

from testbed.errors import TestbedError, UserError
from testbed.files import whole
from testbed.workloads import WORKLOADS

_KEY = [("demand", pa.string()), ("hosts", pa.int64()), ("demand_sha256", pa.string()), ("seed", pa.int64()),
        ("scheduler", pa.string()), ("switches", pa.int64()), ("delta_periods", pa.float64())]


def _parameters():
    """Columns for the parameters of all workloads; empty where a workload has none of that name."""
    fields = {name: field for kind in WORKLOADS.values() for name, field in kind.model_fields.items()}
    return [(name, pa.float64() if field.annotation is float else pa.int64()) for name, field in fields.items()]


SCHEMA = pa.schema([
    *_KEY, *_parameters(),
    ("degree", pa.int64()), ("nonzeros", pa.int64()), ("slots", pa.int64()),
    ("lower_bound_periods", pa.float64()), ("tight_lower_bound_periods", pa.float64()), ("makespan_periods", pa.float64()), ("makespan_over_bound", pa.float64()),
    # Measured on the testbed, or empty. What is played is a demand in whole bytes and datagrams: its makespan, as
    # computed, can differ a little from that of the matrix.
    ("period_s", pa.float64()), ("rate_bps", pa.float64()), ("played_makespan_periods", pa.float64()), ("measured_makespan_periods", pa.float64()),
    ("measured_over_computed", pa.float64()), ("measured_over_predicted", pa.float64()), ("trustworthy", pa.bool_()), ("reasons", pa.string()),
    ("exit_status", pa.int64()),
])


class Store:
    """Rows in a folder, each kept as soon as it is known, in `rows.jsonl`.

    Parameters
    ----------
    folder : str
    code : str
        Rows that other code computed do not count as done.
    """

    def __init__(self, folder, code):
        self.folder = folder
        self._code = code
        self._stream = None
        self._rows = {"computed": {}, "measured": {}}

    @contextlib.contextmanager
    def open(self):
        """Inside the block, rows can be added, and nobody else adds to the folder.

        Raises
        ------
        UserError
            The folder cannot be written, holds something else, or is in use.
        """
        path = os.path.join(self.folder, "rows.jsonl")
        try:
            os.makedirs(self.folder, exist_ok=True)
            if os.listdir(self.folder) and not os.path.exists(path):
                raise UserError(f"--out {self.folder}: the folder is not empty and holds no sweep; name a new one")
            self._stream = open(path, "a+", encoding="utf-8")
        except OSError as error:
            raise UserError(f"--out {self.folder}: {error.strerror}") from None
        with self._stream:
            try:
                fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"--out {self.folder}: another sweep writes there; wait for it, or name a new folder"
                                ) from None
            self._load()
            yield self

    def _load(self):
        self._stream.seek(0)
        whole = 0
        for line in iter(self._stream.readline, ""):
            if not line.endswith("\n"):
                break  # killed while it was written
            whole = self._stream.tell()
            with contextlib.suppress(ValueError, KeyError, TypeError):
                record = json.loads(line)
                if record["code"] == self._code:
                    self._rows[record["kind"]][_key(record["row"])] = record["row"]
        self._stream.truncate(whole)
        self._stream.seek(0, os.SEEK_END)

    def add(self, kind, rows):
        """Keep rows; kind is 'computed' or 'measured'."""
        try:
            for row in rows:
                self._rows[kind][_key(row)] = row
                self._stream.write(json.dumps({"code": self._code, "kind": kind, "row": row}) + "\n")
            self._stream.flush()
        except OSError as error:
            raise TestbedError(f"writing {self._stream.name}: {error.strerror}") from None

    def has(self, kind, case):
        """Whether a case is done."""
        return _key(vars(case)) in self._rows[kind]

    def row(self, kind, case):
        """The row of a case, or None."""
        return self._rows[kind].get(_key(vars(case)))

    def table(self, cases):
        """What is known of the cases, in their order, as a pyarrow Table."""
        rows = [{**self.row("computed", case), **(self.row("measured", case) or {})}
                for case in cases if self.has("computed", case)]
        return pa.Table.from_pylist(rows, schema=SCHEMA)


def _key(row):
    return tuple(row[name] for name, _ in _KEY)


def write_table(table, path):
    """Write a table as PATH.parquet and PATH.csv; each is whole or not there."""
    for ending, write in ((".parquet", parquet.write_table), (".csv", csv.write_csv)):
        with whole(path + ending) as part:
            write(table, part)
