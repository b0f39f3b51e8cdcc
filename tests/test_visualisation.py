"""Figures: what they show is what they were given, labelled, with an alternative text, and small."""

import base64
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from transformer_lib import visualisation
from transformer_lib.visualisation import clouds, scale, style


def one_map(**arguments):
    weights = torch.tensor([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]])
    return visualisation.attention_maps({"weights": weights}, **arguments)


def test_a_figure_is_displayed_once_with_its_text_and_a_small_picture(monkeypatch):
    displayed = []
    monkeypatch.setattr(style, "display", lambda data, metadata, raw: displayed.append((data, metadata, raw)))
    visualisation.show(one_map(), alt="three rows of two weights")
    ((data, metadata, raw),) = displayed
    assert raw and metadata["image/png"]["alt"] == "three rows of two weights"
    picture = base64.b64decode(data["image/png"])
    assert picture.startswith(b"\x89PNG") and len(picture) < 80 * 1024


def test_the_same_figure_gives_the_same_bytes():
    assert style.png(one_map()) == style.png(one_map())


@pytest.mark.parametrize("alt", ["", "  "])
def test_a_figure_without_a_text_is_refused(alt):
    with pytest.raises(ValueError, match="alt must say what the figure shows"):
        visualisation.show(one_map(), alt=alt)


def test_a_map_shows_its_weights_with_queries_down_and_keys_across():
    figure = one_map(queries=["a", "b", "c"], keys=["x", "y"])
    axes = figure.axes[0]
    assert axes.images[0].get_array().tolist() == [[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]
    assert axes.images[0].get_clim() == (0, 1)
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("query", "key")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x", "y"]


def test_a_number_on_a_map_can_be_read_on_its_colour():
    weights = torch.linspace(0, 1, 100).view(10, 10)
    axes = visualisation.attention_maps({"weights": weights}).axes[0]
    grounds = axes.images[0].cmap(axes.images[0].norm(weights.flatten().numpy()))
    for text, ground in zip(axes.texts, grounds, strict=True):
        both = sorted((luminance(text.get_color()), luminance(ground)), reverse=True)
        assert (both[0] + 0.05) / (both[1] + 0.05) >= 4.5, text.get_text()  # WCAG 2.2, 1.4.3


def luminance(colour) -> float:
    parts = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour))
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


@pytest.mark.parametrize("names", [{"queries": ["a", "b"]}, {"keys": ["x", "y", "z"]}])
def test_swapped_token_lists_are_found_out(names):
    with pytest.raises(ValueError, match="must name [23] tokens, one each, got"):
        one_map(**names)


@pytest.mark.parametrize("weights", [[[0.5, 1.2]], [[-0.1, 0.4]]])
def test_what_cannot_be_weights_is_refused(weights):
    with pytest.raises(ValueError, match="must be from 0 to 1"):
        visualisation.attention_maps({"scores": torch.tensor(weights)})


def panel(**changes):
    settings = {"title": "t", "x_label": "length (tokens)", "y_label": "loss (nats)"}
    return visualisation.Panel(**{**settings, "series": {"with scale, a": ([1, 2], [3, 4])}, **changes})


def test_curves_draw_the_given_numbers_on_labelled_axes():
    figure = visualisation.curves(panel(), panel(log="xy"))
    for axes in figure.axes:
        assert axes.lines[0].get_xydata().tolist() == [[1, 3], [2, 4]]
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("length (tokens)", "loss (nats)")
    assert [axes.get_xscale() for axes in figure.axes] == ["linear", "log"]


def test_series_of_a_group_have_one_colour_and_one_entry_in_the_legend():
    series = {name: ([1, 2], [3, 4]) for name in ("with scale, a", "with scale, b", "without scale, a")}
    (axes,) = visualisation.curves(panel(series=series)).axes
    colours = [line.get_color() for line in axes.lines]
    assert colours == [visualisation.COLOURS[role] for role in ("with", "with", "without")]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["with scale", "without scale"]


@pytest.mark.parametrize("series", [{}, {"a": ([1, 2], [3])}])
def test_curves_without_matching_numbers_are_refused(series):
    with pytest.raises(ValueError, match="got"):
        visualisation.curves(panel(series=series))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=3, max_size=12, unique=True))
def test_the_hull_holds_every_point_and_its_corners_are_points(points):
    cloud = torch.tensor(points, dtype=torch.float32)
    corners = clouds.convex_hull(cloud)
    assert {tuple(corner) for corner in corners.tolist()} <= {tuple(point) for point in cloud.tolist()}
    angles = torch.linspace(0, 2 * math.pi, 97)
    directions = torch.stack([angles.cos(), angles.sin()])
    torch.testing.assert_close((corners @ directions).amax(0), (cloud @ directions).amax(0))


def test_a_square_with_its_middle_has_four_corners():
    points = torch.tensor([[0.0, 0], [2, 0], [2, 2], [0, 2], [1, 1], [1, 0]])
    assert sorted(clouds.convex_hull(points).tolist()) == [[0, 0], [0, 2], [2, 0], [2, 2]]


def test_clouds_draw_the_given_points_and_refuse_others():
    points = torch.tensor([[0.0, 0], [2, 0], [1, 2]])
    (axes,) = visualisation.point_clouds({"t": {"value": points}}).axes
    assert axes.collections[0].get_offsets().tolist() == points.tolist()
    for role, wrong in (("values", points), ("value", torch.zeros(3, 3))):
        with pytest.raises(ValueError, match="roles must be among"):
            visualisation.point_clouds({"t": {role: wrong}})


def test_the_four_steps_highlight_what_is_asked_and_refuse_other_names():
    titles = {text.get_text(): text.get_fontweight() for text in visualisation.four_steps(["compare"]).axes[0].texts}
    assert titles["2 compare"] == "bold" and titles["1 project"] == "normal"
    with pytest.raises(ValueError, match="got multiply"):
        visualisation.four_steps(["multiply"])


@pytest.mark.parametrize("d_k", [1, 64])
def test_a_state_of_the_control_is_the_softmax_of_the_scores(d_k):
    query, key = scale.vectors(draw=2, d_k=d_k)
    for scaled, divisor in ((True, math.sqrt(d_k)), (False, 1.0)):
        shown = scale.state(2, d_k, scaled, temperature=2.0)
        weights = ((query * key).sum(-1) / divisor / 2.0).softmax(dim=0)
        torch.testing.assert_close(torch.tensor(shown.weights), weights)
        assert shown.entropy == pytest.approx(-(weights * weights.log()).nan_to_num().sum().item(), abs=1e-5)


@pytest.mark.parametrize(("draw", "d_k", "temperature"), [(6, 64, 1.0), (0, 63, 1.0), (0, 64, 0.0)])
def test_settings_that_the_control_does_not_have_are_refused(draw, d_k, temperature):
    with pytest.raises(ValueError, match="got"):
        scale.state(draw, d_k, True, temperature)


def test_the_control_draws_anew_when_a_knob_turns():
    box = scale.control()
    picture = box.children[-1]
    before = bytes(picture.value)
    box.children[0].children[1].value = True  # divide by the root of d_k
    expected = style.png(scale.figure(scale.state(0, 64, True, 1.0)))
    assert bytes(picture.value) != before and bytes(picture.value) == expected
