"""What readers are told about their answers, and how their answers take the library's places."""

import ast
import cProfile
import math
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import grading_cases as cases
import numpy as np
import pytest
import torch
from nbgrader.nbgraderformat.v3 import MetadataValidatorV3
from torch import nn

from tools import ROOT, cells, exercise_data
from transformer_lib import attention, encoder_decoder, exercises, fast
from transformer_lib.attention import attention_weights as imported_weights
from transformer_lib.exercises import checking, comparison, diagnosis, protocols, relations, store, values
from transformer_lib.exercises.declared import Case, Exercise, KnownMistake, Outcome, Probe
from transformer_lib.multi_head import MultiHeadAttention
from transformer_lib.observe import record_attention
from transformer_lib.training import smoothed_loss

SOLUTIONS = cells.notebooks(ROOT, "solutions")
STUBS = cells.notebooks(ROOT, "exercises")


@pytest.fixture(autouse=True)
def _library_as_it_was():
    before = attention.attention_weights
    yield
    exercises.reset()
    assert attention.attention_weights is before and exercises.in_use() == ()


def right(query, key, mask=None):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0.0)


def check(change) -> exercises.Feedback:
    return exercises.check("2.1", lambda *arguments: change(right(*arguments)))


def stub(query, key, mask=None):
    raise NotImplementedError("not attempted yet")


def ellipsis(query, key, mask=None): ...


@pytest.mark.parametrize("answer", [None, ..., stub, ellipsis, lambda *_: ...])
def test_what_isnt_there_is_not_attempted(answer):
    feedback = exercises.check("2.1", answer)
    assert feedback.status == "not attempted yet" and not feedback
    assert repr(feedback).startswith("2.1 not attempted yet")


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w,
        lambda w: w.double(),
        lambda w: w.mT.contiguous().mT,
        lambda w: w + 1e-6,
        lambda w: w.requires_grad_(),
        lambda w: nn.Parameter(w),
    ],
)
def test_the_form_of_right_numbers_is_free(change):
    assert check(change).status == "right"


def test_parameters_may_have_other_names():
    assert exercises.check("2.1", lambda a, b, c=None: right(a, b, c))


def test_editing_the_inputs_does_not_spoil_the_check():
    def answer(query, key, mask=None):
        result = right(query, key, mask)
        query.zero_(), key.fill_(7.0)
        return result

    feedback = exercises.check("2.1", answer)
    assert feedback.status == "wrong" and "it changes its argument key and query in place" in " ".join(
        feedback.text.split()
    )
    assert exercises.check("2.1", right).text.count("\n") == 0
    example = exercises.example("2.1")
    example["query"].zero_()
    assert exercises.example("2.1")["query"].abs().max() > 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda w: w * 0 + 0.25, "Every number is 0.250"),
        (lambda w: w / math.sqrt(2), "times the right one"),
        (lambda w: w + 0.02, "Every number is too large by 0.020"),
        (lambda w: w.flip(-1), "in reverse order along axis -1"),
        (lambda w: w.roll(1, -1), "moved by one place along axis -1"),
        (lambda w: w.unsqueeze(-1), "with an axis of size 1 too many"),
        (lambda w: w.flatten(), "in another shape"),
        (lambda w: w.mT, "axes 0 and 1 exchanged"),
        (lambda w: w.half(), "Half precision"),
        (lambda w: w.sqrt(), "Your rows sum to "),
        (lambda w: w * (1 + torch.arange(w.size(-2)))[:, None], "Your rows sum to "),
        (lambda w: torch.where(torch.arange(w.size(-1)) == 0, w * 1.2, w), "Your rows sum"),
        (lambda w: w * math.nan, "NaN"),
        (lambda w: w.log(), None),
        (lambda w: (w > 0.3).long(), "should be floating point"),
        (lambda w: w > 0.3, "should be floating point"),
        (lambda w: w.to(torch.complex64), "should be floating point"),
        (lambda w: w.numpy(), "A tensor was wanted (torch.from_numpy"),
        (lambda w: w.tolist(), "A tensor was wanted, yours is a list"),
        (lambda w: (w, w), "A tensor was wanted, yours is a tuple"),
        (lambda w: "weights", "A tensor was wanted, yours is a str"),
        (lambda w: w.to_sparse(), None),
        (lambda w: w[..., :0], "The shape should be [2, 3]"),
    ],
)
def test_an_unknown_mistake_is_compared_with_the_right_answer(change, said):
    feedback = check(change)
    assert not feedback and feedback.misconception is None
    assert said is None or said in feedback.text, feedback


@pytest.mark.parametrize(
    ("scale", "said"),
    [(2.5, "2.500 times the right ones"), (1 / 3, "0.333"), (1 / 4**0.25, "0.707 = 1/sqrt(2), 2 being")],
)
def test_a_wrong_scale_inside_the_softmax_is_found(scale, said):
    feedback = exercises.check("2.1", lambda q, k, mask=None: right(q * scale, k, mask))
    assert "softmax of scores that are" in feedback.text and said in feedback.text


def test_a_factor_that_two_sizes_explain_is_not_named():
    four_and_two = {"query": torch.zeros(2, 4), "key": torch.zeros(3, 4)}
    assert relations.named(2.0, four_and_two) == "2.000"
    assert relations.named(4.0, four_and_two) == "4.000 = 4, 4 being the size of query's axis -1,"
    assert relations.named(3**0.5, {"query": torch.zeros(3, 5), "key": torch.zeros(5, 3)}) == "1.732 = sqrt(3)"


@pytest.mark.parametrize(
    ("number", "answer", "said"),
    [
        ("2.1", lambda q, k, m=None: right(q, k, m).log(), "logarithms of the right numbers"),
        ("2.1", lambda q, k, m=None: right(q, k, m) * 2 - 1 / k.size(-2), "Some weights are negative (the smallest"),
        ("2.1", lambda q, k, m=None: right(q, k, m) / q.size(-2), "Your rows sum to 1 all together"),
        ("2.1", lambda q, k, m: right(q, k, m) ** 2, "No mask is passed here: it may be None"),
        ("2.1", lambda q, k, m=None: (q @ k.mT).masked_fill(m == 0, -9.0).softmax(-1), "No mask is passed here"),
        ("2.1", lambda q, k, m=None: (right(q, k) >= right(q, k).amax(-1, True)).float(), "as from an argmax"),
        ("7.1", lambda x, y, smoothing, padding: smoothed_loss(x, y, smoothing, padding), "give it a default"),
        ("2.2", lambda q, k, a, b, v: (q @ a.T @ v)[..., None].expand(*q.shape[:-1], k.size(-2)), "all along axis -1"),
        ("2.2", lambda q, k, a, b, v: torch.sin(q @ a.T + k @ b.T) @ v, "axes don't line up"),
        (
            "2.3",
            lambda m, s: m.expand(s.shape) if m.dtype == torch.bool and m.dim() > 1 and m.shape[-1] != 5 else None,
            "where TypeError was wanted: None comes back",
        ),
        ("2.5", lambda a, b, c, d: a, "2 parts: a tensor of shape [2, 3], a tensor of shape [2]"),
        ("2.5", lambda a, b, c, d: (a, b), "part 0 of what you return"),
        ("2.1", lambda q, k, m=None: right(q, k, m) if q.dim() < 4 else right(q, k, m).flip(-1) ** 2, ", head "),
    ],
)
def test_what_is_said_names_the_part_and_the_trouble(number, answer, said):
    feedback = exercises.check(number, answer)
    assert not feedback and said in feedback.text, feedback


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("got (2, 1, 1, 5)"), "ValueError is right, but its text lacks [2, 2, 3, 4]"),
        (AssertionError(), "python -O leaves it out: raise ValueError"),
        (RuntimeError("expand"), "RuntimeError is raised where ValueError was wanted. It comes from inside torch"),
    ],
)
def test_a_wrong_error_is_told_from_the_right_one(error, said):
    fitted = {d.id: d for d in exercise_data.probes()}["2.3"].reference

    def answer(mask, scores):
        if mask.shape == (2, 1, 1, 5):
            raise error
        return fitted(mask, scores)

    text = " ".join(exercises.check("2.3", answer).text.split())
    assert said in text and "text holds both shapes: [2, 1, 1, 5] and [2, 2, 3, 4]" in text


def test_what_fails_is_narrowed_down():
    def unscaled_mask(query, key, mask=None):
        weights = right(query, key)
        return weights if mask is None else weights + ~mask * 0.3

    def first_two_axes(query, key, mask=None):
        return right(query, key, mask) if query.dim() == 2 else right(query, key, mask) * 2

    assert "Without mask all is right" in exercises.check("2.1", unscaled_mask).text
    assert "Without batch dimensions all is right" in exercises.check("2.1", first_two_axes).text


@pytest.mark.parametrize(
    ("shape", "place", "said"),
    [
        ((1, 20), (0, 15), ", columns 11 to 18, differing most at row 0, column 15"),
        ((20, 3), (19, 2), ", rows 12 to 19, differing most at row 19, column 2"),
        ((30,), (9,), ", numbers 5 to 12, differing most at number 9"),
        (
            (2, 3, 12, 30),
            (1, 2, 10, 29),
            ", batch 1, head 2, rows 4 to 11, columns 22 to 29, differing most at row 10, column 29",
        ),
        ((8, 8), (7, 7), ""),
        ((), (), ""),
    ],
)
@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.float32])
def test_the_place_where_two_tables_differ_is_shown(shape, place, said, kind):
    wanted = torch.zeros(shape, dtype=kind)
    got = wanted.clone()
    got[place] = 1
    part, (expected, came) = comparison.compared(Outcome(got), Outcome(wanted), Case("any", {}))
    assert part == said and expected.removeprefix("  expected") != came.removeprefix("  got     ")


def test_the_place_where_two_long_lists_differ_is_shown():
    numbers = [(i, i + 1) for i in range(100)]
    other = [list(pair) for pair in numbers]
    other[70][1] = 7
    part, lines = comparison.compared(Outcome(other), Outcome(tuple(numbers)), Case("any", {}))
    assert part == ", part 70 of what you return" and "[70, 71]" in lines[0] and "[70, 7]" in lines[1]
    part, lines = comparison.compared(Outcome("a" * 300 + "b"), Outcome("a" * 300 + "c"), Case("any", {}))
    assert lines[0].endswith("c'") and lines[1].endswith("b'") and "... " in lines[0]


def test_a_list_in_place_of_a_tuple_is_no_difference():
    _, lines = comparison.compared(Outcome([[1], [2, 3]]), Outcome(((1,), (2, 3), (4,))), Case("any", {}))
    assert lines == ["  expected  [[1], [2, 3], [4]]", "  got       [[1], [2, 3]]"]


def test_two_mistakes_at_once_are_told_apart():
    def unscaled_and_ignoring_empty_rows(query, key, mask=None):
        scores = query @ key.mT
        return (scores if mask is None else scores.masked_fill(~mask, -1e9)).softmax(-1)

    feedback = exercises.check("2.1", unscaled_and_ignoring_empty_rows)
    assert feedback.status == "wrong" and "aren't divided by sqrt(d_k)" in " ".join(feedback.text.split())
    assert re.search(r"On \d+ of the \d+ inputs that come out wrong", feedback.text)


@pytest.mark.parametrize("error", [ValueError("odd"), SystemExit(1), RecursionError(), AssertionError("no")])
def test_an_error_is_reported_and_stops_nothing(error):
    def answer(query, key, mask=None):
        raise error

    feedback = exercises.check("2.1", answer)
    assert feedback.status == "error" and type(error).__name__ in feedback.text


def test_an_error_on_some_inputs_is_shown_with_the_input():
    feedback = exercises.check("2.1", lambda query, key: right(query, key))
    assert "takes 2 positional arguments but 3 were given" in feedback.text
    assert 'attention_weights(*exercises.example("2.1", "padding mask").values())' in feedback.text


def test_a_result_in_place_of_the_function_is_explained():
    feedback = exercises.check("2.1", torch.zeros(2, 3))
    assert feedback.status == "error" and "pass attention_weights itself" in feedback.text


def test_an_answer_that_knows_the_public_inputs_fails_on_fresh_ones():
    exercise = store.load("2.1")

    def remembered(query, key, mask=None):
        for case, outcome in zip(exercise.cases, exercise.right, strict=True):
            if case.inputs["query"].equal(query):
                return outcome.value
        return query @ key.mT

    feedback = exercises.check("2.1", remembered)
    assert not feedback and "on other numbers" in feedback.text


def test_an_answer_for_float32_only_is_refused():
    feedback = exercises.check("2.1", lambda q, k, m=None: right(q.float(), k, m))
    assert feedback.status == "wrong" and "in float64 it raises RuntimeError" in " ".join(feedback.text.split())


def test_a_right_answer_that_rounds_is_told_so():
    feedback = exercises.check("2.1", lambda *arguments: right(*arguments).float())
    assert feedback.status == "right" and "Note: given float64, it returns float32" in feedback.text


def test_an_answer_for_contiguous_memory_only_is_refused():
    def viewed(query, key, mask=None):
        return right(query.view(-1).view(query.shape), key, mask)

    feedback = exercises.check("2.1", viewed)
    assert feedback.status == "wrong" and "view doesn't" in " ".join(feedback.text.split())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: ~m, "True and False are exchanged"),
        (lambda m: m.mT, "queries and keys, exchanged"),
        (lambda m: m.flip(-1), "in reverse order along axis -1"),
        (lambda m: m | torch.eye(4, dtype=torch.bool).roll(1, 1), "3 of 16 places are True where False was wanted"),
        (lambda m: m & ~torch.eye(4, dtype=torch.bool), "4 of 16 places are False where True was wanted"),
    ],
)
def test_how_a_mask_differs_is_told(change, said):
    wanted = torch.ones(4, 4, dtype=torch.bool).tril()
    assert said in diagnosis.hints(change(wanted), wanted, {}, 1e-4)[0]


def test_of_two_mistakes_alike_where_it_is_wrong_the_one_right_elsewhere_is_named():
    def fitted(mask, scores):  # broadcast_shapes raises an error of its own where nothing fits
        if mask.dtype != torch.bool:
            raise TypeError(f"must be boolean, got {mask.dtype}")
        if torch.broadcast_shapes(mask.shape, scores.shape) != scores.shape:
            raise ValueError(f"must fit {list(scores.shape)}, got {list(mask.shape)}")
        return mask.expand(scores.shape)

    assert exercises.check("2.3", fitted).misconception == "RuntimeError of broadcast_shapes"

    def nearly(mask, scores):  # whose dtype isn't told, so that no known mistake equals it everywhere
        if mask.dtype != torch.bool:
            raise TypeError("must be boolean")
        return fitted(mask, scores)

    said = " ".join(exercises.check("2.3", nearly).text.split())
    assert "an error of its own" in said or "RuntimeError" in said and "stretched too" not in said


def test_numbers_that_sum_to_one_by_chance_are_no_weights():
    def rates(weights, sure, possible):  # both counts in the denominator are the links found
        found = torch.nn.functional.one_hot(weights.argmax(-1), weights.size(-1)).bool()
        hits = [(found & links[:, None]).sum(dim=(0, 2, 3)) for links in (sure, possible)]
        return 1 - (hits[0] + hits[1]) / (2 * found.sum(dim=(0, 2, 3)))

    feedback = exercises.check("6.6", rates)
    assert not feedback and "sum to" not in feedback.text


def test_close_is_said_only_if_all_that_is_wrong_is_close():
    def off(w, most):  # the first number of each row alone, by much or by little
        return w + torch.eye(w.size(-1), dtype=w.dtype)[0] * (1e-3 if w.dim() == 2 else most)

    assert "Close, but off by" in check(lambda w: off(w, 1e-3)).text
    assert "Close, but off by" not in check(lambda w: off(w, 0.1)).text


@pytest.mark.parametrize(("factor", "said"), [(1.5, None), (1 / math.log(2), "On this input yours is 1.443 = 1/ln(2)")])
def test_of_a_single_number_only_a_factor_with_a_name_is_told(factor, said):
    wanted = torch.tensor([0.7])
    found = " ".join(diagnosis.hints(wanted * factor, wanted, {}, 1e-4))
    assert said in found if said else "times" not in found and "too large" not in found


def test_what_is_not_finite_is_told_by_its_kind():
    wanted = torch.tensor([[0.5, 0.5, 1.0]])
    for number, said in ((math.inf, "infinite: a division by 0"), (-math.inf, "-inf: the logarithm of 0")):
        assert said in diagnosis.hints(torch.tensor([[number, 0.5, 1.0]]), wanted, {}, 1e-4)[0]
    both = diagnosis.hints(torch.tensor([[math.inf, math.nan, 1.0]]), wanted, {}, 1e-4)[0]
    assert both.startswith("2 of 3 numbers are NaN or infinite")


def test_a_piece_that_samples_may_cut_the_gradient():
    def nucleus(logits, p):
        if p == 1:
            return logits.detach()
        ordered, order = logits.detach().double().sort(dim=-1, descending=True, stable=True)
        probability = ordered.softmax(dim=-1)
        gone = probability.cumsum(dim=-1) - probability >= p
        return logits.detach().masked_fill(torch.zeros_like(gone).scatter(-1, order, gone), -math.inf)

    feedback = exercises.check("8.1", nucleus)
    assert feedback and "gradient" not in feedback.text
    with exercises.use(top_p_logits=nucleus) as swap:
        assert swap.used == ("top_p_logits",)


def test_feedback_reads_the_same_each_time():
    texts = {repr(check(lambda w: w.flip(-1))) for _ in range(2)}
    assert len(texts) == 1 and "-0.000" not in texts.pop()


def test_unknown_numbers_are_named():
    with pytest.raises(ValueError, match="must be one of .*2.1, .*got '9.9'"):
        exercises.check("9.9", right)
    with pytest.raises(ValueError, match="'small'.*got 'huge'"):
        exercises.example("2.1", "huge")


def test_an_open_question_shows_what_is_looked_for():
    feedback = exercises.check("2.6", "Too small, by 2.83.")
    assert feedback.status == "open" and not feedback
    assert "4 words" in feedback.text and "1 point:" in feedback.text


# the kinds that chapter 02 has no exercise of


class Affine(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return nn.functional.dropout(self.linear(x), 0.5, self.training)


class Own(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.W, self.b = nn.Parameter(torch.empty(width, width)), nn.Parameter(torch.empty(width))

    def forward(self, x):
        return x @ self.W.T + self.b


class Transposed(Own):
    def forward(self, x):
        return x @ self.W + self.b


def module_exercise() -> Exercise:
    state = {"linear.weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "linear.bias": torch.tensor([0.5, -0.5])}
    case = Case("small", {"x": torch.tensor([[1.0, -2.0]])}, {"width": 2}, state)
    names = {"linear.weight": "W", "linear.bias": "b"}
    wrong, _ = protocols.run("module", Transposed, case, names)
    reference, _ = protocols.run("module", Affine, case)
    about = {"id": "9.1", "title": "affine", "points": 1, "minutes": 1, "difficulty": 1}
    known = (KnownMistake("transposed", "It's transposed.", (wrong,)),)
    made = Exercise(
        **about, kind="module", entry="Affine", tolerance=1e-4, cases=(case,), right=(reference,), wrong=known
    )
    return store.parsed(store.written(made))


class WithConstant(Affine):
    """Keeps a constant in a buffer, as many people do with a scale."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.register_buffer("one", torch.tensor(1.0))

    def forward(self, x):
        return super().forward(x) * self.one


def test_a_module_may_keep_constants_in_buffers():
    assert checking.judge(module_exercise(), WithConstant)


def in_float32(query, key, mask=None):
    """Return the weights with the softmax in float32, whatever comes in, as many libraries compute it."""
    scores = query @ key.mT / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


def in_part_detached(query, key, mask=None):
    weights = in_float32(query, key, mask)
    return 0.97 * weights + 0.03 * weights.detach()


def test_a_gradient_is_judged_through_the_rounding_of_float32():
    assert "No gradient" not in (text := exercises.check("2.1", in_float32).text) and "no gradient" not in text
    assert "no gradient" in exercises.check("2.1", in_part_detached).text


def test_where_a_function_is_asked_for_any_callable_will_do():
    class Weights(torch.nn.Module):
        def forward(self, query, key, mask=None):
            return right(query, key, mask)

    assert exercises.check("2.1", Weights())


def test_a_module_is_given_its_parameters_under_its_own_names():
    exercise, names = module_exercise(), {"linear.weight": "W", "linear.bias": "b"}
    assert checking.judge(exercise, Affine)
    assert checking.judge(exercise, Own, names)
    assert checking.judge(exercise, Transposed, names).misconception == "transposed"
    assert "pass Affine itself" in checking.judge(exercise, Affine(2)).text
    feedback = checking.judge(exercise, Own)
    assert feedback.status == "error" and "got W [2, 2], b [2]" in feedback.text and "names=" in feedback.text


class Counting(Affine):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) + (self.calls > 1)


class Cut(Affine):
    def forward(self, x):
        return super().forward(x).detach() + self.linear(x) * 0


class CutInTraining(Affine):
    def forward(self, x):
        return self.linear(x.detach() if self.training else x)


class Dropping(Affine):
    def forward(self, x):
        return super().forward(torch.nn.functional.dropout(x, 0.3, self.training))


class Copied(Affine):
    def forward(self, x):
        return x @ self.linear.weight.data.T + self.linear.bias


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Counting, "in a second call something else"),
        (Cut, "with gradients it raises"),
        (Copied, "with gradients"),
        (CutInTraining, "isn't the slope of what it returns in training"),
    ],
)
def test_a_module_must_do_the_same_again_and_pass_gradients_on(answer, said):
    feedback = checking.judge(module_exercise(), answer)
    assert feedback.status == "wrong" and said in " ".join(feedback.text.split()), feedback


def test_a_module_may_drop_numbers_in_training():
    assert checking.judge(module_exercise(), Dropping)


def test_a_function_must_do_the_same_again():
    held = []

    def growing(query, key, mask=None):
        held.append(query)
        return right(query, key, mask) if sum(q is query for q in held) < 2 else right(query, key, mask) * 0

    assert "in a second call" in " ".join(exercises.check("2.1", growing).text.split())


@pytest.mark.parametrize(
    ("own", "cross"),
    [(lambda c: None, lambda c: c[1]), (lambda c: c[0], lambda c: None), (lambda c: c[1], lambda c: c[0])],
)
def test_a_decoder_layer_must_hand_its_caches_on(own, cross):
    class Layer(encoder_decoder.DecoderLayer):
        def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
            x = self.residuals[0](x, lambda y: self.self_attention(y, y, mask, own(caches)))
            x = self.residuals[1](x, lambda y: self.cross_attention(y, memory, memory_mask, cross(caches)))
            return self.residuals[2](x, self.feed_forward)

    assert exercises.check("6.1", Layer).misconception == "caches not handed on"


def test_an_error_must_be_of_its_class_and_say_enough():
    case = Case("negative", {"x": -1}, mentions=("-1",))
    outcome = Outcome(errors=("ValueError", "Exception", "BaseException"), message="-1")
    about = {"id": "9.2", "title": "root", "points": 1, "minutes": 1, "difficulty": 1}
    exercise = Exercise(**about, kind="error", entry="root", tolerance=1e-4, cases=(case,), right=(outcome,))

    def raising(error):
        def answer(x):
            raise error

        return answer

    class Special(ValueError):
        pass

    assert checking.judge(exercise, raising(ValueError("x must be at least 0, got -1")))
    assert checking.judge(exercise, raising(Special("got -1")))
    assert not checking.judge(exercise, raising(ValueError("wrong")))
    assert not checking.judge(exercise, raising(TypeError("got -1")))
    assert "expected  ValueError, whose text holds -1" in checking.judge(exercise, lambda x: 0.0).text


# a reader's own part in the library


def test_an_answer_takes_the_librarys_place_until_reset():
    calls = []

    def mine(query, key, mask=None):
        calls.append(query.shape)
        return right(query, key, mask)

    x = torch.randn(2, 5, 8)
    layer = MultiHeadAttention(8, 2)
    before = layer(x, x)
    swap = exercises.use(attention_weights=mine)
    assert swap.used == ("attention_weights",) == exercises.in_use()
    assert repr(swap) == "The library now runs on your own attention_weights."
    calls.clear()
    torch.testing.assert_close(layer(x, x), before)
    assert calls == [torch.Size([2, 2, 5, 4])]
    exercises.reset()
    layer(x, x)
    assert len(calls) == 1 and exercises.in_use() == ()


def test_as_a_context_manager_it_ends_with_the_block():
    own = attention.attention_weights
    with exercises.use(attention_weights=right):
        assert attention.attention_weights is right
        with exercises.use(attention_weights=lambda *a: right(*a)):
            assert attention.attention_weights is not right
        assert attention.attention_weights is right
    assert attention.attention_weights is own and exercises.in_use() == ()
    with pytest.raises(KeyError), exercises.use(attention_weights=right):
        raise KeyError
    assert attention.attention_weights is own


def test_blocks_that_end_out_of_order_leave_the_library_as_it_was():
    own = attention.attention_weights
    first, second = (exercises.use(attention_weights=answer) for answer in (right, lambda *a: right(*a)))
    later = attention.attention_weights
    with second:
        first.__exit__(None, None, None)
        assert attention.attention_weights is later
    assert attention.attention_weights is own and exercises.in_use() == ()


def test_the_librarys_own_piece_is_no_answer_whatever_is_in_its_place():
    own = attention.attention_weights
    assert "which is what you are to write yourself" in " ".join(exercises.check("2.1", own).text.split())
    with exercises.use(attention_weights=right):
        with pytest.raises(ValueError, match="must pass its check"), exercises.use(attention_weights=own):
            pass
        assert attention.attention_weights is right
        assert exercises.check("2.1", right) and not exercises.check("2.1", own)
    assert attention.attention_weights is own and exercises.in_use() == ()


def test_a_reset_inside_a_block_is_not_undone_by_its_end():
    own = attention.attention_weights
    with exercises.use(attention_weights=lambda *a: right(*a)), exercises.use(attention_weights=right):
        exercises.reset()
        assert attention.attention_weights is own
    assert attention.attention_weights is own and exercises.in_use() == ()


@pytest.mark.parametrize("answer", [stub, None, lambda q, k, m=None: (q @ k.mT).softmax(-1)])
def test_an_answer_that_isnt_right_is_refused_with_its_feedback(answer):
    own = attention.attention_weights
    swap = exercises.use(attention_weights=answer)
    assert attention.attention_weights is own and swap.used == ()
    assert "keeps its own attention_weights" in repr(swap) and "2.1 not" in repr(swap)
    with pytest.raises(ValueError, match="must pass its check"), swap:
        pass


def test_a_check_says_what_use_will_refuse():
    for cut in (lambda w: w.detach(), lambda w: w.detach() + 0 * w, lambda w: torch.tensor(w.tolist())):
        feedback = exercises.check("2.1", lambda *arguments, cut=cut: cut(right(*arguments)))
        assert feedback and "But no gradient flows back through it, or a wrong one" in feedback.text
        assert "will refuse it" in feedback.text
    with exercises.use(attention_weights=right):
        assert exercises.check("2.1", right).text.count("\n") == 0


def roundabout(query, key, mask=None):
    return attention.attend(query, key, torch.eye(key.size(-2)).to(key).expand(*key.shape[:-1], -1), mask)


@pytest.mark.parametrize("answer", [lambda *inputs: attention.attention_weights(*inputs), imported_weights, roundabout])
def test_an_answer_that_calls_what_it_is_to_be_is_refused(answer):
    own = attention.attention_weights
    assert "it calls the library's attention_weights" in " ".join(exercises.check("2.1", answer).text.split())
    swap = exercises.use(attention_weights=answer)
    assert attention.attention_weights is own and "it calls the library's" in repr(swap)


@pytest.mark.parametrize(
    "way", ["in a thread", "under a profiler", "after a long loop", "in a forked process", "when it's looked at"]
)
def test_by_whatever_way_an_answer_runs_what_it_is_to_be_it_is_refused(way):
    [cell], space = cases.roundabout("answer")[way], {}
    exec(cell, space)
    feedback = exercises.check("2.1", space["answer"])
    assert "it calls the library's attention_weights" in " ".join(feedback.text.split())


def test_an_answer_of_ones_own_may_run_in_a_thread_and_under_a_profiler():
    def threaded(*inputs):
        return ThreadPoolExecutor(1).submit(cProfile.Profile().runcall, right, *inputs).result()

    assert exercises.check("2.1", threaded)


@pytest.mark.slow
def test_a_class_that_calls_its_parent_is_no_answer():
    class Inherited(encoder_decoder.DecoderLayer):
        def forward(self, *arguments):
            return super().forward(*arguments)

    for answer in (Inherited, encoder_decoder.DecoderLayer):
        assert "it calls the library's DecoderLayer" in " ".join(exercises.check("6.1", answer).text.split())


def test_asking_whether_an_answer_borrows_leaves_a_profiler_in_place():
    events = []

    def mine(frame, event, argument):
        events.append(event)

    sys.setprofile(mine)
    try:
        exercises.check("2.1", right)
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("cut", [lambda w: w.detach(), lambda w: torch.tensor(w.tolist())])
def test_an_answer_that_cannot_learn_is_refused(cut):
    answer = lambda *arguments: cut(right(*arguments))  # noqa: E731
    assert exercises.check("2.1", answer)
    refused = repr(exercises.use(attention_weights=answer))
    assert "no gradient flows" in refused and "can't take its place yet" in refused and "isn't right" not in refused


def test_unknown_pieces_are_named():
    with pytest.raises(ValueError, match="can be replaced are .*attention_weights.*, got attention_wieghts"):
        exercises.use(attention_wieghts=right)


def test_the_fast_forms_do_not_pass_a_readers_part_by():
    calls = []

    def mine(query, key, mask=None):
        calls.append(1)
        return right(query, key, mask)

    x, layer = torch.randn(2, 5, 8), MultiHeadAttention(8, 2)
    with fast.enabled():
        assert attention.attend is fast.attend
        with pytest.raises(ValueError, match="outside fast.enabled"):
            exercises.use(attention_weights=mine)
    exercises.use(attention_weights=mine)
    calls.clear()
    clear = attention.attend
    with fast.enabled():
        layer(x, x)
        assert calls == [1] and attention.attend is clear
    exercises.reset()
    with fast.enabled():
        layer(x, x)
    assert calls == [1] and attention.attend is clear


# values


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([[0.5, -math.inf], [math.nan, 1e-30]]),
        torch.zeros(0, 3),
        torch.tensor(True),
        torch.arange(4),
        (torch.ones(2), None, 3, 2.5, True, "word"),
        {"a": torch.ones(1), "b": (1, 2)},
        math.inf,
    ],
)
def test_what_is_written_is_read_back(value):
    back = values.decode(values.encode(value))
    if isinstance(value, dict):
        back, value = tuple(back.values()), tuple(value.values())
    assert values.same(back, value, 0.0)


@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        (torch.ones(2), torch.ones(3)),
        (torch.ones(2), torch.ones(2, 1)),
        (torch.ones(2).bool(), torch.ones(2)),
        (torch.ones(2), torch.ones(2, dtype=torch.long)),
        (torch.tensor([math.nan]), torch.zeros(1)),
        (True, 1.0),
        (1, True),
        (np.ones(2), torch.ones(2)),
        ((torch.ones(2),), (torch.ones(2), torch.ones(2))),
    ],
)
def test_unlike_values_are_not_the_same(got, wanted):
    assert not values.same(got, wanted, 1.0)


def test_values_of_another_kind_cannot_be_stored():
    with pytest.raises(TypeError, match="tensors, numbers or strings, got set"):
        values.encode({1, 2})


# the tool that makes the values


def planted(**changes) -> Probe:
    probe = next(d for d in exercise_data.probes() if d.id == "2.1")
    fields = {name: getattr(probe, name) for name in probe.__dataclass_fields__} | changes
    return Probe(**fields)


@pytest.mark.slow
def test_inputs_that_saturate_the_softmax_are_found_out():
    def saturated(seed: int) -> list[Case]:
        key = torch.eye(4)
        return [Case("saturated", {"query": 1000 * key, "key": key})]

    found = exercise_data.confusions(planted(cases=saturated), exercise_data.built(planted(cases=saturated)))
    assert any('"no scale" and the right answer differ by less' in problem for problem in found)


@pytest.mark.slow
def test_a_tolerance_too_wide_is_found_out():
    probe = planted(tolerance=0.2)
    found = exercise_data.confusions(probe, exercise_data.built(probe))
    assert any("half as large would pass" in problem for problem in found)


@pytest.mark.slow
def test_a_wrong_reference_is_found_out_by_the_right_answers():
    probe = planted(reference=lambda q, k, m=None: right(q, k, m) * 0.99)
    found = exercise_data.confusions(probe, exercise_data.built(probe))
    assert any("loop must be accepted" in problem for problem in found)


def test_files_are_compared_up_to_the_last_digits():
    text = store.written(store.load("2.1"))
    number = re.search(r"0\.\d{6,}", text).group(0)
    assert exercise_data.alike(text, text.replace(number, str(float(number) * (1 + 1e-7))))
    assert not exercise_data.alike(text, text.replace(number, str(float(number) * 1.01)))
    assert not exercise_data.alike(text, text.replace("softmax", "hardmax"))


@pytest.mark.slow
def test_stale_missing_and_orphaned_files_are_found_and_mended(tmp_path):
    folder = tmp_path / "solutions" / "02_attention"
    folder.mkdir(parents=True)
    (folder / "probes.py").write_text((ROOT / "solutions" / "02_attention" / "probes.py").read_text(encoding="utf-8"))
    assert any(problem.endswith("2.1.json: missing") for problem in exercise_data.problems(tmp_path))
    assert exercise_data.main(["--write"], tmp_path) == 0
    data = tmp_path / "transformer_lib" / "exercise_data"
    (data / "2.2.json").write_text((data / "2.2.json").read_text(encoding="utf-8").replace("tanh", "sinh"))
    (data / "9.9.json").write_text("{}")
    found = exercise_data.problems(tmp_path)
    assert len(found) == 2 and "2.2.json: stale" in found[0] and "9.9.json: no probes" in found[1]
    assert exercise_data.write(tmp_path) == ["transformer_lib/exercise_data/2.2.json: written"]


# the notebooks


def ran(path) -> dict[str, object]:
    """Run a notebook's code cells here; return each cell's id -> the value that its last line has."""
    space: dict[str, object] = {}
    found = {}
    for cell in cells.read(path).cells:
        if cell.cell_type == "code":
            *statements, last = cells.tree(cell.source).body
            value = hasattr(last, "value") and type(last).__name__ == "Expr"
            exec(compile(ast.Module(statements if value else [*statements, last], []), cell.id, "exec"), space)
            if value:
                found[cell.id] = eval(compile(ast.Expression(last.value), cell.id, "eval"), space)
    return found


def checks(path) -> dict[str, exercises.Feedback]:
    return {name: value for name, value in ran(path).items() if isinstance(value, exercises.Feedback)}


@pytest.mark.slow
@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.parent.name)
def test_a_solution_notebook_passes_every_check(path):
    found = checks(path)
    numbers = {d.id for d in exercise_data.load(path.with_name("probes.py")).PROBES}
    assert {feedback.exercise for feedback in found.values()} == numbers
    assert all(feedback.status == "right" for feedback in found.values()), found
    assert not [name for name, feedback in found.items() if "will refuse it" in str(feedback)]  # exercises.use


@pytest.mark.parametrize("path", STUBS, ids=lambda path: path.parent.name)
def test_an_exercise_notebook_runs_to_its_end_with_every_stub_failing_softly(path, capsys):
    found = checks(path)
    solution = ROOT / "solutions" / path.parent.name / "probes.py"
    assert {feedback.exercise for feedback in found.values()} == {d.id for d in exercise_data.load(solution).PROBES}
    assert all(feedback.status == "not attempted yet" for feedback in found.values()), found
    assert exercises.in_use() == ()


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.parent.name)
def test_a_notebook_is_in_nbgraders_format_with_the_probes_points(path):
    notebook = cells.read(path)
    MetadataValidatorV3().validate_nb(notebook)
    graded = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    module = exercise_data.load(path.with_name("probes.py"))
    points = {d.id: d.points for d in (*module.PROBES, *module.QUESTIONS)}
    written = {
        c.metadata.nbgrader.grade_id.partition("-")[2].replace("-", "."): c.metadata.nbgrader.points for c in graded
    }
    assert written == points


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.parent.name)
def test_each_entry_is_defined_in_the_notebook_and_each_exercise_says_what_it_takes(path):
    notebook = cells.read(path)
    text = "\n".join(cell.source for cell in notebook.cells)
    module = exercise_data.load(path.with_name("probes.py"))
    for probe in module.PROBES:
        assert f"def {probe.entry}(" in text or f"class {probe.entry}(" in text
        assert f"## Exercise {probe.id}: {probe.title}" in text
    for asked in (*module.PROBES, *module.QUESTIONS):
        assert f"*{asked.minutes} minutes, " in text and f"{asked.points} points.*" in text
    hints = text.count("<details><summary>Hint ")
    assert hints == 2 * len(module.PROBES)
    for question in module.QUESTIONS:
        assert f"**Answer {question.id}**" in text
        assert all(f"- {points} point: {line}" in text for points, line, _ in question.rubric)


@pytest.mark.parametrize("path", STUBS, ids=lambda path: path.parent.name)
def test_no_solution_is_left_in_an_exercise_notebook(path):
    text = "\n".join(cell.source for cell in cells.read(path).cells)
    assert "SOLUTION" not in text and "logaddexp(logsum_a" not in text
    assert text.count('raise NotImplementedError("not attempted yet")') >= 5


def test_pieces_are_not_swapped_while_attention_is_watched():
    own = attention.attention_weights

    def mine(query, key, mask=None):
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return scores.softmax(dim=-1).nan_to_num(0.0)

    model = MultiHeadAttention(8, 2)
    with record_attention(model), pytest.raises(ValueError, match="outside record_attention"):
        exercises.use(attention_weights=mine)
    assert attention.attention_weights is own and exercises.in_use() == ()
    exercises.use(attention_weights=mine)
    try:
        with record_attention(model), pytest.raises(ValueError, match="outside record_attention"):
            exercises.reset()
        assert exercises.in_use() == ("attention_weights",)
    finally:
        exercises.reset()
    assert attention.attention_weights is own
