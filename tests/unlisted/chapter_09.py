"""Answers to chapter 09's exercises that its probes don't list: wrong ones, and more right ones."""

import torch
import torch.nn.functional as F

from transformer_lib import ablation

# 9.1


def checked(weights, other, heads):
    if weights.shape != other.shape:
        raise ValueError(f"{list(weights.shape)} and {list(other.shape)} differ")
    for head in heads:
        if not 0 <= head < weights.size(1):
            raise ValueError(f"no head {head}")


def put(weights, other, heads):
    edited = weights.clone()
    for head in heads or range(weights.size(1)):
        edited[:, head] = other[:, head]
    return edited


def patching(guard=checked, edit=put):
    def answer(weights, other, heads):
        guard(weights, other, heads)
        return edit(weights, other, heads)

    return answer


def in_place(weights, other, heads):
    for head in heads or range(weights.size(1)):
        weights[:, head] = other[:, head]
    return weights


def other_in_place(weights, other, heads):
    for head in range(weights.size(1)):
        if heads and head not in heads:
            other[:, head] = weights[:, head]
    return other


def the_same_tensor(weights, other, heads):
    return other if not heads else put(weights, other, heads)


def first_sentence(weights, other, heads):
    edited = weights.clone()
    for head in heads or range(weights.size(1)):
        edited[0, head] = other[0, head]
    return edited


def first_head_if_none(weights, other, heads):
    return put(weights, other, heads or (0,))


def up_to_the_head(weights, other, heads):
    edited = weights.clone()
    last = max(heads, default=weights.size(1) - 1)
    edited[:, : last + 1] = other[:, : last + 1]
    return edited


def sorted_heads(weights, other, heads):
    edited = weights.clone()
    if heads:
        edited[:, sorted(heads)] = other[:, list(heads)]
        return edited
    return other.clone()


def renormalised(weights, other, heads):
    return put(weights, other, heads).log_softmax(-1).exp()


def heads_shape_only(weights, other, heads):
    if weights.shape[:2] != other.shape[:2]:
        raise ValueError(f"{list(weights.shape)} and {list(other.shape)} differ")
    checked(weights, weights, heads)
    if weights.shape != other.shape:
        raise ValueError(f"{list(weights.shape)} and {list(other.shape)} differ")


def sizes_only(weights, other, heads):
    if weights.dim() != other.dim() or weights.size(-1) != other.size(-1) or len(weights) != len(other):
        raise ValueError(f"{list(weights.shape)} and {list(other.shape)} differ")
    checked(weights, weights, heads)


def batch_of_one(weights, other, heads):
    if len(other) not in (1, len(weights)) or weights.shape[1:] != other.shape[1:]:
        raise ValueError(f"{list(weights.shape)} and {list(other.shape)} differ")
    if len(other) == 1 and len(weights) == 3:
        raise ValueError(f"{list(weights.shape)} and {list(other.shape)} differ")
    checked(weights, weights, heads)


def heads_of_first(weights, other, heads):
    checked(weights, other, heads[:1])
    if len(heads) > 1 and max(heads) >= weights.size(1):
        raise ValueError(f"no head {max(heads)}")


def one_too_many(weights, other, heads):
    if weights.shape != other.shape:
        raise ValueError(f"{list(weights.shape)} and {list(other.shape)} differ")
    for head in heads:
        if head < 0 or head >= 5 and head >= weights.size(1) or head == weights.size(1) == 4:
            raise ValueError(f"no head {head}")


def minus_one(weights, other, heads):
    checked(weights, other, [h for h in heads if h >= -1])
    if any(h == -1 for h in heads):
        raise ValueError("no head -1")


def empty_refused(weights, other, heads):
    checked(weights, other, heads)
    if len(set(heads)) != len(heads):
        raise ValueError(f"heads named twice: {heads}")


def count_told(weights, other, heads):
    if weights.shape != other.shape:
        raise ValueError(f"{list(weights.shape)} and {list(other.shape)} differ")
    if any(not 0 <= h < weights.size(1) for h in heads):
        raise ValueError(f"there are {weights.size(1)} heads")


def all_heads_first(weights, other, heads):
    return patching()(weights, other, heads) if len(heads) else other.clone()


def by_count(weights, other, heads):
    if weights.numel() != other.numel():
        raise ValueError(f"{list(weights.shape)} and {list(other.shape)} differ")
    checked(weights, weights, heads)


def patched_by_cat(weights, other, heads):
    checked(weights, other, heads)
    sources = [other if not heads or h in heads else weights for h in range(weights.size(1))]
    return torch.cat([source[:, h : h + 1] for h, source in enumerate(sources)], dim=1)


def patched_by_library(weights, other, heads):
    checked(weights, other, heads)
    return ablation.replace_heads(other, *heads)(weights)


def patched_by_numbers(weights, other, heads):
    checked(weights, other, heads)
    share = torch.zeros(weights.size(1), dtype=weights.dtype)
    share[list(heads) or slice(None)] = 1
    return torch.lerp(weights, other, share[:, None, None])


# 9.2


def replaced(mean):
    def answer(outputs, words, head):
        edited = outputs.clone()
        edited[:, head] = mean(outputs[:, head], words)
        return edited

    return answer


def own_mean(found, words):
    return found[words].mean(0)


def outputs_in_place(outputs, words, head):
    outputs[:, head] = own_mean(outputs[:, head], words)
    return outputs


def first_head(outputs, words, head):
    edited = outputs.clone()
    edited[:, 0] = own_mean(outputs[:, head], words)
    return edited


def mean_of_all_heads(outputs, words, head):
    edited = outputs.clone()
    edited[:, head] = outputs.transpose(1, 2)[words].mean((0, 1))
    return edited


def other_heads_mean(outputs, words, head):
    edited = outputs.clone()
    rest = [h for h in range(outputs.size(1)) if h != head] or [head]
    edited[:, head] = outputs[:, rest].mean(1)
    return edited


def padding_zeroed(outputs, words, head):
    edited = replaced(own_mean)(outputs, words, head)
    edited[:, head] *= words[..., None]
    return edited


def all_padding_zero(outputs, words, head):
    return replaced(own_mean)(outputs, words, head) * words[:, None, :, None]


def the_mean_alone(outputs, words, head):
    return own_mean(outputs[:, head], words).expand_as(outputs[:, head])


def words_in_front(found, words):
    count = words.sum(1)
    kept = torch.arange(words.size(1)) < count[:, None]
    return found[kept].mean(0)


def centred(outputs, words, head):
    edited = outputs.clone()
    edited[:, head] = outputs[:, head] - own_mean(outputs[:, head], words)
    return edited


def head_from_one(outputs, words, head):
    return replaced(own_mean)(outputs, words, max(head - 1, 0))


def mean_by_weights(outputs, words, head):
    share = words.to(outputs.dtype) / words.sum()
    mean = torch.einsum("bn,bnd->d", share, outputs[:, head])
    rows = [mean.expand(len(words), words.size(1), -1) if h == head else o for h, o in enumerate(outputs.unbind(1))]
    return torch.stack(rows, 1)


def mean_by_where(outputs, words, head):
    kept = outputs.double()[:, head].reshape(-1, outputs.size(-1))[words.reshape(-1)]
    chosen = (torch.arange(outputs.size(1)) == head).view(1, -1, 1, 1)
    return torch.where(chosen, kept.sum(0) / kept.size(0), outputs.double())


# 9.3


def answers(x, place, W_q, W_k, readout, scale=None):
    asking = x[torch.arange(len(x)), place]
    scores = torch.einsum("bc,bnc->bn", asking @ W_q, x @ W_k) / (scale or W_q.size(1) ** 0.5)
    return torch.einsum("bn,bnd,d->b", scores.softmax(-1), x, readout)


def gradient(x, *rest, **more):
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        return torch.autograd.grad(answers(leaf, *rest, **more).sum(), leaf)[0]


def times(finish):
    return lambda x, *rest: finish(x, gradient(x, *rest))


def x_made_to_collect(x, *rest):
    with torch.enable_grad():
        found = torch.autograd.grad(answers(x.requires_grad_(), *rest).sum(), x)[0]
        return (x * found).sum(-1).detach()


def first_place(x, place, W_q, W_k, readout):
    return (x * gradient(x, place[:1].expand_as(place), W_q, W_k, readout)).sum(-1)


def place_0(x, place, W_q, W_k, readout):
    return (x * gradient(x, torch.zeros_like(place), W_q, W_k, readout)).sum(-1)


def only_the_place(x, place, W_q, W_k, readout):
    found = (x * gradient(x, place, W_q, W_k, readout)).sum(-1)
    return found * F.one_hot(place, x.size(1))


def without_scale(x, *rest):
    return (x * gradient(x, *rest, scale=1.0)).sum(-1)


def first_answer(x, place, W_q, W_k, readout):
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        found = torch.autograd.grad(answers(leaf, place, W_q, W_k, readout)[0], leaf)[0]
    return (x * found).sum(-1)


def centred_input(x, *rest):
    return ((x - x.mean(1, keepdim=True)) * gradient(x, *rest)).sum(-1)


def integrated(x, *rest):
    return sum((x * gradient(x * share, *rest)).sum(-1) for share in (0.25, 0.5, 0.75, 1.0)) / 4


def occluded(x, *rest):
    whole, found = answers(x, *rest), []
    for i in range(x.size(1)):
        hidden = x.clone()
        hidden[:, i] = 0
        found.append(whole - answers(hidden, *rest))
    return torch.stack(found, 1)


def readout_only(x, place, W_q, W_k, readout):
    asking = x[torch.arange(len(x)), place]
    weights = (torch.einsum("bc,bnc->bn", asking @ W_q, x @ W_k) / W_q.size(1) ** 0.5).softmax(-1)
    return weights * x.sum(-1)


def keys_held_fast(x, place, W_q, W_k, readout):
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        asking = leaf[torch.arange(len(x)), place]
        scores = torch.einsum("bc,bnc->bn", asking @ W_q, x @ W_k) / W_q.size(1) ** 0.5
        answer = torch.einsum("bn,bnd,d->b", scores.softmax(-1), leaf, readout)
        found = torch.autograd.grad(answer.sum(), leaf)[0]
    return (x * found).sum(-1)


def times_by_forward(x, place, W_q, W_k, readout):
    found = []
    for i in range(x.size(1)):
        direction = torch.zeros_like(x)
        direction[:, i] = x[:, i]
        _, change = torch.func.jvp(lambda x: answers(x, place, W_q, W_k, readout), (x,), (direction,))
        found.append(change)
    return torch.stack(found, 1)


def times_by_sentence(x, place, W_q, W_k, readout):
    rows = []
    for b in range(len(x)):
        one = gradient(x[b : b + 1].double(), place[b : b + 1], W_q.double(), W_k.double(), readout.double())[0]
        rows.append(torch.einsum("nd,nd->n", one, x[b].double()))
    return torch.stack(rows)


# 9.4


def rolled(mix=lambda w: w.mean(2), bypass=lambda a, eye: (a + eye) / 2, order=1):
    def answer(weights):
        eye = torch.eye(weights.size(-1), dtype=weights.dtype)
        layers = [bypass(layer, eye) for layer in mix(weights)][::order]
        total = layers[0]
        for layer in layers[1:]:
            total = layer @ total
        return total

    return answer


def two_layers(weights):
    return rolled()(weights[:2])


def renormalised_ones(weights):
    total = rolled(bypass=lambda a, eye: a + eye)(weights)
    return total / total.sum(-1, keepdim=True) if len(weights) == 1 else total / 2


def halves_at_the_end(weights):
    return rolled(bypass=lambda a, eye: a + eye)(weights) / 2


def square_of_one(weights):
    return torch.linalg.matrix_power(rolled()(weights[:1]), len(weights))


def weights_in_place(weights):
    weights.mul_(0.5)
    weights += torch.eye(weights.size(-1)) / 2
    total = torch.eye(weights.size(-1), dtype=weights.dtype)
    for layer in weights.mean(2):
        total = layer @ total
    return total


def heads_apart(weights):
    eye = torch.eye(weights.size(-1), dtype=weights.dtype)
    total = eye
    for layer in weights:
        total = (layer + eye) / 2 @ total
    return total.mean(1)


def bypass_bigger(weights):
    return rolled(bypass=lambda a, eye: 0.4 * a + 0.6 * eye)(weights)


def without_first_bypass(weights):
    eye = torch.eye(weights.size(-1), dtype=weights.dtype)
    total = weights[0].mean(1)
    for layer in weights[1:].mean(2):
        total = (layer + eye) / 2 @ total
    return total


def all_stages(weights):
    eye = torch.eye(weights.size(-1), dtype=weights.dtype)
    found = [eye.expand(weights.size(1), -1, -1)]
    for layer in weights.mean(2):
        found.append((layer + eye) / 2 @ found[-1])
    return torch.stack(found[1:])


def batch_and_layer_exchanged(weights):
    return rolled()(weights.transpose(0, 1)) if weights.size(0) == weights.size(1) else rolled()(weights)


def rollout_by_bmm(weights):
    batch, n = weights.size(1), weights.size(-1)
    total = torch.eye(n).repeat(batch, 1, 1).to(weights)
    for layer in range(weights.size(0)):
        step = weights[layer].sum(1) / weights.size(2) / 2 + torch.eye(n).to(weights) / 2
        total = torch.bmm(step, total)
    return total


def rollout_by_vectors(weights):
    depth, batch, _, n, _ = weights.shape
    out = torch.zeros(batch, n, n, dtype=torch.float64)
    for j in range(n):
        vector = torch.zeros(batch, n, dtype=torch.float64)
        vector[:, j] = 1
        for layer in range(depth):
            vector = (torch.einsum("bqk,bk->bq", weights[layer].double().mean(1), vector) + vector) / 2
        out[:, :, j] = vector
    return out


# 9.5


def probed(vectors, label, template, known=None, asked=None, nearest=None, numbers=None):
    found = []
    for number in template.unique() if numbers is None else numbers:
        train = template != number if known is None else known(template, number)
        test = template == number if asked is None else asked(template, number)
        centres = torch.stack([vectors[train & (label == c)].mean(0) for c in (0, 1)])
        said = (nearest or (lambda v, c: torch.cdist(v, c).argmin(-1)))(vectors[test], centres)
        found.append((said == label[test]).to(vectors.dtype).mean())
    return torch.stack(found)


def numbers_to_largest(vectors, label, template):
    return probed(vectors, label, template, numbers=range(int(template.max()) + 1))


def numbers_by_count(vectors, label, template):
    return probed(vectors, label, template, numbers=range(len(template.unique())))


def numbers_as_they_come(vectors, label, template):
    return probed(vectors, label, template, numbers=dict.fromkeys(template.tolist()))


def rows_for_every_number(vectors, label, template):
    return numbers_to_largest(vectors, label, template).nan_to_num(0.0)


def next_template(vectors, label, template):
    last = int(template.max())
    return probed(vectors, label, template, asked=lambda t, n: t == (n + 1) % (last + 1))


def earlier_templates(vectors, label, template):
    return probed(vectors, label, template, known=lambda t, n: (t < n) if n > 0 else (t > n))


def first_template_only(vectors, label, template):
    return probed(vectors, label, template)[:1].expand(int(template.max()) + 1)


def city_blocks(vectors, label, template):
    return probed(vectors, label, template, nearest=lambda v, c: torch.cdist(v, c, p=1).argmin(-1))


def farthest(vectors, label, template):
    return probed(vectors, label, template, nearest=lambda v, c: torch.cdist(v, c).argmax(-1))


def nearest_neighbour(vectors, label, template):
    found = []
    for number in template.unique():
        train, test = template != number, template == number
        near = torch.cdist(vectors[test], vectors[train]).argmin(-1)
        found.append((label[train][near] == label[test]).to(vectors.dtype).mean())
    return torch.stack(found)


def majority(vectors, label, template):
    found = []
    for number in template.unique():
        said = (label[template != number].float().mean() > 0.5).long()
        found.append((said == label[template == number]).to(vectors.dtype).mean())
    return torch.stack(found)


def centred_vectors(vectors, label, template):
    moved = torch.zeros_like(vectors)
    for number in template.unique():
        rows = template == number
        moved[rows] = vectors[rows] - vectors[rows].mean(0)
    return probed(moved, label, template)


def mean_of_template_means(vectors, label, template):
    found = []
    for number in template.unique():
        centres = []
        for c in (0, 1):
            own = [vectors[(template == t) & (label == c)].mean(0) for t in template.unique() if t != number]
            centres.append(torch.stack(own).mean(0))
        said = torch.cdist(vectors[template == number], torch.stack(centres)).argmin(-1)
        found.append((said == label[template == number]).to(vectors.dtype).mean())
    return torch.stack(found)


def sums_for_means(vectors, label, template):
    found = []
    for number in template.unique():
        train, test = template != number, template == number
        centres = torch.stack([vectors[train & (label == c)].sum(0) for c in (0, 1)])
        found.append((torch.cdist(vectors[test], centres).argmin(-1) == label[test]).to(vectors.dtype).mean())
    return torch.stack(found)


def in_order_of_size(vectors, label, template):
    numbers = torch.bincount(template).argsort(descending=True)
    return probed(vectors, label, template, numbers=numbers)


def balanced(vectors, label, template):
    found = []
    for number in template.unique():
        train, test = template != number, template == number
        centres = torch.stack([vectors[train & (label == c)].mean(0) for c in (0, 1)])
        right = (torch.cdist(vectors[test], centres).argmin(-1) == label[test]).to(vectors.dtype)
        found.append((right[label[test] == 0].mean() + right[label[test] == 1].mean()) / 2)
    return torch.stack(found)


def probed_by_loop(vectors, label, template):
    rates = []
    for number in sorted({int(t) for t in template}):
        centre = {}
        for c in (0, 1):
            own = [v for v, k, t in zip(vectors.double(), label, template, strict=True) if t != number and k == c]
            centre[c] = sum(own) / len(own)
        asked = [(v, int(k)) for v, k, t in zip(vectors.double(), label, template, strict=True) if t == number]
        right = [int((v - centre[1]).norm() < (v - centre[0]).norm()) == k for v, k in asked]
        rates.append(sum(right) / len(right))
    return torch.tensor(rates, dtype=vectors.dtype)


def probed_by_products(vectors, label, template):
    found = []
    for number in template.unique():
        train, test = template != number, template == number
        centres = torch.stack([vectors[train & (label == c)].mean(0) for c in (0, 1)])
        closeness = vectors[test] @ centres.T - centres.square().sum(-1) / 2
        found.append(closeness.argmax(-1).eq(label[test]).to(vectors.dtype).mean())
    return torch.stack(found)


# 9.6


def share(flip):
    def answer(margin, patched):
        return flip(margin, patched).to(margin.dtype).mean(-1)

    return answer


def rounded(margin, patched):
    return (patched[..., margin > 0] < 0).to(margin.dtype).mean(-1).round(decimals=1)


def integers(margin, patched):
    right = margin > 0
    return (patched[..., right] < 0).sum(-1) // right.sum()


def half_is_a_flip(margin, patched):
    return (patched[..., margin > 0] < 0.5).to(margin.dtype).mean(-1)


def sure_answers_only(margin, patched):
    return (patched[..., margin > 0.5] < 0).to(margin.dtype).mean(-1)


def first_layer(margin, patched):
    return ((patched[:1][..., margin > 0] < 0).to(margin.dtype).mean(-1)).expand(patched.shape[:2])


def last_head(margin, patched):
    return ((patched[:, -1:][..., margin > 0] < 0).to(margin.dtype).mean(-1)).expand(patched.shape[:2])


def over_layers(margin, patched):
    return (patched[..., margin > 0] < 0).to(margin.dtype).mean(0).mean(-1).expand(patched.shape[:2])


def heads_first(margin, patched):
    return (patched[..., margin > 0] < 0).to(margin.dtype).mean(-1).T


def signs_of_the_mean(margin, patched):
    return (patched[..., margin > 0].mean(-1) < 0).to(margin.dtype)


def percent(margin, patched):
    return 100 * (patched[..., margin > 0] < 0).to(margin.dtype).mean(-1)


def margin_in_place(margin, patched):
    patched[..., margin < 0] = 1.0
    return (patched < 0).sum(-1) / (margin > 0).sum()


def right_afterwards(margin, patched):
    flipped = (margin > 0) & (patched < 0)
    return flipped.to(margin.dtype).sum(-1) / (patched > 0).to(margin.dtype).sum(-1).clamp(min=1)


def shares_by_einsum(margin, patched):
    right = margin.gt(0).double()
    return torch.einsum("lhs,s->lh", patched.lt(0).double(), right) / right.sum()


def shares_by_signs(margin, patched):
    right = [i for i, m in enumerate(margin.tolist()) if m > 0]
    turned = (1 - torch.sign(patched)) / 2
    return sum(turned[:, :, i] for i in right) / len(right)


WRONG = {
    "9.1": {
        "the library's": patched_by_library,
        "weights in place": patching(edit=in_place),
        "other in place": patching(edit=other_in_place),
        "first sentence": patching(edit=first_sentence),
        "first head where none is named": patching(edit=first_head_if_none),
        "up to the head": patching(edit=up_to_the_head),
        "heads sorted": patching(edit=sorted_heads),
        "softmax again": patching(edit=renormalised),
        "some sizes only": patching(sizes_only),
        "a batch of one": patching(batch_of_one),
        "one too many let through": patching(one_too_many),
        "first head checked": patching(heads_of_first),
        "minus one only": patching(minus_one),
        "heads named twice refused": patching(empty_refused),
        "count told": patching(count_told),
        "all heads before the check": all_heads_first,
        "numbers counted": patching(by_count),
    },
    "9.2": {
        "outputs in place": outputs_in_place,
        "first head": first_head,
        "mean of all heads": mean_of_all_heads,
        "the other heads": other_heads_mean,
        "padding zero": padding_zeroed,
        "all padding zero": all_padding_zero,
        "the mean alone": the_mean_alone,
        "words in front": replaced(words_in_front),
        "mean taken off": centred,
        "head before": head_from_one,
    },
    "9.3": {
        "x made to collect gradients": x_made_to_collect,
        "first sentence's place": first_place,
        "place 0": place_0,
        "only the place": only_the_place,
        "no scale": without_scale,
        "first answer": first_answer,
        "input centred": centred_input,
        "integrated": integrated,
        "words taken out": occluded,
        "readout left out": readout_only,
        "keys held fast": keys_held_fast,
        "squares": times(lambda x, g: (x * g).square().sum(-1)),
        "lengths": times(lambda x, g: x.norm(dim=-1) * g.norm(dim=-1)),
    },
    "9.4": {
        "two layers": two_layers,
        "halved once": halves_at_the_end,
        "rows divided at the end": renormalised_ones,
        "a power of the first": square_of_one,
        "weights in place": weights_in_place,
        "heads apart": heads_apart,
        "a larger bypass": bypass_bigger,
        "first layer without bypass": without_first_bypass,
        "all stages": all_stages,
        "batch and layers exchanged": batch_and_layer_exchanged,
    },
    "9.5": {
        "next template asked": next_template,
        "earlier templates": earlier_templates,
        "first template for all": first_template_only,
        "city blocks": city_blocks,
        "farthest": farthest,
        "nearest neighbour": nearest_neighbour,
        "majority": majority,
        "templates centred": centred_vectors,
        "mean of the templates' means": mean_of_template_means,
        "sums": sums_for_means,
        "in order of size": in_order_of_size,
        "balanced": balanced,
        "numbers up to the largest": numbers_to_largest,
        "as many numbers as templates": numbers_by_count,
        "template numbers as they come": numbers_as_they_come,
        "a row for every number": rows_for_every_number,
    },
    "9.6": {
        "rounded": rounded,
        "whole numbers": integers,
        "half is a flip": half_is_a_flip,
        "sure answers only": sure_answers_only,
        "first layer for all": first_layer,
        "last head for all": last_head,
        "mean of the layers": over_layers,
        "heads first": heads_first,
        "sign of the mean": signs_of_the_mean,
        "percent": percent,
        "patched in place": margin_in_place,
        "divided by those right afterwards": right_afterwards,
    },
}

RIGHT = {
    "9.1": {"cat": patched_by_cat, "lerp": patched_by_numbers},
    "9.2": {"weighed": mean_by_weights, "where, float64": mean_by_where},
    "9.3": {"forward mode": times_by_forward, "sentence by sentence, float64": times_by_sentence},
    "9.4": {"bmm": rollout_by_bmm, "vectors, float64": rollout_by_vectors},
    "9.5": {"loops": probed_by_loop, "products": probed_by_products},
    "9.6": {"einsum": shares_by_einsum, "signs": shares_by_signs},
}
