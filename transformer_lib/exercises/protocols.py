"""How an answer is called, by the exercise's kind. A new kind is one function here and its name in `MAKE`.

- `function`: the answer is called with the case's inputs, by position.
- `error`: the same; some of its cases must raise.
- `bug`: the same; the answer is a function whose planted bugs have been mended.
- `module`: the answer is a class. It is made with the case's `constructor`, given the case's `state`, and called with
  the inputs. Its parameters must have the state's names, or the caller gives a mapping from those to its own.
- `prose` is read by a person and never called.

Whether it's called once or in another way, `ways` says.

The place of `sampler` (and of a training step) is here, too: chance never comes from within an answer. Noise, batches
and the state before the step are inputs of the case, and what comes back are values like any other.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from transformer_lib.exercises import values, ways
from transformer_lib.exercises.declared import Case, Outcome

Answer = Callable[..., Any]


def make_function(answer: Answer, case: Case, names: Mapping[str, str] | None) -> Answer:
    """Return the answer, which needs no making."""
    return answer


def make_module(answer: Answer, case: Case, names: Mapping[str, str] | None) -> nn.Module:
    """Return the module in evaluation mode, with the case's parameters."""
    module = answer(**case.constructor)
    state = {(names or {}).get(name, name): tensor for name, tensor in values.copied(case.state).items()}
    constant = {name for name, _ in module.named_buffers()} - set(state)  # such as a scale; they stay as they are
    own = {name: tuple(t.shape) for name, t in module.state_dict().items() if name not in constant}
    wanted = {name: tuple(tensor.shape) for name, tensor in state.items()}
    if own != wanted:
        raise ValueError(
            f"the module must have the parameters {_listed(wanted)}, got {_listed(own)}; other names are fine with "
            "check(..., names={'the name asked for': 'your name'})"
        )
    module.load_state_dict(state, strict=False)  # but for the constants, nothing is missing
    return module.to(values.dtype_of(case.inputs)).eval()


MAKE = {"function": make_function, "error": make_function, "bug": make_function, "module": make_module}


def run(
    kind: str, answer: Answer, case: Case, names: Mapping[str, str] | None = None
) -> tuple[Outcome, dict[str, Any]]:
    """Call an answer with copies of a case's inputs; return what came of it, and the copies, maybe edited."""
    inputs = values.copied(case.inputs)
    constructor = {name: value for name, value in case.constructor.items() if name != ways.WAY}
    call = ways.WAYS[case.constructor.get(ways.WAY, "once")]
    try:
        made = MAKE[kind](answer, replace(case, constructor=constructor), names)
        return Outcome(value=call(made, inputs)), inputs
    except (Exception, SystemExit) as error:
        parents = tuple(parent.__name__ for parent in type(error).__mro__ if issubclass(parent, BaseException))
        return Outcome(errors=parents, message=" ".join(str(error).split())[:300]), inputs


def agrees(got: Outcome, wanted: Outcome, tolerance: float, mentions: tuple[str, ...] = ()) -> bool:
    """Tell whether an outcome is the wanted one: the same value, or an error of the same class that says enough.

    An error whose class is two at once, a TypeError and a ValueError, is neither of them.
    """
    if wanted.errors:
        message = got.message.lower()
        alone = not mixed(got) or mixed(wanted)
        return wanted.errors[0] in got.errors and alone and all(word.lower() in message for word in mentions)
    return not got.errors and values.same(got.value, wanted.value, tolerance)


def mixed(outcome: Outcome) -> bool:
    """Tell whether an error is a TypeError and a ValueError at once."""
    return {"TypeError", "ValueError"} <= set(outcome.errors)


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {list(shape)}" for name, shape in sorted(shapes.items())) or "none"
