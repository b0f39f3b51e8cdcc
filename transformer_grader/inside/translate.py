"""A cell's text as Python: what Jupyter would make of its magics, shell lines, prompts and indent, without a shell."""

import ast
import re
import textwrap

LARGEST = 100_000  # characters of a cell that is looked into before it's run
SKIPPED = {"bash", "sh", "script", "html", "javascript", "js", "latex", "markdown", "perl", "ruby", "svg"}
SKIPPED |= {"cmd", "powershell", "system", "sx", "sql", "r"}
VALUED = {"timeit": "nrpv", "prun": "lsTD", "memit": "rt", "lprun": "fmsuTD", "mprun": "fT"}  # options with a value
ESCAPED = re.compile(r"(\s*)(?:%{1,2}(\w+)(?:\s+(.*))?|[!?].*|%*\w[\w.]*\?{1,2}\s*)$")
TARGET = r"\s*[\w.]+(?:\[[^\]=]*\])*(?:\s*,\s*[\w.]+)*\s*="
ASSIGNED = re.compile(rf"({TARGET})\s*(?:%(\w+)(?:\s+(.*))?|!.*)$")
MARKS = re.compile(r"\\.|'''|\"\"\"|['\"#()\[\]{}]")
PROMPTS = (  # how the first line begins, how each may
    (re.compile(r">>>( |$)"), re.compile(r"^(>>>|\.\.\.)( |$)")),
    (re.compile(r"In \[\d+\]:"), re.compile(r"^(In \[\d+\]:| *\.{3,}:) ?")),
)


def python(source):
    """Return a cell's source with magics and shell lines made harmless, unchanged where it is Python; and its tree."""
    if len(source) > LARGEST or (parsed := tree(source)) is not None:
        return source, None if len(source) > LARGEST else parsed
    source = without_prompts(source)
    first, _, rest = source.partition("\n")
    if first.startswith("%%"):
        source = cell_magic(first[2:], rest)
    elif tree(source) is None:
        source = "\n".join(line for lines in statements(source.split("\n")) for line in without_magic(lines))
    return source, tree(source)


def tree(source):
    """Return a text's syntax tree, None if it has none."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def without_prompts(source):
    """Return a cell's text without empty lines at its head, the indent of all of it, and prompts pasted with it."""
    source = re.sub(r"\A(?:[ \t\r]*\n)+", "", source)
    if source[:1] in (" ", "\t"):
        source = textwrap.dedent(source)
    for first, each in PROMPTS:
        if first.match(source):
            source = "\n".join(each.sub("", line) for line in source.split("\n"))
    return source


def cell_magic(line, body):
    """Return what runs in place of a cell that begins with a magic; the body has its own lines still."""
    name, _, line = line.partition(" ")
    name, line = name.strip(), line.strip()
    if name.lower() in SKIPPED or name.startswith("!"):
        return ""
    if name in ("writefile", "file"):
        words, body = line.split(), body.removesuffix("\n") + "\n"
        return f"get_ipython().write_file({words[-1:]!r}, {body!r}, {'-a' in words or '--append' in words})"
    before = ""
    if name == "timeit":
        before = timed(name, line)
    elif name == "capture" and line.split(" ")[0].isidentifier():
        before = f"{line.split(' ')[0]} = get_ipython()"  # which has whatever is asked of it
    return f"{before}\n{python(body)[0]}"


def statements(lines):
    """Yield the lines of one statement after the other: it goes on in brackets, in a text and after a backslash."""
    some, depth, quote = [], 0, ""
    for line in lines:
        if some or not escaped(line):
            depth, quote = after(line, depth, quote)
        elif line.rstrip().endswith("\\"):
            quote = "\\"
        some.append(line)
        if not (depth or quote):
            yield some
            some = []
    if some:
        yield some


def escaped(line):
    """Return the match of a line that isn't Python's but Jupyter's, if it begins a statement."""
    return ESCAPED.match(line) or ASSIGNED.match(line)


def after(line, depth, quote):
    """Return how many brackets are open after a line, and which quotes; a backslash where only the line goes on."""
    quote = quote.strip("\\")
    for mark in MARKS.findall(line):
        if quote:
            quote = "" if mark[:1] * len(quote) == quote and len(mark) >= len(quote) else quote
        elif mark == "#":
            return depth, ""
        elif mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth = max(0, depth - 1)
        elif mark[0] != "\\":
            quote = mark
    if len(quote) < 2:  # a text in single quotes ends with its line, unless that goes on
        quote = (quote or "\\") if line.rstrip().endswith("\\") else ""
    return depth, quote


def without_magic(lines):
    """Return a statement's lines, with what stands for them where they're a magic or a shell line."""
    if not escaped(lines[0]):
        return lines
    line = " ".join(part.rstrip().removesuffix("\\") for part in lines).rstrip()
    rest = [""] * (len(lines) - 1)
    if match := ESCAPED.match(line):
        indent, name, told = match.groups()
        return [indent + (timed(name, told or "") or "pass"), *rest]
    target, name, told = ASSIGNED.match(line).groups()
    value = told if name == "time" and told and tree(f"({told})") is not None else "None" if name else "[]"
    return [f"{target} {value}", *rest]


def timed(name, line):
    """Return the statement that a magic runs, without the magic's options; "" if it runs none."""
    if name == "run" and line:
        return f"get_ipython().safe_execfile({line.split()[0]!r})"
    if name != "time" and name not in VALUED:
        return ""
    line = line.removeprefix("--no-raise-error").strip()
    while name != "time" and (option := re.match(r"-(\w)(\S*)\s*", line)):
        line = line[option.end() :]
        if option[1] in VALUED[name] and not option[2]:
            line = line.partition(" ")[2].strip()
    return line if tree(line) is not None else ""


CALLED = {"check", "use", "reset", "example"}
JUDGED = ("ImportFrom", "ImportFrom", "Expr")  # a variant's check


def only_ours(parsed):
    """Tell whether a cell does nothing but call the exercises' own functions, as the given cells do."""
    calls = [node.value for node in parsed.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    if any(isinstance(node, ast.NamedExpr | ast.Await) for node in ast.walk(parsed)):
        return False
    if len(calls) == 1 and tuple(type(node).__name__ for node in parsed.body) == JUDGED:
        modules, called = [node.module for node in parsed.body[:2]], ast.unparse(calls[0].func)
        return modules == ["pathlib", "transformer_lib.exercises"] and called in ("checking.judge", "exercises.check")
    own = {f"exercises.{name}" for name in CALLED}
    return bool(calls) and len(calls) == len(parsed.body) and all(ast.unparse(call.func) in own for call in calls)


def checked(parsed):
    """Return the exercises and the names that stand in a text's checks."""
    found = set()
    for node in ast.walk(parsed):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("check", "judge"):
            parts = [part for one in node.args for part in ast.walk(one)]
            found |= {part.id for part in parts if isinstance(part, ast.Name)}
            found |= {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return found
