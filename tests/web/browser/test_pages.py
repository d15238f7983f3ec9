"""The pages of the workbench in a real browser, in a window of 1280 by 720."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.web.browser.visiting import (
    AXE,
    VIEWER,
    compare,
    compare_a_sample,
    drop,
    drop_a_sample,
    open_more,
    problems,
    side,
)

playwright = pytest.importorskip("playwright.sync_api")

pytestmark = [pytest.mark.browser, pytest.mark.multi]

GOLDEN = Path(__file__).parents[2] / "golden"

DROP_FOLDER = """names => {
  // what a browser gives of a dropped folder; a script cannot drop a real one
  const inside = (prefix) => {
    const rest = names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
    return [...new Set(rest.map((name) => name.split("/")[0]))].map((name) => entry(prefix + name));
  };
  const entry = (path) => {
    const name = path.split("/").at(-1);
    if (names.includes(path)) return { name, isFile: true, file: (done) => done(new File(["x"], name)) };
    let given = false;
    const some = () => (given ? [] : ((given = true), inside(path + "/")));
    return { name, isDirectory: true, createReader: () => ({ readEntries: (done) => done(some()) }) };
  };
  const event = new Event("drop", { bubbles: true, cancelable: true });
  const items = [{ webkitGetAsEntry: () => entry(names[0].split("/")[0]) }];
  Object.defineProperty(event, "dataTransfer", { value: { items, files: [] } });
  document.querySelector("[data-side=A]").dispatchEvent(event);
}"""


def test_one_click_leads_from_the_first_page_to_a_verdict(page):
    compare_a_sample(page)
    playwright.expect(page.locator(VIEWER)).to_contain_text("different at pool1")


@pytest.mark.corpus
def test_files_of_caffe_and_mxnet_are_recognised_as_they_arrive_and_compared(page, corpus):
    nets = corpus / "mtcnn"
    page.goto("/")
    button = page.locator("#compare")
    playwright.expect(button).to_be_disabled()
    playwright.expect(button).to_be_hidden()
    drop(page, "A", nets / "det1.prototxt")
    playwright.expect(side(page, "A")).to_contain_text("Caffe net, recognised")
    playwright.expect(side(page, "A")).to_contain_text("The weights are missing")
    drop(page, "A", nets / "det1.caffemodel")
    playwright.expect(side(page, "A")).not_to_contain_text("The weights are missing")
    drop(page, "B", nets / "det1-symbol.json", nets / "det1-0001.params")
    playwright.expect(side(page, "B")).to_contain_text("MXNet net, recognised")
    playwright.expect(side(page, "B")).to_contain_text("6,632 parameters")
    playwright.expect(button).to_be_enabled()
    button.click()
    page.wait_for_selector(VIEWER)
    playwright.expect(page.locator(VIEWER)).to_contain_text("height and width swapped")


def test_reloading_the_first_page_loses_nothing(page, tmp_path):
    drop_a_sample(page, tmp_path)
    playwright.expect(page.get_by_role("button", name="Compare", exact=True)).to_be_enabled()
    page.reload()
    playwright.expect(side(page, "B")).to_contain_text("leaves-symbol.json")
    playwright.expect(page.get_by_role("button", name="Compare", exact=True)).to_be_enabled()


def test_what_is_no_net_says_so_and_can_be_removed(page, tmp_path):
    (tmp_path / "<img src=x onerror=alert(1)>.txt").write_text("hello")
    page.goto("/")
    drop(page, "A", *tmp_path.iterdir())
    playwright.expect(side(page, "A")).to_contain_text("not a net that Netweave knows")
    playwright.expect(side(page, "A").locator("img")).to_have_count(0)
    side(page, "A").get_by_role("button", name="Remove").click()
    playwright.expect(side(page, "A").locator(".files li")).to_have_count(0)
    playwright.expect(page.get_by_text("Waiting for the files of net A.")).to_be_visible()


def test_the_list_names_a_file_as_it_is_called(page, tmp_path):
    (tmp_path / "typo.prototxt").write_text("layer {{")
    page.goto("/")
    front(page).set_input_files(tmp_path / "typo.prototxt")
    playwright.expect(side(page, "A")).to_contain_text("typo.prototxt:")
    page.goto("/nets/")
    error = page.locator(".card-row p").first
    playwright.expect(error).to_contain_text("typo.prototxt:")
    drawn = "p => [p, '::first-letter'].map((part, n) => getComputedStyle(p, n ? part : null).textTransform)"
    assert error.evaluate(drawn) == ["none", "none"]


def test_sizes_that_are_missing_are_asked_for_and_typed(page, bench, tmp_path):
    from netweave.web.samples import samples

    (tmp_path / "leaves-symbol.json").write_bytes(samples()["padding"].b["leaves-symbol.json"])
    page.goto("/")
    drop(page, "B", tmp_path / "leaves-symbol.json")
    playwright.expect(side(page, "B")).to_contain_text("the sizes of the input 'image' are unknown")
    field = side(page, "B").get_by_role("textbox")
    field.fill("image=1x3x32x32")
    field.press("Tab")
    playwright.expect(side(page, "B")).to_contain_text("MXNet net, recognised")


def test_a_comparison_is_renamed_found_and_deleted_in_the_list(page):
    compare_a_sample(page)
    page.goto("/comparisons/")
    page.locator(".card-row").first.get_by_text("Rename").first.click()
    page.get_by_label("Name", exact=True).fill("leaves, second try")
    page.get_by_label("Name", exact=True).press("Enter")
    playwright.expect(page.get_by_role("status")).to_contain_text("leaves, second try")
    page.get_by_role("searchbox").fill("second")
    page.get_by_role("searchbox").press("Enter")
    playwright.expect(page.locator(".card-row")).to_have_count(1)
    page.get_by_role("searchbox").fill("nowhere")
    page.get_by_role("searchbox").press("Enter")
    playwright.expect(page.get_by_text("Nothing found")).to_be_visible()
    page.goto("/comparisons/")
    page.locator(".card-row").first.get_by_text("Delete").first.click()
    page.get_by_role("button", name="Delete it").click()
    playwright.expect(page.get_by_text("No comparisons yet")).to_be_visible()


def test_a_shared_link_opens_in_another_browser_until_it_ends(page, chromium):
    compare_a_sample(page)
    page.get_by_text("Share", exact=True).click()
    page.get_by_role("button", name="Create a link").click()
    address = page.get_by_label("Anyone with this link can see the comparison").input_value()
    with chromium.new_context() as other:
        guest = other.new_page()
        guest.goto(address)
        guest.wait_for_selector(VIEWER)
        playwright.expect(guest.locator(VIEWER)).to_contain_text("different at pool1")
        playwright.expect(guest.get_by_text("Delete")).to_have_count(0)
        page.get_by_role("button", name="Revoke the link").click()
        ended = page.get_by_role("status").filter(has_text="The shared link has ended")
        playwright.expect(ended).to_have_count(1)
        assert guest.goto(address).status == 404


def test_everything_goes_by_keyboard_alone(page):
    page.goto("/")
    page.keyboard.press("Tab")
    playwright.expect(page.get_by_text("Skip to the content")).to_be_focused()
    sample = page.get_by_role("button", name="A port with a mistake")
    for _ in range(30):
        page.keyboard.press("Tab")
        if sample.evaluate("element => element === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.wait_for_selector(VIEWER)
    menu = page.locator("summary", has_text="More")
    rename = page.locator("summary", has_text="Rename")
    menu.focus()
    page.keyboard.press("Enter")
    playwright.expect(page.locator("summary", has_text="Nets")).to_be_focused()
    rename.focus()
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    playwright.expect(menu).to_be_focused()
    playwright.expect(page.get_by_label("Name", exact=True)).to_be_hidden()
    page.keyboard.press("Enter")
    # the menu takes the focus when the browser says that it is open, a moment after it is
    playwright.expect(page.locator("summary", has_text="Nets")).to_be_focused()
    page.get_by_label("Name", exact=True).focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_role("heading", name="by keyboard")).to_be_visible()


@pytest.mark.parametrize("width", [390, 900, 1920])
def test_nothing_is_cut_off(visit, width):
    """Nothing is wider than its window, the buttons of a bar stand in one line, and axe finds nothing."""
    page = visit(viewport={"width": width, "height": 844})
    done = compare_a_sample(page)
    page.goto("/nets/")
    net = page.locator("a[href^='/nets/'][href$='/']").filter(has_text="leaves").first.get_attribute("href")
    for path in ("/", "/nets/", "/comparisons/", "/runs/", "/help/", "/programs/", net, done):
        page.goto(path)
        if path in {net, done}:
            page.wait_for_selector(VIEWER)
            heights = page.eval_on_selector_all(
                ".heading .do .btn", "all => all.map(b => b.offsetHeight).filter(Boolean)"
            )
            assert max(heights) < 1.5 * min(heights)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        if AXE.exists():
            assert problems(page) == [], path


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: tools/frontend")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screen_reader_finds_labels_roles_and_contrast(visit, tmp_path, scheme):
    page = visit(color_scheme=scheme)
    done = compare_a_sample(page)
    drop_a_sample(page, tmp_path)
    for path in (page.url, "/nets/", "/comparisons/", "/help/", "/programs/", "/runs/", done):
        page.goto(path)
        assert problems(page) == [], path


@pytest.fixture
def folder(tmp_path):
    """A net as Keras saves it for TensorFlow, with what systems put in folders."""
    made = shutil.copytree(GOLDEN / "keras" / "unet_saved_model", tmp_path / "unet")
    (made / ".DS_Store").write_bytes(b"x")
    return made


def test_a_folder_is_one_net_and_so_is_its_archive(page, folder):
    page.goto("/")
    page.get_by_label("Folder of net A").set_input_files(folder)
    drop(page, "B", shutil.make_archive(str(folder), "zip", folder))
    for letter, files in (("A", 4), ("B", 1)):
        playwright.expect(side(page, letter)).to_contain_text("TensorFlow net, recognised")
        playwright.expect(side(page, letter)).not_to_contain_text("The weights are missing")
        playwright.expect(side(page, letter).locator(".files li")).to_have_count(files)
    compare(page)
    playwright.expect(page.locator(".nw-verdict")).to_contain_text("Identical")


def test_a_folder_is_dropped_with_all_that_is_in_it(page, folder):
    page.goto("/")
    names = [str(file.relative_to(folder.parent)) for file in sorted(folder.rglob("*")) if file.is_file()]
    page.evaluate(DROP_FOLDER, names)
    playwright.expect(side(page, "A").locator(".files [data-stored] .name")).to_have_text(
        ["fingerprint.pb", "saved_model.pb", "variables.data-00000-of-00001", "variables.index"]
    )


def front(page):
    return page.get_by_label("Files of one net or more", exact=True)


@pytest.mark.corpus
def test_one_net_that_is_dropped_opens_at_once(page, corpus):
    page.goto("/")
    front(page).set_input_files([corpus / "mtcnn" / name for name in ("det1.caffemodel", "det1.prototxt")])
    page.wait_for_url("**/nets/**")
    page.wait_for_selector(VIEWER)
    playwright.expect(page.get_by_role("heading", name="det1.prototxt")).to_be_visible()
    playwright.expect(page.locator(VIEWER)).to_contain_text("conv4-2")


@pytest.mark.corpus
def test_two_nets_in_one_drop_are_sorted_and_compared_and_the_rest_is_told(page, corpus, tmp_path):
    (tmp_path / "notes.txt").write_text("hello, there")
    names = ("det1.prototxt", "det1-0001.params", "det1.caffemodel", "det1-symbol.json")
    page.goto("/")
    front(page).set_input_files([*(corpus / "mtcnn" / name for name in names), tmp_path / "notes.txt"])
    page.wait_for_url("**/comparisons/**")
    page.wait_for_selector(VIEWER)
    playwright.expect(page.locator(VIEWER)).to_contain_text("height and width swapped")
    playwright.expect(page.get_by_role("note")).to_contain_text("notes.txt is not used")
    page.goto("/nets/")
    playwright.expect(page.locator(".card-row .name")).to_have_text(["det1-symbol.json", "det1.prototxt"])


def test_of_two_nets_in_one_drop_the_first_is_the_original_until_they_are_swapped(page, tmp_path):
    """Though the second is smaller, and read first."""
    net = (
        "name: 'x' input: 'd' input_shape { dim: 1 dim: 2 } "
        "layer { name: 'r' type: 'ReLU' bottom: 'd' top: 'r' }"
    )
    (tmp_path / "original.prototxt").write_text(f"# as it was published\n{net}")
    (tmp_path / "copy.prototxt").write_text(net)
    page.goto("/")
    front(page).set_input_files([tmp_path / "original.prototxt", tmp_path / "copy.prototxt"])
    page.wait_for_url("**/comparisons/**")
    page.wait_for_selector(VIEWER)
    heading = page.locator(".heading h1")
    playwright.expect(heading).to_have_text("original.prototxt against copy.prototxt")
    open_more(page, "Nets")
    page.get_by_role("button", name="Swap A and B").click()
    playwright.expect(heading).to_have_text("copy.prototxt against original.prototxt")
    page.wait_for_selector(VIEWER)


def test_a_net_that_is_dropped_is_the_original_of_one_that_stands_on_the_right(page, tmp_path):
    net = (
        "name: 'x' input: 'd' input_shape { dim: 1 dim: 2 } "
        "layer { name: 'r' type: 'ReLU' bottom: 'd' top: 'r' }"
    )
    for name in ("port.prototxt", "original.prototxt"):
        (tmp_path / name).write_text(net)
    page.goto("/")
    drop(page, "B", tmp_path / "port.prototxt")
    playwright.expect(side(page, "B")).to_contain_text("Caffe net, recognised")
    front(page).set_input_files(tmp_path / "original.prototxt")
    page.wait_for_url("**/comparisons/**")
    playwright.expect(page.locator(".heading h1")).to_have_text("original.prototxt against port.prototxt")
    page.wait_for_selector(VIEWER)


def test_a_net_that_was_never_compared_is_renamed_downloaded_and_deleted(page, tmp_path):
    (tmp_path / "模型.prototxt").write_text(
        "name: 'x' input: 'd' input_shape { dim: 1 dim: 2 } "
        "layer { name: 'r' type: 'ReLU' bottom: 'd' top: 'r' }"
    )
    page.goto("/")
    front(page).set_input_files(tmp_path / "模型.prototxt")
    page.wait_for_url("**/nets/**")
    page.wait_for_selector(VIEWER)
    page.goto("/nets/")
    row = page.locator(".card-row")
    with page.expect_download() as download:
        row.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "模型.prototxt"
    assert Path(download.value.path()).read_bytes() == (tmp_path / "模型.prototxt").read_bytes()
    row.get_by_text("Rename").first.click()
    page.get_by_label("Name", exact=True).fill("a small net")
    page.get_by_label("Name", exact=True).press("Enter")
    playwright.expect(row.locator(".name")).to_have_text("a small net")
    row.get_by_text("Delete").first.click()
    page.get_by_role("button", name="Delete it").click()
    playwright.expect(page.get_by_text("No nets yet")).to_be_visible()
    playwright.expect(page.get_by_text("0 B of 17.2 GB taken")).to_be_visible()


def test_sizes_without_a_name_are_for_the_only_input_and_wrong_ones_are_explained(page, tmp_path):
    (tmp_path / "net.prototxt").write_text(
        "name: 'x' input: 'image' layer { name: 'r' type: 'ReLU' bottom: 'image' top: 'r' }"
    )
    page.goto("/")
    front(page).set_input_files(tmp_path / "net.prototxt")
    playwright.expect(side(page, "A")).to_contain_text("'image'")
    field = side(page, "A").get_by_role("textbox").first
    playwright.expect(field).to_be_visible()
    field.fill("large")
    field.press("Tab")
    playwright.expect(side(page, "A").get_by_role("alert")).to_contain_text("image=1x3x224x224")
    field.fill("1x3x8x8")
    field.press("Tab")
    playwright.expect(side(page, "A")).to_contain_text("Caffe net, recognised")


def test_whoever_copies_a_link_sees_what_it_is(visit):
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    compare_a_sample(page)
    toast = page.locator(".nw-toast")
    page.locator(".nw-row").first.click()
    page.keyboard.press("c")
    playwright.expect(toast).to_be_visible()
    playwright.expect(toast).to_contain_text("It opens for you only")
    assert "/comparisons/" in page.evaluate("navigator.clipboard.readText()")
    page.get_by_text("Share", exact=True).click()
    page.get_by_role("button", name="Create a link").click()
    page.wait_for_selector(VIEWER)
    page.keyboard.press("Escape")
    page.locator(".nw-row").first.click()
    page.keyboard.press("c")
    playwright.expect(toast).to_contain_text("on this computer only")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "/shared/" in copied
    assert "#layer=" in copied


def test_a_first_visit_is_sent_compressed_and_small(page):
    """The drawing of a comparison with all that it needs: 260 kB at most."""
    sent = {}

    def note(response) -> None:
        if "/static/" in response.url:
            name = response.url.rsplit("/", 1)[1]
            # later pages ask again, and are told that nothing has changed
            sent.setdefault(name, (response.headers.get("content-encoding"), response.request))

    page.on("response", note)
    compare_a_sample(page)
    for name in ("viewer.js", "viewer.css", "web.js", "web.css"):
        assert sent[name][0] in {"gzip", "br"}, name
    assert sum(request.sizes()["responseBodySize"] for _, request in sent.values()) < 260_000
