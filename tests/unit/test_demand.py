"""Demand files: what is read, and what is refused in one line that says where."""

import io
import zipfile

import numpy as np
import pytest

from testbed.demand import demand_of, is_normalised
from testbed.errors import UserError
from testbed.settings import load
from testbed.workloads import generate

MATRIX = np.array([[0, 10, 20], [30, 0, 40], [50, 60, 0]])
TEXT = "0,10,20\n30,0,40\n50,60,0\n"


@pytest.fixture
def write(tmp_path):
    """Writes a file of text, bytes or an array by its suffix, and returns its path."""
    def write_file(name, content):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        elif isinstance(content, dict):
            np.savez(path, **content)
        else:
            np.save(path, content)
        return str(path)
    return write_file


def read(path, **options):
    return demand_of(load({"demand": path, **options}))


def refused(path, **options):
    """The message that a demand is refused with: one line that names it."""
    with pytest.raises(UserError) as caught:
        read(path, **options)
    message = str(caught.value)
    assert message.startswith(f"--demand {path}: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name, content", [
    ("mine.csv", TEXT),
    ("mine.csv", "\ufeff" + TEXT),
    ("mine.csv", TEXT.replace("\n", "\r\n")),
    ("mine.csv", " 0, 10 ,20\n\n30,0,4e1\n50,60,0"),
    ("mine.tsv", TEXT.replace(",", "\t")),
    ("mine.npy", MATRIX),
    ("mine.npy", MATRIX.astype(float)),
    ("mine.npy", MATRIX.astype("uint8")),
    ("mine.npy", np.asfortranarray(MATRIX)),
    ("mine.npz", {"anything": MATRIX}),
    ("mine.npz", {"other": np.ones(3), "demand": MATRIX}),
])
def test_good_file(write, name, content):
    name, demand = read(write(name, content))
    assert (name, demand.tolist()) == ("mine", MATRIX.tolist())


@pytest.mark.parametrize("text, problem", [
    ("0,10\n20,x1\n", "row 2, column 2: 'x1' is not a number"),
    ("0,,1\n1,0,1\n1,1,0\n", "row 1, column 2: '' is not a number"),
    ("0,-1\n1,0\n", "row 1, column 2: -1 is negative"),
    ("0,1\nnan,0\n", "row 2, column 1: nan is not finite"),
    ("0,inf\n1,0\n", "row 1, column 2: inf is not finite"),
    ("0,1e400\n1,0\n", "row 1, column 2: inf is not finite"),
    ("0,1.5\n1,0\n", "row 1, column 2: 1.5 is no whole number of bytes"),
    ("0,1e17\n1,0\n", "row 1, column 2: 1e+17 is more than 2^53 bytes"),
    ("0,1\n1,7\n", "row 2, column 2: 7 is on the diagonal"),
    ("0,1,2\n1,0,2\n", "not square: 2 rows, but row 1 has 3 columns"),
    ("0,1\n1\n", "not square: 2 rows, but row 2 has 1 columns"),
    ("", "the file is empty"),
    ("\n , \n", "the file is empty"),
    ("0,0\n0,0\n", "all zero"),
    ("0\n", "1 host; at least 2 are needed"),
    (b"\xff\xfe0\x00,\x001\x00", "no text table"),
    ("0," + "1" * 200_000 + "\n1,0\n", "no text table"),
])
def test_bad_text_file(write, text, problem):
    assert problem in refused(write("bad.csv", text))


def test_error_in_tsv_names_row_and_column(write):
    assert "row 1, column 2: 'x' is not a number" in refused(write("bad.tsv", "0\tx\n1\t0\n"))


@pytest.mark.parametrize("array, problem", [
    (np.ones((2, 3)), "not square: its shape is (2, 3)"),
    (np.ones(4), "not square: its shape is (4,)"),
    (np.ones((2, 2, 2)), "not square: its shape is (2, 2, 2)"),
    (np.array([[0.0, np.nan], [1.0, 0.0]]), "row 1, column 2: nan is not finite"),
    (np.array([[0, -1], [1, 0]]), "row 1, column 2: -1 is negative"),
    (np.array([["0", "1"], ["1", "0"]]), "not numbers"),
    (np.array([[0, 1j], [1, 0]]), "not numbers"),
    (np.zeros((2, 2)), "all zero"),
    (np.zeros((0, 0)), "0 host"),
])
def test_bad_array_file(write, array, problem):
    assert problem in refused(write("bad.npy", array))
    assert problem in refused(write("bad.npz", {"demand": array}))


class Trap:
    """A pickle of it fails the test that loads it."""

    def __reduce__(self):
        return pytest.fail, ("the pickle was loaded",)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_pickle_is_refused_and_not_loaded(tmp_path, suffix):
    path = str(tmp_path / f"trap{suffix}")
    array = np.full((2, 2), Trap(), dtype=object)
    if suffix == ".npy":
        np.save(path, array, allow_pickle=True)
    else:
        np.savez(path, array)
    assert "Python objects (a pickle)" in refused(path)


def test_npz_with_two_arrays_is_refused(write):
    assert "2 arrays in it" in refused(write("two.npz", {"a": MATRIX, "b": MATRIX}))


def test_npz_without_arrays_is_refused(tmp_path):
    path = str(tmp_path / "none.npz")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "nothing here")
    assert "0 arrays in it" in refused(path)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"\x93NUMPY\x01\x00", b"PK\x03\x04"])
def test_garbage_array_file_is_refused(write, suffix, content):
    assert f"not readable as {suffix}" in refused(write(f"bad{suffix}", content))


def test_truncated_array_file_is_refused(write):
    whole = io.BytesIO()
    np.save(whole, MATRIX)
    for length in range(len(whole.getvalue())):
        assert "not readable" in refused(write("cut.npy", whole.getvalue()[:length]))


@pytest.mark.parametrize("suffix, save", [(".npy", np.save), (".npz", np.savez), (".npz", np.savez_compressed)])
def test_damaged_array_file_is_read_or_refused_in_one_line(write, suffix, save):
    """One byte after the other is damaged; where the file still is an array, its numbers can be anything."""
    whole = io.BytesIO()
    save(whole, MATRIX)
    crashes = []
    for place in range(len(whole.getvalue())):
        damaged = bytearray(whole.getvalue())
        damaged[place] ^= 0x83
        try:
            read(write(f"damaged{suffix}", bytes(damaged)))
        except UserError as error:
            assert "\n" not in str(error)
        except Exception as error:  # noqa: BLE001
            crashes.append(f"byte {place}: {type(error).__name__}: {error}")
    assert crashes == []


def test_too_many_hosts_are_refused_by_the_header_alone(tmp_path):
    path = tmp_path / "huge.npy"
    with open(path, "wb") as stream:
        np.lib.format.write_array_header_1_0(
            stream, {"descr": "<f8", "fortran_order": False, "shape": (4097, 4097)})
    assert "4097 hosts; at most 4096" in refused(str(path))


def test_missing_file_is_refused(tmp_path):
    for suffix in (".csv", ".npy", ".npz"):
        assert "No such file or directory" in refused(str(tmp_path / f"no{suffix}"))


def test_directory_is_refused(tmp_path):
    path = tmp_path / "folder.csv"
    path.mkdir()
    assert "Is a directory" in refused(str(path))


def test_unknown_suffix_is_refused_with_those_that_are_known(write):
    assert "use one of .csv, .tsv, .npy, .npz" in refused(write("mine.xlsx", "0,1\n1,0\n"))


def test_unknown_name_is_refused_with_the_nearest_workload():
    assert "neither a workload nor a file; did you mean 'benchmark'?" in refused("benchmrk")


def test_more_hosts_in_the_file_than_asked_for_are_refused(write):
    assert "3 hosts, but --hosts is 2; use --hosts 3" in refused(write("mine.csv", TEXT), hosts="2")


def test_fewer_hosts_in_the_file_leave_the_others_idle(write):
    _, demand = read(write("mine.csv", TEXT), hosts="5")
    assert demand.shape == (5, 5)
    assert np.array_equal(demand[:3, :3], MATRIX)
    assert demand.sum() == MATRIX.sum()


def test_diagonal_can_be_left_out(write):
    _, demand = read(write("mine.csv", "9,1\n2,9\n"), ignore_diagonal=True)
    assert demand.tolist() == [[0, 1], [2, 0]]


def test_nothing_but_a_diagonal_is_all_zero_without_it(write):
    assert "all zero" in refused(write("mine.csv", "9,0\n0,9\n"), ignore_diagonal=True)


def test_fractions_need_normalised(write):
    path = write("mine.csv", "0,0.5\n0.25,0\n")
    assert "use --normalised" in refused(path)
    assert read(path, normalised=True)[1].tolist() == [[0, 0.5], [0.25, 0]]


@pytest.mark.parametrize("options, expected", [
    ({"demand": "moe"}, True), ({"demand": "gpt:tensor=2,noise=0"}, True), ({"demand": "x.csv"}, False),
    ({"demand": "gpt:x.csv"}, False), ({"demand": "moe.npy"}, False), ({"demand": "x.csv", "normalised": True}, True)])
def test_is_normalised(options, expected):
    assert is_normalised(load(options)) is expected


def test_workload_is_generated_for_the_hosts_and_seed():
    name, demand = read("moe", hosts="5", seed="3")
    assert name == "moe"
    assert np.array_equal(demand, generate("moe", 5, 3))


def test_parameters_of_a_workload_are_taken():
    name, demand = read("gpt:tensor=4,noise=0", hosts="8")
    assert name == "gpt:tensor=4,noise=0"
    assert np.array_equal(demand, generate("gpt:tensor=4,noise=0", 8, 0))


@pytest.mark.parametrize("text, problem", [
    ("gpt:tensr=2", "did you mean 'tensor'?"),
    ("gpt:tensor=3", "tensor × pipeline × data is 3 × ? × ?, which does not make 8 hosts"),
    ("moe:skew=-1", "'-1' must be at least 0"),
    ("moe:experts=12", "no multiple of 8 hosts"),
    ("benchmark:large=17", "more than all 16 flows"),
    ("bench:flows=4", "neither a workload nor a file"),
])
def test_parameters_that_are_none_or_do_not_fit_are_refused(text, problem):
    assert problem in refused(text)


def test_workload_has_eight_hosts_by_default():
    assert read("gpt")[1].shape == (8, 8)
