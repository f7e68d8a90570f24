"""What a run is asked to do: the command line and the configuration file, checked before anything is started."""

import os
import shlex
import stat
from typing import Annotated, Literal, Optional

import pydantic
import yaml

from controller.scheduling.registry import SCHEDULERS
from testbed.errors import UserError, explain, nearest
from testbed.machine import PYTHON
from testbed.units import parse_rate_bps, parse_time_s
from topologies.parallel_ocs import MAX_SWITCHES

MAX_HOSTS = 4096
_MAX_CONFIG_CHARACTERS = 64 << 10
LINK_DELAY_MAX_S = 0.001  # a unit leaves 3 ms before the end of its place on the link


def _no_truth(value):
    """YAML reads `yes` and `true` as numbers would be read; here they are none."""
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not a whole number")
    return value


_Seconds = Annotated[float, pydantic.BeforeValidator(parse_time_s), pydantic.Field(gt=0)]
_SecondsOrZero = Annotated[float, pydantic.BeforeValidator(parse_time_s), pydantic.Field(ge=0)]
_Whole = Annotated[int, pydantic.BeforeValidator(_no_truth)]
_Rate = Annotated[float, pydantic.BeforeValidator(parse_rate_bps), pydantic.Field(gt=0)]


class Settings(pydantic.BaseModel):
    """All settings of a run, in base units. The names are those of the command line and of the configuration file."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    demand: str = "gpt"
    hosts: Optional[Annotated[_Whole, pydantic.Field(ge=2, le=MAX_HOSTS)]] = None
    switches: Annotated[_Whole, pydantic.Field(ge=1, le=MAX_SWITCHES)] = 2
    delta: _Seconds = 0.020
    period: Optional[_Seconds] = None
    rate: Optional[_Rate] = None
    physical_rate: Optional[_Rate] = None
    physical_delta: Optional[_Seconds] = None
    scheduler: str = "spectra"
    plan_time: Optional[_Seconds] = None
    plan_steps: Optional[Annotated[_Whole, pydantic.Field(ge=0)]] = None
    min_slot: Optional[_SecondsOrZero] = None
    seed: Annotated[_Whole, pydantic.Field(ge=0, lt=2**63)] = 0
    out: Optional[str] = None
    normalised: bool = False
    ignore_diagonal: bool = False
    framework: Literal["os-ken", "ryu"] = "os-ken"
    datapath: Optional[Literal["kernel", "user"]] = None
    link_delay: Optional[Annotated[_Seconds, pydantic.Field(le=LINK_DELAY_MAX_S)]] = None
    dry_run: bool = False
    json_only: Annotated[bool, pydantic.Field(alias="json")] = False
    quiet: bool = False
    plots: bool = False
    cli: bool = False
    pcap: tuple[str, ...] = ()
    fault: tuple[str, ...] = ()
    no_wait: bool = False

    @pydantic.field_validator("scheduler")
    @classmethod
    def _known(cls, name):
        if name not in SCHEDULERS:
            raise ValueError(f"unknown scheduler {name!r}{nearest(name, SCHEDULERS)}")
        return name

    def command(self, period_s, rate_bps):
        """The command that runs this again, on any machine.

        Parameters
        ----------
        period_s : float or None
            What was chosen where it was left open; None for a demand in bytes.
        rate_bps : float

        Returns
        -------
        str
        """
        values = self.model_dump(exclude={"out", "dry_run", "json_only", "quiet", "plots", "cli", "pcap", "no_wait"}, exclude_defaults=True)
        values = {"demand": self.demand, **values, "rate": rate_bps}
        if period_s is not None:
            values["period"] = period_s
        if self.demand.endswith((".csv", ".tsv", ".npy", ".npz")):
            values["demand"] = os.path.abspath(self.demand)
        words = [PYTHON, "testbed/run.py"]
        for name, value in values.items():
            for one in value if isinstance(value, tuple) else (value,):
                words.append("--" + name.replace("_", "-"))
                if one is not True:
                    words.append(f"{one:.15g}" if isinstance(one, float) else str(one))
        return "sudo " + shlex.join(words)

    @pydantic.model_validator(mode="after")
    def _physical(self):
        searching = [f"--{name.replace('_', '-')}" for name in ("plan_time", "plan_steps", "min_slot") if getattr(self, name) is not None]
        if searching and self.scheduler != "spectra-plus":
            raise ValueError(f"{searching[0]} is of --scheduler spectra-plus only, not of {self.scheduler}")
        if self.plan_time is not None and self.plan_steps is not None:
            raise ValueError("--plan-time and --plan-steps exclude each other: the search ends by one of them")
        if self.cli and self.json_only:
            raise ValueError("--cli and --json exclude each other: standard output cannot be both")
        if (self.physical_rate is None) != (self.physical_delta is None):
            raise ValueError("--physical-rate and --physical-delta go together: give both")
        if self.physical_rate is not None:
            given = [name for name in ("delta", "period") if name in self.model_fields_set]
            if given:
                raise ValueError(f"--{given[0]} and --physical-rate exclude each other: with physical values the testbed "
                                 "chooses its own time scale")
            if self.normalised:
                raise ValueError("--normalised and --physical-rate exclude each other: give the demand in bytes")
        return self


def load(options, config=None):
    """Settings from options given on the command line and a configuration file; the command line wins.

    Parameters
    ----------
    options : dict
        By setting name, only what was given.
    config : str, optional
        Path of a YAML file.

    Returns
    -------
    Settings

    Raises
    ------
    UserError
        It names the option, or the file and key.
    """
    from_file = _read_config(config) if config is not None else {}
    values = {**from_file, **options}
    try:
        return Settings.model_validate(values)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:
            raise UserError(explain(first)) from None
        key = str(first["loc"][0])
        where = f"--{key.replace('_', '-')}" if key in options else f"--config {config}, key {key!r}"
        raise UserError(f"{where}: {explain(first)}") from None


def _read_config(path):
    try:
        if not os.path.isdir(path) and not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would never end
            raise UserError(f"--config {path}: this is no regular file")
        with open(path, encoding="utf-8") as stream:
            text = stream.read(_MAX_CONFIG_CHARACTERS + 1)
        if len(text) > _MAX_CONFIG_CHARACTERS:
            raise UserError(f"--config {path}: larger than {_MAX_CONFIG_CHARACTERS >> 10} KiB: this is no configuration")
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, yaml.SafeLoader)):
            raise UserError(f"--config {path}: YAML aliases (*name) are not read here; write the value out")
        values = yaml.safe_load(text)
    except OSError as error:
        raise UserError(f"--config {path}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"--config {path}: this is no YAML ({' '.join(str(error).split())})") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"--config {path}: expected settings as `name: value`, found a {type(values).__name__}")
    known = [info.alias or name for name, info in Settings.model_fields.items()]
    result = {}
    for key, value in values.items():
        name = str(key).replace("-", "_")
        if name not in known:
            raise UserError(f"--config {path}: unknown key {key!r}"
                            f"{nearest(name, [item.replace('_', '-') for item in known])}")
        result[name] = value
    return result
