"""Bring a notebook's outputs into the form in which they are stored: nothing that changes from run to run."""

from __future__ import annotations

import re

import nbformat
from nbformat import NotebookNode

PROGRESS = re.compile(r"\d+%\|.*\|.*\[|\d+(\.\d+)?\s?(it|s|step)/(s|it|step)\b")  # what tqdm draws
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")  # of an object in memory: `<Line2D at 0x7f...>`
OUTPUT_METADATA = {"alt", "width", "height"}
WIDGET = "application/vnd.jupyter.widget-view+json"


def normalise(notebook: NotebookNode) -> NotebookNode:
    """Return a copy whose counts are 1..n and whose outputs hold no widget, progress bar, path or foreign metadata."""
    notebook = nbformat.from_dict(notebook)
    count = 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            cell.outputs = _merged([kept for output in cell.outputs if (kept := _stored(output, count))])
    return notebook


def _stored(output: NotebookNode, count: int) -> NotebookNode | None:
    """Return the output as it is stored, or None where nothing of it lasts."""
    if output.output_type == "stream":
        output.text = "".join(line for line in output.text.splitlines(True) if not PROGRESS.search(line))
        return output if output.text.strip("\r\n ") else None
    if output.output_type == "error":
        output.traceback = [f"{output.ename}: {output.evalue}"]  # the rest names paths and line numbers
        return output
    if output.output_type == "execute_result":
        output.execution_count = count
    output.metadata = _stored_metadata(output.metadata)
    is_widget = output.data.pop(WIDGET, None) is not None
    drawn = is_widget and PROGRESS.search(output.data.get("text/plain", ""))
    return output if output.data and not drawn else None


def _stored_metadata(metadata: NotebookNode) -> NotebookNode:
    """Keep, for each kind of data, the alternative text and the size."""
    kinds = {kind: values for kind, values in metadata.items() if isinstance(values, dict)}
    kept = {kind: {k: v for k, v in values.items() if k in OUTPUT_METADATA} for kind, values in kinds.items()}
    return nbformat.from_dict({kind: values for kind, values in kept.items() if values})


def _merged(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join neighbours of one stream: where a stream is cut depends on the clock."""
    merged: list[NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and merged and merged[-1].get("name") == output.name:
            merged[-1].text += output.text
        else:
            merged.append(output)
    return merged


def texts(cell: NotebookNode) -> list[str]:
    """Return each text that a code cell shows, HTML included."""
    found: list[str] = []
    for output in cell.outputs:
        found.append(output.get("text", "") or output.get("evalue", ""))
        found += [str(v) for k, v in output.get("data", {}).items() if k.startswith("text/")]
    return [text for text in found if text]
