"""Whatever a user gives: a result, or one line that says what is wrong. tests/bench/fuzz.py runs the same at length."""

import contextlib
import io
import json
import os
import tempfile
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings as hypothesis_settings, strategies as st

from controller.scheduling.schedule import Schedule, Slot
from testbed import demand
from testbed.calibration import GUESS
from testbed.errors import UserError
from testbed.faults import FORMS
from testbed.plan import make_plan
from testbed.run import parser
from testbed.settings import Settings, load

SOME = hypothesis_settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))

numbers = st.one_of(st.integers(-3, 10**20).map(str), st.floats().map(str), st.sampled_from(["", "1e999", "0x10", "１２", "NaN", "-0", "1_0"]))
cells = numbers | st.text(max_size=5)


@st.composite
def table_texts(draw):
    """Text files that are nearly demand matrices."""
    n = draw(st.integers(0, 4))
    rows = [[draw(st.just("0") if i == j else numbers | st.integers(0, 9).map(str)) for j in range(n)] for i in range(n)]
    if rows and draw(st.booleans()):
        rows[draw(st.integers(0, n - 1))] = draw(st.lists(cells, max_size=5))
    return "\n".join(draw(st.sampled_from([",", "\t", ";", ", "])).join(row) for row in rows)


def npy(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def npz(members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return stream.getvalue()


arrays = st.sampled_from([np.ones((3, 3)), np.eye(2), np.zeros((0, 0)), np.ones(3), np.array([[1, "a"]], dtype=object), np.ones((2, 3)),
                          np.ones((2, 2), complex), np.array([["a", "b"], ["c", "d"]]), np.full((2, 2), 5, np.uint8)])


@st.composite
def damaged(draw, whole):
    """Bytes with some of them changed, left out or doubled."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 4))):
        if data:
            place = draw(st.integers(0, len(data) - 1))
            change = draw(st.integers(0, 3))
            if change == 0:
                data[place] = draw(st.integers(0, 255))
            elif change == 1:
                del data[place:]
            elif change == 2:
                data[place:place] = data[:draw(st.integers(0, 40))]
            else:
                data[place:place + 1] = draw(st.binary(max_size=8))
    return bytes(data)


demand_files = st.one_of(
    st.tuples(st.sampled_from([".csv", ".tsv"]), st.one_of(table_texts().map(str.encode), damaged(table_texts().map(str.encode)),
                                                           st.binary(max_size=60))),
    st.tuples(st.just(".npy"), damaged(arrays.map(npy)) | st.binary(max_size=60)),
    st.tuples(st.just(".npz"), damaged(st.lists(st.tuples(st.sampled_from(["demand.npy", "a.npy", "b.txt"]), arrays.map(npy)),
                                                max_size=2).map(npz)) | st.binary(max_size=60)))

options = st.sampled_from([f"--{name}" for name in Settings.model_fields] + ["--json", "--no-wait", "--nonsense", "-x", "--"])
names = list(Settings.model_fields)
values = st.one_of(numbers, st.text(max_size=8), st.sampled_from(["8", "2", "4", "20ms", "10Mbit", "gpt", "moe:experts=8", "less", "rotor", *FORMS,
                                                                  "gpt:tensor=", "moe:skew=-1", "benchmark:flows=2,noise=1"]))
yaml_texts = st.one_of(
    st.dictionaries(st.sampled_from(names) | st.text(max_size=6), st.one_of(values, st.integers(), st.booleans(), st.none(), st.floats(),
                    st.lists(values, max_size=2)), max_size=3).map(json.dumps),
    st.text(max_size=60), st.lists(st.sampled_from(["a: ", "&x ", "*x", "- ", "{", "[", "]", "\n", "  ", "hosts: 4", "!!python/object:os.system ",
                                                    "? ", "|", ">", "'", '"', "---", "%YAML 9"]), max_size=12).map("".join))


def one_line(function, *arguments):
    """Call it; a UserError is one line that says something."""
    try:
        return function(*arguments)
    except UserError as error:
        assert len(str(error)) > 10
        return None


def try_demand(suffix, data):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "demand" + suffix)
        with open(path, "wb") as stream:
            stream.write(data)
        one_line(lambda: demand.demand_of(Settings(demand=path)))


def try_config(text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.yaml")
        with open(path, "w", encoding="utf-8", errors="surrogatepass") as stream:
            stream.write(text)
        one_line(load, {}, path)


def try_command_line(arguments):
    def command():
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):  # --help ends there
            given_options = vars(parser().parse_args(arguments))
            given_options.pop("list", None)
            given_options.pop("config", None)
            found = load(given_options)
            if (found.hosts or 0) <= 16 and found.switches <= 4 and found.delta > 1e-4 and not os.path.exists(found.demand):
                return make_plan(found, GUESS).faults
        return None
    one_line(command)


def try_schedule(text):
    try:
        Schedule.from_json(text)
    except (ValueError, RecursionError) as error:
        assert str(error)


schedule_texts = damaged(st.sampled_from([Schedule(0.02, ((Slot((1, 0, -1), 0.5),), ())).to_json().encode(), b'{"delta_s": 1, "switches": [[]]}',
                                          b"[]", b"null"])).map(lambda data: data.decode("latin-1"))
KINDS = {"demand file": (demand_files, lambda case: try_demand(*case)), "config": (yaml_texts, try_config),
         "command line": (st.lists(options | values, max_size=6), try_command_line), "schedule.json": (schedule_texts, try_schedule)}


@pytest.mark.parametrize("kind", KINDS)
def test_anything_is_taken_or_refused_in_one_line(kind):
    strategy, attempt = KINDS[kind]
    SOME(given(strategy)(attempt))()


def test_a_config_that_grows_by_aliases_is_refused(tmp_path):
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"] + [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 9)]
    (tmp_path / "config.yaml").write_text("\n".join(levels) + "\ndemand: *a8\n")
    with pytest.raises(UserError, match="aliases"):
        load({}, str(tmp_path / "config.yaml"))


def test_a_demand_of_ten_gigabytes_is_refused_by_its_header(tmp_path):
    path = tmp_path / "large.npy"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (36000, 36000)})
    with path.open("wb") as stream:
        stream.write(header.getvalue())
        stream.truncate(len(header.getvalue()) + 36000 * 36000 * 8)  # sparse: no disk is needed
    with pytest.raises(UserError, match="36000 hosts; at most 4096"):
        demand.demand_of(Settings(demand=str(path)))
    text = tmp_path / "large.csv"
    with text.open("wb") as stream:
        stream.truncate(10 << 30)
    with pytest.raises(UserError, match="larger than 512 MiB"):
        demand.demand_of(Settings(demand=str(text)))
    with text.open("wb") as stream:
        stream.truncate(100 << 20)
    with pytest.raises(UserError, match="line 1 is longer than"):
        demand.demand_of(Settings(demand=str(text)))


def test_a_zip_bomb_is_refused_by_its_header(tmp_path):
    path = tmp_path / "bomb.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (30000, 30000)})
    path.write_bytes(npz([("demand.npy", header.getvalue() + bytes(64 << 20))]))
    with pytest.raises(UserError, match="30000 hosts; at most 4096"):
        demand.demand_of(Settings(demand=str(path)))


@pytest.mark.parametrize("option", ["--demand", "--config"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, option):
    path = str(tmp_path / "pipe.csv")
    os.mkfifo(path)
    with pytest.raises(UserError, match="no regular file"):
        demand.demand_of(Settings(demand=path)) if option == "--demand" else load({}, path)
