"""The doctor: what seems wrong with a Transformer, whoever wrote it.

`check_model(model, batch)` watches a model from outside and returns its findings as data, which print as a table::

    print(diagnostics.check_model(model, tokens))

`heads(model, batch)` says what each head does, as notes.
"""

from transformer_lib.diagnostics.catalogue import CAUSES
from transformer_lib.diagnostics.check import check_model
from transformer_lib.diagnostics.findings import Finding, Report
from transformer_lib.diagnostics.head_notes import heads

__all__ = ["CAUSES", "Finding", "Report", "check_model", "heads"]
