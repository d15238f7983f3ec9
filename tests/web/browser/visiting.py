"""What a visitor does on the pages, in a word each."""

from __future__ import annotations

from pathlib import Path

AXE = Path(__file__).parents[3] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
"""What judges a page as a screen reader finds it; there once the front end has been built here."""

VIEWER = ".nw-viewer[data-state=shown]"


def side(page, letter):
    """Return the place of a net on page 1."""
    return page.get_by_role("region", name=f"Net {letter}")


def drop(page, letter, *files):
    page.get_by_label(f"Files of net {letter}", exact=True).set_input_files([str(file) for file in files])


def compare(page):
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_selector(VIEWER)
    return page.url


def drop_a_sample(page, folder):
    """Choose the files of a sample for both nets, and wait until they are read."""
    from netweave.web.samples import samples

    sample = samples()["mended"]
    page.goto("/")
    for letter, files in (("A", sample.a), ("B", sample.b)):
        for name, content in files.items():
            (folder / name).write_bytes(content)
        drop(page, letter, *(folder / name for name in files))
    page.locator("#compare:enabled").wait_for()


def compare_a_sample(page, title="A port with a mistake"):
    page.goto("/")
    page.get_by_role("button", name=title).click()
    page.wait_for_url("**/comparisons/**")
    page.wait_for_selector(VIEWER)
    return page.url


def open_more(page, *parts):
    """Open the menu of what is seldom done to a net or a comparison, and parts of it."""
    page.locator("summary", has_text="More").click()
    for part in parts:
        page.locator(".more .panel summary", has_text=part).click()


def selected(page):
    """Return the names of what is selected in the viewer, A's before B's."""
    return page.locator(".nw-inspector .nw-title h2").all_inner_texts()


def problems(page):
    """Return what axe finds wrong with labels, roles and contrast."""
    page.wait_for_load_state("networkidle")
    page.evaluate(AXE.read_text())  # by the debugger, which the page's policy does not bind
    return [
        (rule["id"], node["html"][:160], node["failureSummary"][:200])
        for rule in page.evaluate("axe.run()")["violations"]
        for node in rule["nodes"]
    ]
