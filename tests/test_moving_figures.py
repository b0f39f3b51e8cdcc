"""The moving figures: each script computes what the library computes, and its page moves without kernel or network."""

import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import ipywidgets as widgets
import pytest
import torch
from browser import CHROMIUM, FLAGS, NO_HOST, needs_chromium

from transformer_lib import baselines, decoding, positional, translator
from transformer_lib.experiments import pronoun_maps, pronouns
from transformer_lib.visualisation import (
    beam_tree,
    data_flow,
    heads,
    mask_builder,
    moving,
    norm_depth,
    rates,
    reach,
    sinusoids,
)
from transformer_lib.visualisation.moving import page_data

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "book" / "_static" / "js"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node runs the page's script; it isn't installed")
BYTES_A_FIGURE = 150_000

FIGURES = {  # classes of the holder, its script's first: scripts, the data that it names
    "attention-scale": (["moving", "attention_scale_data", "attention_scale"], None),
    "sinusoids": (["moving", "sinusoids"], None),
    "mask-builder": (["moving", "mask_builder"], None),
    "head-selector": (["moving", "translator_heads_data", "head_selector"], "translatorHeads"),
    "head-selector pronouns": (["moving", "pronoun_heads_data", "head_selector"], "pronounHeads"),
    "reach-explorer": (["moving", "reach"], None),
    "data-flow": (["moving", "data_flow"], None),
    "learning-rate": (["moving", "learning_rate"], None),
    "beam-tree": (["moving", "beam_tree_data", "beam_tree"], None),
    "norm-depth": (["moving", "norm_depth_data", "norm_depth"], None),
}
CONTROLS = {
    "sinusoids": sinusoids,
    "mask-builder": mask_builder,
    "head-selector": heads,
    "head-selector pronouns": SimpleNamespace(control=lambda: pronoun_maps.control(pronouns.fresh_reader(seed=4))),
    "reach-explorer": reach,
    "data-flow": data_flow,
    "learning-rate": rates,
    "beam-tree": beam_tree,
    "norm-depth": norm_depth,
}


def computed(script: str, settings: list, data: object = None, leading: bool = False) -> list:
    """Return what the script's `compute` gives for each list of arguments (after the data, if `leading`)."""
    program = f"""
      const {{ compute }} = require({json.dumps(str(SCRIPTS / script))});
      const data = {json.dumps(data)};
      const states = {json.dumps(settings)}.map((chosen) => compute(...{"[data, ...chosen]" if leading else "chosen"}));
      console.log(JSON.stringify(states));
    """
    done = subprocess.run(["node"], input=program, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def close(got, wanted, atol: float) -> None:
    torch.testing.assert_close(torch.as_tensor(got).float(), torch.as_tensor(wanted).float(), rtol=0, atol=atol)


# a. sinusoids


def test_with_the_paper_s_base_the_waves_are_the_library_s_positions():
    for d_model in sinusoids.WIDTHS:
        close(sinusoids.waves(128, d_model), positional.sinusoidal_positions(128, d_model), 1e-6)


@pytest.mark.parametrize("offset", [-7, 3])
def test_the_rotation_takes_every_position_to_the_one_that_many_later(offset):
    shown = sinusoids.state(1000, 16, 3, offset)
    pair = torch.tensor([shown.sine, shown.cosine])
    turned = torch.tensor(shown.rotation) @ pair
    first, last = max(0, -offset), 128 - max(0, offset)
    close(turned[:, first:last], pair[:, first + offset : last + offset], 2e-5)


def test_the_products_peak_at_no_offset_and_are_alike_to_both_sides():
    shown = sinusoids.state(10000, 64, 0, 0).products
    assert max(shown) == shown[50] == pytest.approx(32, abs=1e-4) and len(shown) == 101
    close(shown, shown[::-1], 1e-4)


@needs_node
def test_the_page_draws_the_library_s_sinusoids():
    pick = random.Random(0)
    settings = []
    for base in sinusoids.BASES:
        for d_model in sinusoids.WIDTHS:
            settings.append([base, d_model, pick.randrange(d_model // 2), pick.randint(-50, 50)])
    for shown, chosen in zip(computed("sinusoids.js", settings), settings, strict=True):
        wanted = sinusoids.state(*chosen)
        for name, atol in {"sine": 2e-5, "cosine": 2e-5, "rotation": 2e-5}.items():
            close(shown[name], getattr(wanted, name), atol)
        close(shown["products"], wanted.products, 2e-4 * chosen[1] / 16)
        assert shown["wavelength"] == pytest.approx(wanted.wavelength)


# b. masks


@needs_node
def test_the_page_builds_the_library_s_masks():
    pick = random.Random(1)
    settings, wanted = [], []
    for _ in range(60):
        causal, prefix, window, left = (pick.random() < 0.5 for _ in range(4))
        of_prefix, of_window, padding = pick.randint(0, 8), pick.randint(1, 8), pick.randint(0, 4)
        chosen = {"causal": causal, "prefix": prefix, "window": window, "left": left}
        chosen |= {"prefixLength": of_prefix, "windowLength": of_window, "padding": padding}
        settings.append([chosen])
        wanted.append(
            mask_builder.state(causal, of_prefix if prefix else None, of_window if window else None, padding, left)
        )
    for shown, state in zip(computed("mask_builder.js", settings), wanted, strict=True):
        assert shown["tokens"] == state.tokens and shown["mask"] == state.mask.tolist()
        assert shown["allowed"] == state.mask.sum(-1).tolist()
        close(shown["weights"], state.weights, 1e-6)


def test_causal_and_prefix_is_causal_and_padding_first_leaves_a_row_of_nothing():
    assert torch.equal(mask_builder.state(True, 5).mask, mask_builder.state(True).mask)
    first = mask_builder.state(True, left=True)
    assert not first.mask[0].any() and first.weights[0].eq(0).all() and first.weights[-1].sum() == 1


# c. heads


def test_the_page_holds_every_head_of_the_shipped_translator():
    data = page_data(SCRIPTS / "translator_heads_data.js")
    assert [entry["title"] for entry in data["sentences"]] == list(heads.SENTENCES)
    for number, entry in enumerate(data["sentences"]):
        for shown, wanted in zip(entry["maps"], heads.maps(number), strict=True):
            names = ("kind", "queries", "keys", "following")
            assert [shown[name] for name in names] == [getattr(wanted, name) for name in names]
            # To write the file anew: python -c "from transformer_lib.visualisation import heads; heads.write(FOLDER)"
            close(torch.tensor(shown["weights"]) / 1000, wanted.weights, 1.5e-3)


@needs_node
def test_the_page_shows_the_weights_that_the_library_computes():
    data, pick = page_data(SCRIPTS / "translator_heads_data.js"), random.Random(2)
    settings = [[pick.randrange(3), pick.randrange(3), pick.randrange(4), pick.randrange(4), 2] for _ in range(20)]
    shown_at = computed("head_selector.js", settings, data, leading=True)
    for shown, (sentence, kind, layer, head, query) in zip(shown_at, settings, strict=True):
        wanted = heads.state(sentence, list(heads.KINDS)[kind], layer, head)
        close(shown["weights"], wanted, 1.5e-3)
        close(shown["row"], wanted[query], 1.5e-3)
        assert shown["entropy"] == pytest.approx(torch.special.entr(wanted[query]).sum().item(), abs=0.05)
        assert shown["largest"] == pytest.approx(wanted[query].max().item(), abs=1.5e-3)


def test_weights_are_rows_of_shares_and_the_decoder_sees_nothing_later():
    for number in range(len(heads.SENTENCES)):
        for found in heads.maps(number):
            close(found.weights.sum(-1), torch.ones(found.weights.shape[:3]), 1e-5)
            if found.kind == "decoder self-attention":
                assert found.weights.triu(diagonal=1).eq(0).all()


# d. reach


def chain(tokens: int, depth: int, before) -> list[list[tuple[int, int]]]:
    """Return for each layer and position the pairs (layer, position) that it's computed from; layer 0 is the input."""
    return [[before(layer, place) for place in range(tokens)] for layer in range(1, depth + 1)]


def ways(graph: list, tokens: int, here: int) -> tuple[int | None, int]:
    """Return the shortest way from the input at `here` to the last output, and the longest chain of steps to any."""
    shortest = {(0, place): 0 if place == here else None for place in range(tokens)}
    longest = dict.fromkeys(shortest, 0)
    for layer, row in enumerate(graph, start=1):
        for place, needs in enumerate(row):
            found = [shortest[one] + 1 for one in needs if shortest[one] is not None]
            shortest[layer, place] = min(found, default=None)
            longest[layer, place] = max(longest[one] for one in needs) + 1
    last = shortest[len(graph), tokens - 1]
    return last, max(longest[len(graph), place] for place in range(tokens))


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize(
    ("tokens", "distance", "width", "dilated"), [(12, 5, 3, True), (16, 15, 2, True), (9, 4, 3, False)]
)
def test_paths_and_steps_are_those_of_the_graph_of_dependencies(tokens, distance, depth, width, dilated):
    shown, here = reach.state(tokens, distance, depth, width, dilated), tokens - 1 - distance
    dilations = reach.dilations(depth, dilated)

    def convolution(layer, place):
        places = [place - step * dilations[layer - 1] for step in range(width)]
        return [(layer - 1, one) for one in places if one >= 0]

    def recurrence(layer, place):
        return [(layer - 1, place), *([(layer, place - 1)] if place else [])]

    def attention(layer, place):
        return [(layer - 1, one) for one in range(place + 1)]

    for name, before in (("RNN", recurrence), ("CNN", convolution), ("attention", attention)):
        path, sequential = ways(chain(tokens, depth, before), tokens, here)
        assert (shown[name].path, shown[name].sequential) == (path, sequential), name
        if shown[name].hops:
            assert (shown[name].hops[0], shown[name].hops[-1]) == (here, tokens - 1)


@pytest.mark.parametrize("depth", [1, 3])
def test_the_field_of_the_convolutions_is_what_a_gradient_sees(depth):
    shown, tokens = reach.state(16, 9, depth, 3, True)["CNN"], 16
    model = baselines.CausalCNN(4, 3, reach.dilations(depth, True)).double()
    for layer in model.layers:  # no ReLU may be closed
        torch.nn.init.constant_(layer.places.weight, 0.1)
        torch.nn.init.constant_(layer.places.bias, 1.0)
    x = torch.rand(1, tokens, 4, dtype=torch.double, requires_grad=True)
    model(x)[0, -1].sum().backward()
    assert x.grad[0].abs().sum(-1).gt(0).tolist() == [place >= tokens - shown.field for place in range(tokens)]


@needs_node
def test_the_page_shows_the_library_s_reach():
    pick, settings = random.Random(3), []
    for _ in range(60):
        tokens = pick.randint(4, 32)
        settings.append(
            [tokens, pick.randint(1, tokens - 1), pick.randint(1, 6), pick.randint(2, 5), pick.random() < 0.5]
        )
    for shown, chosen in zip(computed("reach.js", settings), settings, strict=True):
        assert shown == {name: vars(found) for name, found in reach.state(*chosen).items()}


# f. data flow


@needs_node
def test_the_page_shows_the_shapes_of_a_model_at_work():
    chosen = [data_flow.Sizes(), data_flow.Sizes(batch=1, source=3, target=9, d_model=128, heads=8, vocabulary=50)]
    for shown, sizes in zip(computed("data_flow.js", [[vars(one)] for one in chosen]), chosen, strict=True):
        assert [tuple(part["shape"]) for part in shown] == data_flow.state(sizes)
        assert [(part["side"], part["name"]) for part in shown] == [part[:2] for part in data_flow.PARTS]


def test_looking_at_shapes_leaves_the_random_state_alone():
    before = torch.get_rng_state()
    data_flow.state(data_flow.Sizes())
    assert torch.equal(torch.get_rng_state(), before)


# h. learning rates


def test_the_rate_peaks_at_the_warm_up_and_a_tail_ends_near_0():
    shown = rates.state(steps=420, warmup=80, d_model=64, factor=1.0, tail=0.0)
    assert (shown.at, shown.step[0], shown.step[-1]) == (80, 1, 420)
    assert shown.peak == max(shown.rate) == pytest.approx((64 * 80) ** -0.5)
    assert rates.state(tail=0.5).rate[-1] < 0.01 * shown.peak < shown.rate[-1]


@needs_node
def test_the_page_draws_the_library_s_rates():
    settings = [
        [420, 80, 64, 1.0, 0.5],
        [420, 400, 512, 0.25, 1.0],
        [4000, 1, 128, 2.5, 0.0],
        [4000, 4000, 64, 4.0, 0.25],
    ]
    for shown, chosen in zip(computed("learning_rate.js", settings), settings, strict=True):
        wanted = rates.state(*chosen)
        assert (shown["step"], shown["at"]) == (wanted.step, wanted.at)
        close(shown["rate"], wanted.rate, 1e-9)
        assert (shown["peak"], shown["mean"]) == pytest.approx((wanted.peak, wanted.mean))


# g. beam search


@pytest.mark.parametrize("beam", beam_tree.BEAMS)
def test_the_search_ends_where_the_library_s_does(beam):
    known = translator.shipped()
    source = torch.tensor([known.tokeniser.encode(beam_tree.SENTENCE)])
    best = decoding.beam_search(known.model, source, beam, beam_tree.ALPHA)[0]
    assert list(beam_tree.search(beam)[-1].done[0][0]) == heads.words(known.tokeniser.tokens(best))


def test_a_wider_beam_finds_a_likelier_translation_than_greedy_decoding():
    greedy, wider = (beam_tree.search(beam)[-1].done[0] for beam in (1, 2))
    assert "-uck" in greedy[0] and "-ucks" in wider[0] and wider[1] > greedy[1] + 0.01


@needs_node
def test_the_page_repeats_the_library_s_search():
    data = page_data(SCRIPTS / "beam_tree_data.js")
    settings = [[beam, step] for beam in beam_tree.BEAMS for step in range(1, len(beam_tree.search(beam)) + 1)]
    for shown, chosen in zip(computed("beam_tree.js", settings, data, leading=True), settings, strict=True):
        wanted = beam_tree.state(*chosen)
        for fate in ("live", "done"):
            got, expected = shown[fate], getattr(wanted, fate)
            assert [tuple(target["tokens"]) for target in got] == [text for text, _ in expected]
            close([target["score"] for target in got], [score for _, score in expected], 2e-3)


# all of them


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: sinusoids.state(10000, 64, 32, 0), ValueError),
        (lambda: sinusoids.state(10000, 64, 0, 51), ValueError),
        (lambda: sinusoids.state(10000, 63, 0, 5), ValueError),
        (lambda: mask_builder.state(padding=9), ValueError),
        (lambda: mask_builder.state(prefix=9), ValueError),
        (lambda: heads.state(3), ValueError),
        (lambda: heads.state(0, "self"), ValueError),
        (lambda: heads.state(0, "cross-attention", 4, 0), ValueError),
        (lambda: heads.state(0, "cross-attention", 0, -1), ValueError),
        (lambda: reach.state(16, 16), ValueError),
        (lambda: reach.state(width=1), ValueError),
        (lambda: rates.state(tail=1.5), ValueError),
        (lambda: data_flow.Sizes(heads=3), ValueError),
        (lambda: data_flow.Sizes(batch=0), ValueError),
        (lambda: beam_tree.state(6, 1), ValueError),
        (lambda: beam_tree.state(1, 99), ValueError),
    ],
)
def test_settings_that_a_figure_does_not_have_are_refused(call, error):
    with pytest.raises(error, match="got"):
        call()


def knobs(box: widgets.VBox) -> list[widgets.Widget]:
    return [knob for row in box.children[:-1] for knob in row.children]


def drawn(figure) -> bytes:
    """Return what a figure shows, in a tenth of the time that its PNG takes."""
    found = []
    for axes in figure.axes:
        found += [line.get_xydata().tolist() for line in axes.lines] + [axes.get_title(loc="left")]
        found += [image.get_array().tolist() for image in axes.images]
        found += [points.get_facecolors().tolist() for points in axes.collections]
        found += [(text.get_text(), text.get_color(), text.get_weight()) for text in axes.texts]
    return repr(found).encode()


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_draws_anew_for_some_value_of_every_knob(name, monkeypatch):
    monkeypatch.setattr(moving, "png", drawn)
    box = CONTROLS[name].control()
    for knob in knobs(box):
        before, at_first = bytes(box.children[-1].value), knob.value
        for value in others(knob):
            knob.value = value
            if bytes(box.children[-1].value) != before:
                break
        else:
            assert knob.description in QUIET
        knob.value = at_first
        assert bytes(box.children[-1].value) == before


QUIET = ["prefix", "prefix of", "window of"]  # at the first state another mask hides them, or they are switched off


def others(knob: widgets.Widget) -> list:
    if isinstance(knob, widgets.Checkbox):
        return [not knob.value]
    if hasattr(knob, "options"):
        values = [option[1] if isinstance(option, tuple) else option for option in knob.options]
        return [value for value in values if value != knob.value][:1]
    return [value for value in (knob.max, knob.min) if value != knob.value]


def test_what_is_written_is_read_back(tmp_path):
    moving.write_data(tmp_path / "x.js", "sample", {"a": ["ü", 1]}, by=heads.__name__)
    assert page_data(tmp_path / "x.js") == {"a": ["ü", 1]}
    text = (tmp_path / "x.js").read_text(encoding="utf-8")
    assert text.startswith("// Written by transformer_lib.visualisation.heads.write\n")


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_small_and_names_no_other_host(name):
    texts = [(SCRIPTS / f"{script}.js").read_text(encoding="utf-8") for script in FIGURES[name][0]]
    assert sum(len(text.encode()) for text in texts) < BYTES_A_FIGURE
    hosts = {url for text in texts for url in re.findall(r"https?://[^\"']+", text)}
    assert hosts <= {"http://www.w3.org/2000/svg"}  # a name, which nothing fetches


PROBE = r"""<script>
window.addEventListener("load", () => setTimeout(() => {
  const figure = document.querySelector("." + NAME), says = () => figure.querySelector(".m-says").textContent;
  const light = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0.05);
  const pale = () => [...figure.querySelectorAll("td")].filter((cell) => {
    const { color, backgroundColor } = getComputedStyle(cell), both = [light(color), light(backgroundColor)];
    return cell.style.background && cell.innerText.trim() && Math.max(...both) / Math.min(...both) < 4.5;
  }).map((cell) => cell.outerHTML);
  const found = { first: says(), changed: {}, small: [], pale: pale() };
  const inputs = [...figure.querySelectorAll("fieldset :is(input, select, button)")];
  inputs.forEach((input, i) => {
    const before = figure.innerHTML + says();
    if (input.disabled) { return; }
    if (input.type === "range") {
      input.value = +input.value === +input.max ? input.min : input.max;
      input.dispatchEvent(new Event("input", { bubbles: true }));
    } else if (input.tagName === "SELECT") {
      input.selectedIndex = (input.selectedIndex + 1) % input.options.length;
      input.dispatchEvent(new Event("change", { bubbles: true }));
    } else { input.click(); }
    found.changed[i] = figure.innerHTML + says() !== before;
    found.pale.push(...pale());
  });
  [...figure.querySelectorAll("input, select, button")].forEach((input) => {
    const box = input.getBoundingClientRect();
    if (Math.min(box.width, box.height) < 24) { found.small.push(input.outerHTML + box.height); }
  });
  found.last = says();
  window.dispatchEvent(new Event("beforeprint"));
  found.print = says();
  window.dispatchEvent(new Event("afterprint"));
  found.back = says();
  const page = document.documentElement;
  found.width = page.scrollWidth; found.room = page.clientWidth;
  parent.document.getElementById("o").textContent = JSON.stringify(found);
}, 100));
</script>"""
FRAME = """<!doctype html><output id="o"></output>
<iframe src="figure.html" style="width:360px;height:2000px;border:0"></iframe>"""


def put_page(folder: Path, name: str) -> Path:
    """Write a page that shows the figure 360 pixels wide, moves each of its controls, and says what happened."""
    scripts, source = FIGURES[name]
    holder = f'<div class="{name}"{f" data-source={source}" if source else ""}><p>without JavaScript</p></div>'
    tags = "".join(f'<script src="{script}.js"></script>' for script in scripts)
    for script in scripts:
        shutil.copy(SCRIPTS / f"{script}.js", folder)
    shutil.copy(ROOT / "book" / "_static" / "book.css", folder)
    style = '<link rel="stylesheet" href="book.css"><style>body{margin:0}article{padding:1rem}</style>'
    probe = PROBE.replace("NAME", json.dumps(name.split()[0]))
    body = f'<article class="bd-article">{holder}{tags}{tags}</article>{probe}'
    page = f'<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8">{style}{body}</html>'
    (folder / "figure.html").write_text(page, encoding="utf-8")
    (folder / "frame.html").write_text(FRAME, encoding="utf-8")
    return folder / "frame.html"


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_a_page_moves_without_a_kernel_and_fits_a_telephone(name, tmp_path):
    command = [CHROMIUM, *FLAGS, NO_HOST, "--allow-file-access-from-files", "--virtual-time-budget=3000"]
    command += [f"--user-data-dir={tmp_path}/profile"]
    page = put_page(tmp_path, name)
    run = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120)
    assert [line for line in run.stderr.splitlines() if "CONSOLE" in line] == []
    found = json.loads(re.search(r'<output id="o">(\{.*?\})</output>', run.stdout, re.DOTALL).group(1))
    assert found["first"] and found["changed"] and all(found["changed"].values()), found
    assert found["small"] == found["pale"] == []
    assert found["last"] != found["first"] == found["print"] and found["back"] == found["last"]
    assert found["width"] <= found["room"] <= 360
