"""What a visitor does on the pages, in a word each."""

from __future__ import annotations

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


def compare_a_sample(page, title="A port with a mistake"):
    page.goto("/")
    page.get_by_role("button", name=title).click()
    return compare(page)


def selected(page):
    """Return the names of what is selected in the viewer, A's before B's."""
    return page.locator(".nw-inspector .nw-title h2").all_inner_texts()
