"""Command line and configuration file: what is taken, and what is refused in one line."""

import pytest

from testbed.errors import UserError
from testbed.errors import nearest
from testbed.settings import load


@pytest.fixture
def config(tmp_path):
    """Writes a configuration file and returns its path."""
    def write(text):
        path = tmp_path / "run.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)
    return write


def refused(options, config=None):
    """The message that these settings are refused with: one line."""
    with pytest.raises(UserError) as caught:
        load(options, config)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_defaults():
    settings = load({})
    assert (settings.demand, settings.hosts, settings.switches, settings.scheduler) == ("gpt", None, 2, "spectra")
    assert (settings.delta, settings.rate, settings.seed) == (0.020, None, 0)
    assert not (settings.dry_run or settings.json_only or settings.quiet or settings.normalised)


def test_options_are_read_with_their_units():
    settings = load({"hosts": "16", "switches": "4", "delta": "5ms", "period": "2s", "rate": "20Mbit", "seed": "7"})
    assert (settings.hosts, settings.switches, settings.seed) == (16, 4, 7)
    assert (settings.delta, settings.period, settings.rate) == (0.005, 2.0, 20e6)


def test_config_file_holds_the_same_names(config):
    path = config("demand: moe\nhosts: 16\ndelta: 5ms\nrate: 20Mbit\nperiod: 1.5\ndry-run: true\njson: true\n")
    settings = load({}, path)
    assert (settings.demand, settings.hosts, settings.delta, settings.rate) == ("moe", 16, 0.005, 20e6)
    assert (settings.period, settings.dry_run, settings.json_only) == (1.5, True, True)


def test_command_line_wins_over_config(config):
    settings = load({"hosts": "4"}, config("hosts: 16\nseed: 3\n"))
    assert (settings.hosts, settings.seed) == (4, 3)


def test_command_line_wins_over_a_bad_value_in_config(config):
    assert load({"hosts": "4"}, config("hosts: many\n")).hosts == 4


def test_empty_config_is_no_settings(config):
    assert load({}, config("# nothing yet\n")) == load({})


@pytest.mark.parametrize("option, value, problem", [
    ("delta", "0", "greater than 0"),
    ("delta", "-1ms", "greater than 0"),
    ("delta", "nan", "is not a time"),
    ("delta", "inf", "is not a time"),
    ("delta", "20 parsecs", "ns, us, µs, ms, s, min"),
    ("period", "0s", "greater than 0"),
    ("rate", "0", "greater than 0"),
    ("rate", "20MB", "bit, kbit, Mbit, Gbit, Tbit"),
    ("switches", "0", "1"),
    ("switches", "33", "32"),
    ("switches", "two", "'two'"),
    ("hosts", "1", "2"),
    ("hosts", "4097", "4096"),
    ("hosts", "8.5", "'8.5'"),
    ("hosts", "", "''"),
    ("hosts", "9" * 5000, "--hosts"),
    ("seed", "-1", "0"),
    ("seed", str(2**63), str(2**63)),
    ("scheduler", "spektra", "did you mean 'spectra'?"),
    ("scheduler", "", "spectra"),
    ("framework", "pox", "os-ken"),
])
def test_bad_option_is_refused_by_name(option, value, problem):
    message = refused({option: value})
    assert message.startswith(f"--{option}: ")
    assert problem in message


@pytest.mark.parametrize("line, key", [
    ("delta: 0", "delta"),
    ("delta: .nan", "delta"),
    ("delta: [20ms]", "delta"),
    ("delta: true", "delta"),
    ("delta: null", "delta"),
    pytest.param(f"delta: 1{'0' * 400}", "delta", id="delta: 1e400"),
    ("rate: {}", "rate"),
    ("hosts: 1", "hosts"),
    ("hosts: 8.5", "hosts"),
    ("hosts: .inf", "hosts"),
    ("switches: 33", "switches"),
    ("switches: true", "switches"),
    ("seed: yes", "seed"),
    ("demand: 5", "demand"),
    ("demand: null", "demand"),
    ("out: [a, b]", "out"),
    ("quiet: maybe", "quiet"),
    ("scheduler: spektra", "scheduler"),
    ('scheduler: "two\\nlines"', "scheduler"),
])
def test_bad_value_in_config_is_refused_by_file_and_key(config, line, key):
    path = config(line)
    message = refused({}, path)
    assert f"{path}, key {key!r}: " in message


def test_physical_rate_and_delta_are_taken_together():
    settings = load({"physical_rate": "100Gbit", "physical_delta": "10us"})
    assert (settings.physical_rate, settings.physical_delta) == (100e9, pytest.approx(1e-5))


@pytest.mark.parametrize("options, named", [
    ({"physical_rate": "100Gbit"}, "--physical-delta"),
    ({"physical_delta": "10us"}, "--physical-rate"),
    ({"physical_rate": "100Gbit", "physical_delta": "10us", "delta": "20ms"}, "--delta"),
    ({"physical_rate": "100Gbit", "physical_delta": "10us", "period": "2s"}, "--period"),
    ({"physical_rate": "100Gbit", "physical_delta": "10us", "normalised": True}, "--normalised"),
])
def test_physical_options_that_do_not_fit_are_refused_by_name(options, named):
    assert named in refused(options)


def test_config_is_blamed_only_for_its_own_keys(config):
    assert refused({"delta": "0"}, config("hosts: 8")).startswith("--delta: ")


@pytest.mark.parametrize("line, suggestion", [
    ("perod: 2s", "did you mean 'period'?"),
    ("dryrun: true", "did you mean 'dry-run'?"),
    ("json_only: true", "did you mean 'json'?"),
    ("5: 5", "known: demand, hosts, switches"),
])
def test_unknown_key_names_file_and_nearest(config, line, suggestion):
    path = config(line)
    message = refused({}, path)
    assert message.startswith(f"--config {path}: unknown key ")
    assert message.partition("; ")[2].startswith(suggestion)


@pytest.mark.parametrize("text, problem", [
    ("- hosts: 8", "found a list"),
    ("hosts", "found a str"),
    ("a: b: c", "no YAML"),
    ("[", "no YAML"),
    ("? [a]\n: b", "no YAML"),
    ("hosts: \x00", "no YAML"),
    ("!!python/object:os.system {}", "no YAML"),
    ("seed: 2024-13-45", ""),
    ("hosts: 0x_", ""),
    pytest.param("hosts: " + "1" * 5000, "", id="hosts: 5000 digits"),
])
def test_config_that_is_no_yaml_mapping_is_refused_by_file(config, text, problem):
    path = config(text)
    message = refused({}, path)
    assert path in message
    assert problem in message


def test_config_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_bytes(b"\xff\xfe\x80")
    assert f"{path}: this is no YAML" in refused({}, str(path))


def test_missing_config_is_refused(tmp_path):
    assert refused({}, str(tmp_path / "no.yaml")) == f"--config {tmp_path}/no.yaml: No such file or directory"


def test_directory_as_config_is_refused(tmp_path):
    assert refused({}, str(tmp_path)) == f"--config {tmp_path}: Is a directory"


def test_nearest_lists_all_where_none_is_near():
    assert nearest("gtp", ["gpt", "moe"]) == "; did you mean 'gpt'?"
    assert nearest("xyz", ["gpt", "moe"]) == "; known: gpt, moe"
