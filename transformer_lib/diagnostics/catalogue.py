"""Every cause that `check_model` knows, in the order in which one explains another: causes first."""

from typing import NamedTuple


class Cause(NamedTuple):
    """What a finding is about: a title, the chapter that explains it, and what to try."""

    title: str
    chapter: int
    advice: str


CAUSES = {
    "does-not-run": Cause("The model does not run on the batch", 6, "Read the error; give `adapter` if it is a call."),
    "mask-length": Cause(
        "A mask of the other sequence",
        5,
        "Use the source's padding mask, [batch 1 1 source], in cross-attention and the target's in self-attention; "
        "test with unequal lengths.",
    ),
    "batch-mixing": Cause(
        "Sentences of a batch see each other",
        2,
        "Look for batch_first, for view where transpose is meant, and for a softmax or norm over the batch axis.",
    ),
    "input-ignored": Cause(
        "Outputs ignore an input", 6, "Follow one word from its embedding to the output: batch_first, indices."
    ),
    "positions-wrong-axis": Cause(
        "Positions on the wrong axis",
        4,
        "Index the table by the position's axis: table[:x.size(1)] if x is [batch position d_model].",
    ),
    "softmax-axis": Cause("The softmax runs over the wrong axis", 2, "Use softmax(dim=-1): over the keys."),
    "mask-after-softmax": Cause(
        "The mask comes after the softmax",
        5,
        "Mask the scores with -inf before the softmax; after it, the masked keys have already taken their share.",
    ),
    "mask-leak": Cause(
        "A position sees later ones",
        5,
        "Apply the causal mask (tril, diagonal 0) in every self-attention of the decoder, filled with -inf, and check "
        "its polarity.",
    ),
    "padding-attended": Cause(
        "Padding changes the outputs of words",
        5,
        "Pass a padding mask to every attention over that sequence, and check its polarity.",
    ),
    "fully-masked-row": Cause(
        "A query that may attend to nothing",
        5,
        "Give such a row weights of 0 (masked_fill after the softmax), or keep one key visible.",
    ),
    "not-finite": Cause("NaN or infinity in the output", 2, "Look for the first module whose output is not finite."),
    "dropout-in-evaluation": Cause(
        "Chance in evaluation mode",
        2,
        "Use nn.Dropout, or F.dropout(x, p, self.training), or dropout_p = p if self.training else 0.0.",
    ),
    "scale-missing": Cause("Scores are not scaled", 2, "Divide the scores by sqrt(d_k)."),
    "scale-wrong": Cause(
        "Scores are scaled by another number", 2, "Divide by sqrt(d_k), d_k the width of a head; once."
    ),
    "heads-width": Cause("Heads don't add up to the model's width", 3, "Choose d_k = d_model / heads without a rest."),
    "heads-saturated": Cause(
        "Heads are saturated", 2, "Check the scale and the size of W_q and W_k at the start; a smaller learning rate."
    ),
    "residual-missing": Cause("A residual connection is missing", 6, "Add the sub-layer's input to its output."),
    "norm-misplaced": Cause(
        "A norm is in an unusual place", 6, "Use x + f(norm(x)) (pre) or norm(x + f(x)) (post), the same everywhere."
    ),
    "norm-missing": Cause("A norm is missing", 6, "Use x + f(norm(x)) with a last norm, or norm(x + f(x))."),
    "embedding-scale": Cause(
        "Embeddings are not scaled as configured", 6, "Multiply the vectors by sqrt(d_model), once."
    ),
    "embedding-tied": Cause(
        "Embedding and output are not tied as configured",
        6,
        "Assign the same parameter: head.weight = embedding.weight.",
    ),
    "positions-missing": Cause(
        "Positions are missing", 4, "Add positions to the embeddings, or a relative scheme to the attention."
    ),
    "positions-drowned": Cause(
        "Positions are drowned by the embeddings",
        4,
        "Compare the sizes of both where they are added; scale the embeddings by sqrt(d_model), not more, "
        "or draw them smaller.",
    ),
    "positions-drowning": Cause(
        "Positions drown the embeddings", 4, "Scale the embeddings by sqrt(d_model), or draw them larger."
    ),
    "positions-wrong-base": Cause(
        "Sinusoids with another base", 4, "Use 10000 ** (-2 * i / d_model) for dimensions 2i and 2i + 1; i only once."
    ),
    "positions-untrained": Cause(
        "Positions that were never trained", 4, "Train at this length, or cut the input to the trained length."
    ),
    "input-not-shifted": Cause(
        "Input and labels aren't one word apart",
        7,
        "Feed target[:, :-1] and ask for target[:, 1:], and shift once: here, or in the model.",
    ),
    "loss-counts-padding": Cause(
        "The loss counts padding", 7, "Leave padded labels out of both the sum and the count (ignore_index, or a mask)."
    ),
    "loss-at-start": Cause(
        "Loss at the start far from ln(vocabulary)",
        7,
        "Draw output weights and embeddings smaller, so that logits are near 0.",
    ),
    "no-gradient": Cause("Parameters without a gradient", 7, "Look for detach, no_grad, .data or requires_grad=False."),
    "cannot-overfit": Cause("One batch can't be learnt by heart", 7, "Check labels, masks, gradients, learning rate."),
    "head-kind": Cause("What a head does", 3, "Nothing: this is normal."),
}
