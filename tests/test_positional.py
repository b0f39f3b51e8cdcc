"""Positions by the properties that the chapter claims for them."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_lib import positional

LENGTH, D_MODEL = 50, 16


def pairs(table: torch.Tensor) -> torch.Tensor:
    return table.double().unflatten(-1, (-1, 2))  # [position wave (sine, cosine)]


@pytest.mark.parametrize(("length", "d_model"), [(1, 2), (7, 6), (LENGTH, D_MODEL)])
def test_sinusoids_follow_the_papers_formula(length, d_model):
    table = positional.sinusoidal_positions(length, d_model)
    assert table.shape == (length, d_model) and table.dtype == torch.get_default_dtype()
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            expected = torch.tensor([math.sin(angle), math.cos(angle)])
            torch.testing.assert_close(table[position, 2 * i : 2 * i + 2], expected, atol=1e-5, rtol=0)


def test_positions_run_over_the_first_axis_and_differ():
    table = positional.sinusoidal_positions(LENGTH, D_MODEL)
    assert torch.cdist(table, table).add(10 * torch.eye(LENGTH)).min() > 0.5
    assert len(table.unique(dim=0)) == LENGTH


@given(st.integers(0, 40))
def test_a_shift_is_one_rotation_for_all_positions(shift):
    table = pairs(positional.sinusoidal_positions(LENGTH + shift, D_MODEL))
    angle = shift * 10000.0 ** (-torch.arange(0, D_MODEL, 2).double() / D_MODEL)
    sine, cosine = table[:LENGTH].unbind(dim=-1)
    turned = torch.stack([sine * angle.cos() + cosine * angle.sin(), cosine * angle.cos() - sine * angle.sin()], dim=-1)
    torch.testing.assert_close(turned, table[shift:], atol=1e-5, rtol=0)


def test_the_dot_product_of_two_positions_depends_on_their_distance_alone():
    table = positional.sinusoidal_positions(LENGTH, D_MODEL).double()
    products = table @ table.T
    for distance in range(LENGTH):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-5, rtol=0)
    assert products[0].argmax() == 0 and products[0, 0].item() == pytest.approx(D_MODEL / 2, abs=1e-5)


def test_wavelengths_reach_from_2_pi_towards_10000_times_2_pi():
    length = 20_000
    table = pairs(positional.sinusoidal_positions(length, D_MODEL))
    for i in range(D_MODEL // 2):
        wavelength = 2 * math.pi * 10000 ** (2 * i / D_MODEL)
        rising = ((table[:-1, i, 0] < 0) & (table[1:, i, 0] >= 0)).sum().item()
        assert rising == pytest.approx(length / wavelength, abs=1.5)


def test_a_table_of_learnt_positions_gives_the_rows_asked_for():
    learned = positional.LearnedPositions(6, 4)
    assert learned(3).equal(learned.table[:3])
    assert learned(2, first=4).equal(learned.table[4:])
    assert learned(6).shape == (6, 4)


def test_learnt_positions_learn():
    learned = positional.LearnedPositions(6, 4)
    learned(2, first=1).sum().backward()
    assert learned.table.grad.tolist() == [[0.0] * 4, [1.0] * 4, [1.0] * 4, [0.0] * 4, [0.0] * 4, [0.0] * 4]


def test_learnt_positions_start_as_large_as_scaled_embeddings_need():
    table = positional.LearnedPositions(1000, 64).table
    assert table.std().item() == pytest.approx(64**-0.5, rel=0.02) and abs(table.mean().item()) < 0.005


def test_the_scheme_that_does_nothing_does_nothing():
    scheme = positional.PositionScheme()
    x = torch.randn(1, 2, 3, 4)
    assert scheme.rotate(x, 5) is x and scheme.bias(x, 3, 0) is None
