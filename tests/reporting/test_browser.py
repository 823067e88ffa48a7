"""The page in a real browser. Set KAFKALOG_BROWSER to the path of a Chromium that is not on the PATH."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from native_log.reporting.figures import CoordinatorFigures, GroupFigures
from native_log.reporting.page import render_page
from tests.reporting.browser import Tab, find_browser, open_tab
from tests.reporting.examples import partition, report
from tests.reporting.test_page import HOSTILE, everything

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BROWSER = find_browser()
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium, or KAFKALOG_BROWSER")

OVERFLOWING = """
[...document.querySelectorAll("body *")].filter(element =>
  element.getBoundingClientRect().right > innerWidth + 1 && !element.closest(".scroll")
).map(element => element.outerHTML.slice(0, 100))
"""
SMALL_CHARTS = """
[...document.querySelectorAll("figure svg")].filter(svg => {
  const {width, height} = svg.getBoundingClientRect();
  return width < 300 || height < 40;
}).length
"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with open_tab(str(BROWSER), tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page in which all names are hostile."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(everything("".join(HOSTILE)), "1"), encoding="utf-8")
    return path


def events(tab: Tab, method: str) -> list[dict[str, Any]]:
    return [parameters for name, parameters in tab.events if name == method]


@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_it_fits_the_screen_and_loads_nothing(tab: Tab, page: Path, width: int) -> None:
    tab.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
    )
    tab.open(page)
    assert tab.evaluate(OVERFLOWING) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width  # less by the scroll bar
    assert tab.evaluate("document.querySelectorAll('figure svg').length") >= 6
    assert tab.evaluate(SMALL_CHARTS) == 0
    requested = [request["request"]["url"] for request in events(tab, "Network.requestWillBeSent")]
    assert requested == [page.as_uri()]
    for method in ("Log.entryAdded", "Runtime.consoleAPICalled", "Page.javascriptDialogOpening"):
        assert events(tab, method) == []


def test_scripts_and_images_do_not_load(tab: Tab, page: Path) -> None:
    """The policy of the page holds even if something were not escaped."""
    tampered = page.with_name("tampered.html")
    attack = "<script>document.title = 'attacked'</script><img src='https://example.invalid/x.png'></main>"
    tampered.write_text(page.read_text(encoding="utf-8").replace("</main>", attack), encoding="utf-8")
    tab.open(tampered)
    assert tab.evaluate("document.title").startswith("Kafka log report")
    assert [failed["blockedReason"] for failed in events(tab, "Network.loadingFailed")] == ["csp"]


def test_it_prints(tab: Tab, page: Path) -> None:
    tab.call("Emulation.setEmulatedMedia", media="print")
    tab.call("Emulation.setDeviceMetricsOverride", width=688, height=970, deviceScaleFactor=1, mobile=False)
    tab.open(page)
    assert tab.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    printed = base64.b64decode(tab.call("Page.printToPDF", printBackground=False)["data"])
    tab.call("Emulation.setEmulatedMedia", media="")
    assert printed.startswith(b"%PDF")
    assert 3 < len(re.findall(rb"/Type\s*/Page\b", printed)) < 60


def test_many_partitions(tab: Tab, tmp_path: Path) -> None:
    partitions = [partition(f"topic-{number // 10}", number % 10) for number in range(10_000)]
    groups = tuple(GroupFigures(f"group-{number}", lag=number, known=1) for number in range(5000))
    path = tmp_path / "many.html"
    path.write_text(render_page(report(*partitions, coordinators=CoordinatorFigures(groups, ())), "1"))
    tab.open(path)
    assert tab.evaluate("document.querySelectorAll('*').length") < 5000
