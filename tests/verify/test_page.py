"""The page of a verdict in a real browser: what it draws, where things stand, in light and dark, wide and narrow."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accelify.verify.report import html
from accelify.verify.verdict import Verdict
from tests.verify.test_report import DIFFERS

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
    ),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
)
# What a script in the page can see of it, left in the page's own text for us.
LOOK = """<script>addEventListener("load", () => {
const box = query => document.querySelector(query).getBoundingClientRect().toJSON();
const style = (node, name) => getComputedStyle(node)[name];
document.title = JSON.stringify({
  loaded: performance.getEntriesByType("resource").length,
  overflow: document.documentElement.scrollWidth - innerWidth,
  cut: (pre => pre.scrollWidth - pre.clientWidth)(document.querySelector("pre")),
  chart: box("svg"), diff: box("pre"),
  curves: [...document.querySelectorAll("path")].map(path => ({
    length: path.getTotalLength(), colour: style(path, "stroke"), width: parseFloat(style(path, "strokeWidth"))})),
  label: box("svg text").height, word: [...document.querySelector(".word").getClientRects()].length,
  page: style(document.body, "backgroundColor"), ink: style(document.body, "color"),
  removed: style(document.querySelector(".del"), "backgroundColor"),
  differs: style(document.querySelector(".differs td"), "backgroundColor"),
})});</script>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium here")


def seen(folder: Path, width: int, *flags: str, verdict: Verdict = DIFFERS) -> dict[str, Any]:
    """The facts that the page's script finds in a window of that width."""
    page = folder / "report.html"
    page.write_text(html.render(verdict).replace("</body>", f"{LOOK}</body>"), encoding="utf-8")
    own = (f"--user-data-dir={folder / 'browser'}", f"--window-size={width},900", "--virtual-time-budget=2000")
    done = subprocess.run(
        [str(BROWSER), *FLAGS, *own, *flags, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title, done.stderr
    facts: dict[str, Any] = json.loads(title[1])
    return facts


def brightness(colour: str) -> float:
    return sum(float(number) for number in re.findall(r"[\d.]+", colour)[:3])


def test_curves_lie_over_each_other_with_the_change_beside_them(tmp_path: Path) -> None:
    facts = seen(tmp_path, 1280)
    assert facts["loaded"] == 0
    assert facts["overflow"] <= 0
    assert facts["chart"]["right"] <= facts["diff"]["left"]
    assert facts["chart"]["top"] < facts["diff"]["bottom"]
    curves = facts["curves"]
    assert len({curve["colour"] for curve in curves}) == 3
    widths = [curve["width"] for curve in curves]
    assert widths == sorted(widths, reverse=True)  # what is drawn later covers less
    assert len(set(widths)) == 3
    assert max(curve["length"] for curve in curves) > 300
    assert brightness(facts["page"]) > brightness(facts["ink"])
    assert facts["removed"] == facts["differs"] != facts["page"]


def test_in_a_narrow_window_the_change_comes_below(tmp_path: Path) -> None:
    facts = seen(tmp_path, 500)
    assert facts["overflow"] <= 0
    assert facts["label"] > 10  # of the chart, which is drawn smaller than in a wide window
    assert facts["word"] == 1
    assert facts["diff"]["top"] >= facts["chart"]["bottom"]


def test_long_lines_of_the_change_are_wrapped(tmp_path: Path) -> None:
    diff = f"{DIFFERS.diff}+loader = accelerator.prepare({'loader, ' * 20})\n"
    assert seen(tmp_path, 1300, verdict=replace(DIFFERS, diff=diff))["cut"] <= 0


def test_in_the_dark_the_page_is_dark(tmp_path: Path) -> None:
    facts = seen(tmp_path, 1280, "--blink-settings=preferredColorScheme=0")
    assert brightness(facts["page"]) < 150 < 500 < brightness(facts["ink"])
    assert brightness(facts["differs"]) < 300
