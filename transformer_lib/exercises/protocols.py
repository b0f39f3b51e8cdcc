"""How an answer is called, by the exercise's kind. A new kind is one function here and its name in `CALL`.

- `function`: the answer is called with the case's inputs, by position.
- `error`: the same; some of its cases must raise.
- `bug`: the same; the answer is a function whose planted bugs have been mended.
- `module`: the answer is a class. It is made with the case's `constructor`, given the case's `state`, and called with
  the inputs. Its parameters must have the state's names, or the caller gives a mapping from those to its own.
- `prose` is read by a person and never called.

The place of `sampler` (and of a training step) is here, too: chance never comes from within an answer. Noise, batches
and the state before the step are inputs of the case, and what comes back are values like any other.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from transformer_lib.exercises import values
from transformer_lib.exercises.declared import Case, Outcome

Answer = Callable[..., Any]


def call_function(answer: Answer, case: Case, inputs: dict[str, Any], names: Mapping[str, str] | None) -> Any:
    """Call the answer with the inputs, by position: a reader may name the parameters otherwise."""
    return answer(*inputs.values())


def call_module(answer: Answer, case: Case, inputs: dict[str, Any], names: Mapping[str, str] | None) -> Any:
    """Make the module, give it the case's parameters, and call it in evaluation mode."""
    module = answer(**case.constructor)
    own = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    state = {(names or {}).get(name, name): tensor for name, tensor in values.copied(case.state).items()}
    wanted = {name: tuple(tensor.shape) for name, tensor in state.items()}
    if own != wanted:
        raise ValueError(
            f"the module must have the parameters {_listed(wanted)}, got {_listed(own)}; other names are fine with "
            "check(..., names={'the name asked for': 'your name'})"
        )
    module.load_state_dict(state)
    return module.to(values.dtype_of(inputs)).eval()(*inputs.values())


CALL = {"function": call_function, "error": call_function, "bug": call_function, "module": call_module}


def run(
    kind: str, answer: Answer, case: Case, names: Mapping[str, str] | None = None
) -> tuple[Outcome, dict[str, Any]]:
    """Call an answer with copies of a case's inputs; return what came of it, and the copies, maybe edited."""
    inputs = values.copied(case.inputs)
    try:
        return Outcome(value=CALL[kind](answer, case, inputs, names)), inputs
    except (Exception, SystemExit) as error:
        parents = tuple(parent.__name__ for parent in type(error).__mro__ if issubclass(parent, BaseException))
        return Outcome(errors=parents, message=" ".join(str(error).split())[:300]), inputs


def agrees(got: Outcome, wanted: Outcome, tolerance: float, mentions: tuple[str, ...] = ()) -> bool:
    """Tell whether an outcome is the wanted one: the same value, or an error of the same class that says enough."""
    if wanted.errors:
        message = got.message.lower()
        return wanted.errors[0] in got.errors and all(word.lower() in message for word in mentions)
    return not got.errors and values.same(got.value, wanted.value, tolerance)


def edited(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the names of the tensors that a call has changed in place."""
    return [
        name
        for name, tensor in before.items()
        if isinstance(tensor, Tensor) and not values.same(after[name], tensor, 0.0)
    ]


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {list(shape)}" for name, shape in sorted(shapes.items())) or "none"
