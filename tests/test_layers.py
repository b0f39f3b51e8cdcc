"""The feed-forward network and the residual connection against their formulas, the norm against torch's."""

import pytest
import torch
from torch import nn
from twins import gradients, randomise

from transformer_lib import layers

X = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(1)).double()


def test_the_feed_forward_network_follows_equation_2():
    network = layers.FeedForward(8, 16).double()
    w1, b1, w2, b2 = network.inner.weight, network.inner.bias, network.outer.weight, network.outer.bias
    expected = (X @ w1.T + b1).clamp(min=0) @ w2.T + b2
    torch.testing.assert_close(network(X), expected)
    parts = [w1, b1, w2, b2]
    for mine, other in zip(gradients(network(X), parts), gradients(expected, parts), strict=True):
        torch.testing.assert_close(mine, other)


def test_no_position_sees_another_in_the_feed_forward_network():
    network = layers.FeedForward(8, 16).double()
    torch.testing.assert_close(network(X)[:, 1:2], network(X[:, 1:2]))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_norm_stands_where_it_is_said_to_stand(norm):
    residual = layers.Residual(8, norm=norm).double()
    randomise(residual)

    def sublayer(y):
        return y.flip(-1) ** 2

    def normed(y):  # by hand: the biased variance, eps inside the root
        y = (y - y.mean(-1, keepdim=True)) / (y.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
        return y * residual.norm.weight + residual.norm.bias

    expected = X + sublayer(normed(X)) if norm == "pre" else normed(X + sublayer(X))
    torch.testing.assert_close(residual(X, sublayer), expected)


def test_the_norm_is_torchs():
    assert type(layers.Residual(8).norm) is nn.LayerNorm
    assert layers.Residual(8).norm.eps == nn.LayerNorm(8).eps == 1e-5


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_dropout_falls_on_the_sublayers_output_alone_and_only_in_training(norm):
    residual = layers.Residual(8, dropout=0.5, norm=norm)
    x = torch.randn(1, 200, 8)
    contributions = []
    residual.dropout.register_forward_hook(lambda module, inputs, output: contributions.append(output))
    kept = residual(x, torch.ones_like)
    assert set(contributions[0].unique().tolist()) == {0.0, 2.0}
    torch.testing.assert_close(kept, x + contributions[0] if norm == "pre" else residual.norm(x + contributions[0]))
    residual.eval()
    torch.testing.assert_close(residual(x, torch.ones_like), x + 1 if norm == "pre" else residual.norm(x + 1))


def test_a_sublayer_that_returns_zero_leaves_a_pre_norm_stream_untouched():
    assert layers.Residual(8, norm="pre").double()(X, torch.zeros_like).equal(X)


def test_the_activation_is_a_relu_unless_gelu_is_asked_for():
    x = torch.randn(2, 3, 8)
    plain, smooth = layers.FeedForward(8, 12), layers.FeedForward(8, 12, "gelu")
    smooth.load_state_dict(plain.state_dict())
    inner = plain.inner(x)
    torch.testing.assert_close(plain(x), plain.outer(inner.clamp(min=0)))
    normal = torch.distributions.Normal(0.0, 1.0)
    torch.testing.assert_close(smooth(x), plain.outer(inner * normal.cdf(inner)))
