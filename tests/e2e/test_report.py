"""report.html of a real run, in a real browser: what it says, shows, and lets be reached."""

import json
import re

import pytest

from testbed.units import format_bytes, format_time
from tests.browser import PROGRAM, Browser
from tests.unit.test_page import tables

SECTIONS = ["switches", "demand", "delivered", "completion", "budget", "links", "figures", "again"]

# Texts of a chart that lie on one another or beyond its edge, and elements that are wider than the window.
CROWDED = """
(() => {
  const found = [];
  for (const svg of document.querySelectorAll(".chart svg")) {
    const all = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll("text")].filter(text => text.textContent.trim())
      .map(text => [text.textContent, text.getBoundingClientRect()]);
    boxes.forEach(([words, box], index) => {
      if (box.left < all.left - 1 || box.right > all.right + 1 || box.top < all.top - 1 || box.bottom > all.bottom + 1)
        found.push(`${words} is cut`);
      for (const [others, other] of boxes.slice(index + 1))
        if (Math.min(box.right, other.right) - Math.max(box.left, other.left) > 1
            && Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 1) found.push(`${words} on ${others}`);
    });
  }
  const shown = [...document.body.querySelectorAll("*")].filter(element => !element.closest("svg, .scroll, script")
                                                                            && element.checkVisibility());
  for (const element of shown) {
    const box = element.getBoundingClientRect();
    if (box.left < 0 || box.right > document.documentElement.clientWidth + 0.5) found.push(`${element.tagName} is cut`);
  }
  const blocks = [...document.querySelectorAll("section, .card")].map(block => [block, block.getBoundingClientRect()]);
  for (const [block, box] of blocks) for (const [other, more] of blocks)
    if (block !== other && Math.min(box.right, more.right) - Math.max(box.left, more.left) > 1
        && Math.min(box.bottom, more.bottom) - Math.max(box.top, more.top) > 1) found.push(`${block.id} on ${other.id}`);
  return found;
})()
"""


@pytest.fixture(scope="module")
def done(start_runs):
    """A run that everything here is asked of."""
    return start_runs("--demand", "benchmark", "--hosts", "8", "--switches", "3").finish()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not PROGRAM:
        pytest.skip("no chromium: sudo vagrant/provision.sh --tests")
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize("width", [400, 1600])
@pytest.mark.parametrize("dark", [False, True])
def test_page_is_whole_quiet_and_alone(done, browser, width, dark):
    browser.open(done.folder / "report.html", width, dark=dark)
    assert browser.run("[...document.querySelectorAll('section')].map(section => section.id)") == SECTIONS
    assert browser.run(CROWDED) == []
    schemes = {event["request"]["url"].partition(":")[0] for event in browser.events("Network.requestWillBeSent")}
    assert schemes <= {"file", "data"}
    said = browser.events("Log.entryAdded") + browser.events("Runtime.consoleAPICalled")
    assert said + browser.events("Runtime.exceptionThrown") == []


def test_a_crowded_page_would_be_noticed(done, browser):
    browser.open(done.folder / "report.html", 400)
    browser.run("document.querySelector('#budget text').textContent = 'far too many words '.repeat(9)")
    browser.run("document.querySelector('#figures').style.width = '500px'")
    found = " ".join(browser.run(CROWDED))
    assert "far too many words" in found and "SECTION is cut" in found


def test_pointer_and_keyboard_reach_the_same_facts(done, browser):
    browser.open(done.folder / "report.html", 1600)
    count = browser.run("document.querySelectorAll('[data-fact]').length")
    schedule = json.loads((done.folder / "schedule.json").read_text())
    assert count == 2 * sum(len(slots) for slots in schedule["switches"])
    told = "document.querySelector('#switches .detail').textContent"
    pointed = []
    for index in range(count):
        x, y = browser.run(f"""(() => {{ const slot = document.querySelectorAll('[data-fact]')[{index}];
            slot.scrollIntoView({{block: "center"}}); const box = slot.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2]; }})()""")
        browser.point(x, y)
        pointed.append(browser.run(told))
    browser.point(1, 1)
    for _ in range(20):
        browser.press("Tab")
        if browser.run("document.activeElement.hasAttribute('data-fact')"):
            break
    reached = [browser.run(told)]
    for _ in range(count - 1):
        browser.press("ArrowRight")
        reached.append(browser.run(told))
    assert pointed == reached and len(set(reached)) == count
    facts = " ".join(reached)
    for h, slots in enumerate(schedule["switches"]):
        for k, slot in enumerate(slots):
            circuits = ", ".join(f"h{i + 1}→h{j + 1}" for i, j in enumerate(slot["permutation"]) if j >= 0)
            assert re.search(f"o{h + 1}, slot {k + 1}, planned: [^;]*; {re.escape(circuits)} ", facts + " ")
    browser.press("Home")
    assert browser.run(told) == reached[0]
    browser.press("Tab")
    assert not browser.run("document.activeElement.hasAttribute('data-fact')")  # one stop of the Tab key, not dozens


def test_numbers_are_those_of_the_result_and_the_events(done):
    text = (done.folder / "report.html").read_text()
    cards, rows = dict(re.findall(r'<div class="card">(.*?)<b[^>]*>(.*?)</b>', text)), tables(text)
    result = done.result
    for name in ("computed", "predicted", "measured"):
        assert cards[f"{name} makespan"] == format_time(result[f"{name}_makespan_s"])
    assert cards["lower bound"] == format_time(result["lower_bound_s"])
    assert cards["verdict"] == ("trustworthy" if result["trustworthy"] else "not trustworthy")
    assert rows["delivered"][1:] == [
        [f"{event['t_s']:.3f} s", format_bytes(event["delivered_bytes"]), format_bytes(event["ideal_bytes"])]
        for event in done.events("progress")]
    assert rows["completion"][1:] == [
        [f"h{event['input'] + 1}", f"h{event['output'] + 1}", f"{event['bytes']:,}", f"{event['t_s']:.4f} s"]
        for event in done.events("pair")]
    demand = {(f"h{i + 1}", f"h{j + 1}"): f"{int(cell):,}"
              for i, line in enumerate((done.folder / "demand.csv").read_text().splitlines())
              for j, cell in enumerate(line.split(",")) if int(cell)}
    assert {(i, j): bytes_ for i, j, bytes_ in rows["demand"][1:]} == demand
    budget = dict(rows["budget"][1:])
    assert budget["in all"] == f"{result['difference_s']['total'] * 1e3:+.3f}"
    assert budget["switching latency"] == f"{result['difference_s']['switching_latency'] * 1e3:+.3f}"
    figures = dict(rows["figures"])
    assert figures["measured / predicted"] == f"{result['measured_over_predicted']:.4f}"
    assert figures["delivered"].startswith(format_bytes(result["delivered_bytes"]))
    carried = {}
    for event in done.events("circuit"):
        carried[event["switch"]] = carried.get(event["switch"], 0) + event["bytes"]
    for h, bytes_ in carried.items():
        shares = next(row for row in rows["links"] if row[0] == f"o{h + 1} in")[1:]
        total = bytes_ * 8 / result["rate_bps"] / result["measured_makespan_s"]
        assert sum(float(share) for share in shares) == pytest.approx(total, abs=0.0005 * len(shares))
