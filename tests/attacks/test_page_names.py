"""A page shows what a model holds, and runs none of it."""

from __future__ import annotations

import html
import re
from pathlib import Path

import onnx
import onnx.parser
import pytest
from browser import WIDTHS, chromium, click, opened, wait_until

from opgraft._doctor._doctor import diagnose
from opgraft._page._page import framed, of_diagnosis
from opgraft._run._prepare import installed_runtime

SIGNAL = "window.attacked=1"
HOSTILE = [
    f"<script>{SIGNAL}</script>",
    f"</script><script>{SIGNAL}</script>",
    f'"><img src=x onerror="{SIGNAL}">',
    f"'><svg onload='{SIGNAL}'>",
    f"javascript:{SIGNAL}",
    f"<!--<script>{SIGNAL}//",
    f"</style><style>*{{display:none}}</style><iframe srcdoc='<script>{SIGNAL}</script>'>",
    "__proto__",
    "constructor",
    f"\u2028{SIGNAL}\u2029@@SCRIPT@@",
    f"]]>{{{{{SIGNAL}}}}}${{{SIGNAL}}}",
]


def hostile_model() -> onnx.ModelProto:
    """A chain of nodes, in which each text that a model can hold is hostile."""
    nodes = []
    for i, text in enumerate(HOSTILE):
        before = HOSTILE[i - 1] if i else "x"
        node = onnx.helper.make_node("Relu" if i % 2 else text, [before], [text], name=text)
        node.domain, node.doc_string = ("" if i % 2 else text), text
        node.attribute.append(onnx.helper.make_attribute(text, text))
        node.metadata_props.add(key="pkg.torch.onnx.stack_trace", value=text)
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=repr([text, text]))
        node.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=repr([f"{text}.a.b"]))
        nodes.append(node)
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, HOSTILE[0], [value("x", 1, [HOSTILE[1]])], [value(HOSTILE[-1], 1, [HOSTILE[2]])]
    )
    imports = [onnx.helper.make_opsetid("", 21)]
    imports += [onnx.helper.make_opsetid(one, 1) for one in HOSTILE[::2]]
    model = onnx.helper.make_model(graph, ir_version=10, opset_imports=imports)
    model.metadata_props.add(key="opgraft.differs", value=HOSTILE[1])
    return model


@pytest.fixture(scope="module")
def page_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "<script>window.attacked=1<!--.onnx"
    path.write_bytes(hostile_model().SerializeToString())
    runtime = installed_runtime()
    return of_diagnosis(diagnose(str(path), runtime), str(path))


def test_the_data_cannot_leave_its_block(page_text: str) -> None:
    assert page_text.count("<script") == page_text.count("</script>") == 2
    block = re.search(r'id="data">(.*?)</script>', page_text, re.DOTALL)
    assert block is not None
    assert not set("<>&\u2028") & set(block[1]) and block[1].isascii()
    assert SIGNAL in block[1]  # the hostile texts are there
    title = re.search("<title>(.*?)</title>", page_text)
    assert title is not None and "<" not in title[1]


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_runs(page_text: str, tmp_path: Path, width: int) -> None:
    file = tmp_path / "report.html"
    file.write_text(page_text)
    with chromium() as browser, opened(browser, file, width) as page:
        assert page.evaluate("document.scripts.length") == 2
        for text in HOSTILE:
            page.fill("#query", text[:40].strip())
            page.locator("#results button").first.click()
            assert page.locator("#panel .what").count() == 1
            click(page, text)
            assert text.strip() in page.locator("#panel").text_content()
        for tab in page.get_by_role("tab").all():
            tab.click()
        assert page.evaluate("window.attacked") is None
        elements = page.evaluate("document.querySelectorAll('img, svg, iframe, a, object').length")
        assert elements == 0


def test_a_notebooks_frame_is_closed(page_text: str, tmp_path: Path) -> None:
    frame = framed(page_text)
    assert 'sandbox="allow-scripts"' in frame
    held = re.fullmatch(r'<iframe sandbox="allow-scripts" srcdoc="([^"]*)" [^<>]*></iframe>', frame)
    assert held is not None and html.unescape(held[1]) == page_text
    with chromium() as browser:
        page = browser.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.set_content(frame)
        inside = page.frame_locator("iframe")
        assert inside.locator("#legend button").first.inner_text()
        assert page.evaluate("window.attacked") is None
        assert complaints == []


def test_the_policy_stops_what_would_get_in(page_text: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page_text.replace("<noscript>", f"<script>{SIGNAL}</script><noscript>", 1))
    with chromium() as browser:
        page = browser.new_page()
        page.goto(file.as_uri())
        wait_until(page, "window.opgraft !== undefined")
        assert page.evaluate("window.attacked") is None
