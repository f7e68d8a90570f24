"""Faults as people write them, and schedules around what has failed."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from controller.scheduling.registry import SCHEDULERS
from controller.scheduling.schedule import Schedule, Slot
from testbed import faults, run
from testbed.errors import BAD_INPUT, DELIVERED, UserError
from testbed.faults import FORMS, Fault, parse
from testbed.recovery import NOTHING_ARRIVES, Notice, Survivors, schedule_around

SCHEDULE = Schedule(0.5, ((Slot((1, 0), 2.0), Slot((-1, 0), 1.0)), (Slot((1, 0), 4.0),)))


@pytest.mark.parametrize("text, expected", [
    ("switch 1 dies at 1.2s", ("dies", 1.2, 1, None, None, None)),
    ("switch o1  sticks at slot 2", ("sticks", 3.0, 0, None, None, None)),  # 0.5 + 2 + 0.5
    ("switch 0 slow by 15ms", ("slow", 0.0, 0, None, 0.015, None)),
    ("link h2-o1 down for 300ms at slot 1", ("down", 0.5, 0, 1, 0.3, None)),
    ("port h1-o2 loses 2%", ("loses", 0.0, 1, 0, None, 0.02)),
    ("port h1-o2 loses 0.5 % at 1s", ("loses", 1.0, 1, 0, None, 0.005)),
    ("controller restarts at slot 1 of switch o2", ("restarts", 0.5, None, None, None, None)),
    ("agent h2 dies at 500ms", ("agent", 0.5, None, 1, None, None)),
])
def test_forms(text, expected):
    assert parse(text, 2, SCHEDULE) == Fault(text, *expected)


def test_the_forms_shown_are_all_kinds():
    schedule = Schedule(0.5, (SCHEDULE.switches[0],) * 3)
    assert {parse(form, 8, schedule).kind for form in FORMS} == set(faults._KINDS)


@pytest.mark.parametrize("text, words", [
    ("switch 2 dies", "there is no switch 2; the switches are 0 to 1, or o1 to o2"),
    ("switch o0 dies", "there is no switch o0"),
    ("agent h3 dies", "there is no host h3; the hosts are h1 to h2"),
    ("agent h0 dies", "there is no host h0"),
    ("switch 0 explodes", "this is no fault; write it like one of: switch 2 dies at 1.2s;"),
    ("", "this is no fault"),
    ("switch 0 dies at slot 3", "switch o1 has 2 slots, counted from 1"),
    ("switch 0 dies at slot 0", "counted from 1"),
    ("switch 0 dies at tea", "'tea' is not a time"),
    ("switch 0 dies at -1s", "a time before the epoch"),
    ("switch 0 slow by 3lightyears", "unit 'lightyears'"),
    ("switch 0 slow by 0ms", "more than 0"),
    ("port h1-o1 loses 0%", "more than 0 % and at most 100 %"),
    ("port h1-o1 loses 101%", "more than 0 % and at most 100 %"),
    ("controller restarts at slot 1 of switch 7", "there is no switch 7"),
])
def test_what_is_no_fault_is_refused(text, words):
    with pytest.raises(UserError, match=".*") as raised:
        parse(text, 2, SCHEDULE)
    assert words in str(raised.value) and "\n" not in str(raised.value)


@given(st.text(st.characters(codec="utf-8"), max_size=40) | st.from_regex("(switch|link|port|agent|controller) .{0,30}", fullmatch=True))
def test_any_text_is_a_fault_or_refused(text):
    try:
        parse(text, 2, SCHEDULE)
    except UserError:
        pass


def test_faults_are_checked_before_the_start(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run.main(["--dry-run", "--hosts", "4", "--fault", "switch 7 dies", "--out", "out"]) == BAD_INPUT
    assert "there is no switch 7" in capsys.readouterr().err and not (tmp_path / "out").exists()
    (tmp_path / "config.yaml").write_text("fault: [switch 1 dies at 1s, agent h2 dies]\n")
    assert run.main(["--dry-run", "--hosts", "4", "--config", "config.yaml", "--out", "out"]) == DELIVERED
    assert "--fault 'switch 1 dies at 1s' --fault 'agent h2 dies'" in (tmp_path / "out" / "result.json").read_text()


@st.composite
def broken(draw):
    """A demand, and what is left of a network that can serve all of it."""
    hosts, switches = draw(st.integers(2, 6)), draw(st.integers(1, 4))
    survivors = Survivors(hosts, switches)
    for _ in range(draw(st.integers(0, 4))):
        survivors.ports_out.add((draw(st.integers(0, hosts - 1)), draw(st.integers(0, switches - 1))))
    if switches > 1 and draw(st.booleans()):
        survivors.switches_out.add(draw(st.integers(0, switches - 1)))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    demand_s = random.random((hosts, hosts)) * (random.random((hosts, hosts)) < 0.6) * survivors.usable().any(axis=0)
    return demand_s, survivors


@given(broken(), st.sampled_from(["spectra", "less", "rotor", "solstice"]))
def test_schedule_around_covers_all_and_uses_only_what_is_left(case, scheduler):
    demand_s, survivors = case
    if not demand_s.any():
        return
    schedule = schedule_around(demand_s, 0.01, SCHEDULERS[scheduler], survivors)
    assert schedule.covers(demand_s) and len(schedule.switches) == survivors.switches
    usable = survivors.usable()
    for h, slots in enumerate(schedule.switches):
        assert all(usable[h, i, j] for slot in slots for i, j in slot.circuits())


def test_survivors_take_notices():
    survivors = Survivors(4, 3)
    assert survivors.take(Notice(1.0, "switch", "echo", switch=2)) and survivors.alive == [0, 1]
    assert not survivors.take(Notice(1.0, "switch", "echo", switch=2))
    assert survivors.take(Notice(1.0, "port", "status", switch=0, host=1))
    usable = survivors.usable()
    assert not usable[2].any() and not usable[0, 1].any() and not usable[0, :, 1].any() and usable[1].all() and usable[0, 0, 2]
    assert survivors.take(Notice(2.0, "port", "status", switch=0, host=1, back=True)) and survivors.usable()[0].all()
    assert not survivors.take(Notice(2.0, "agent", "sends nothing", host=1))
    assert survivors.lower_bound_s(np.full((4, 4), 1.0), 0.5) == pytest.approx(2.0 + 4 * 0.5 / 2)


def test_what_is_only_suspected_can_be_tried_again():
    survivors = Survivors(4, 2)
    assert not survivors.readmit()
    for notice in (Notice(1.0, "switch", NOTHING_ARRIVES, switch=0), Notice(1.0, "port", NOTHING_ARRIVES, switch=1, host=2),
                   Notice(1.0, "switch", "connection closed", switch=1), Notice(1.0, "port", NOTHING_ARRIVES, switch=0, host=3),
                   Notice(1.1, "port", "port status", switch=0, host=3), Notice(1.2, "switch", NOTHING_ARRIVES, switch=1)):
        survivors.take(notice)
    assert survivors.readmit() and survivors.switches_out == {1} and survivors.ports_out == {(3, 0)}
    assert not survivors.readmit()
    survivors.take(Notice(2.0, "switch", NOTHING_ARRIVES, switch=0))
    survivors.take(Notice(2.1, "switch", "no echo reply", switch=0))
    assert not survivors.readmit() and survivors.alive == []


@pytest.mark.parametrize("notice, fault, explained", [
    (Notice(1.0, "agent", "it takes nothing", host=1), "switch 0 sticks", True),
    (Notice(1.0, "agent", "it takes nothing", host=1), "link h2-o1 down for 1s", True),
    (Notice(1.0, "agent", "it takes nothing", host=1), "link h1-o1 down for 1s", False),
    (Notice(1.0, "agent", "the receiver ended"), "switch 0 sticks", False),
    (Notice(1.0, "port", "port status", host=0, switch=0), "switch 0 dies", True),
    (Notice(1.0, "switch", NOTHING_ARRIVES, switch=0), "port h1-o1 loses 90%", True),
    (Notice(1.0, "switch", "connection closed", switch=0), "port h1-o1 loses 90%", False),
    (Notice(1.0, "switch", NOTHING_ARRIVES, switch=1), "switch 0 dies", False),
])
def test_what_a_fault_explains(notice, fault, explained):
    assert notice.explained_by(parse(fault, 2, SCHEDULE)) is explained
