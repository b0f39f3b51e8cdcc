"""Submissions to a toy assignment: honest but damaged ones, wrong ones, and attacks. All are made by code.

The toy needs no torch, so that a sandbox starts in a tenth of a second: 9.1 `double` (4 points), 9.2 `total` (2),
9.3 `refuse` (2) and an open question 9.4.
"""

import json
import os
from dataclasses import dataclass, field

PROBES = """
import random
from transformer_lib.exercises.declared import Case, Group, Mistake, Probe, Question

def double_cases(seed):
    r = random.Random(seed)
    return [Case(f"case {n}", {"x": round(r.uniform(1, 100), 3)}) for n in range(4)]

def total_cases(seed):
    r = random.Random(seed)
    sizes = {"none": 0, "one": 1, "some": 5, "many": 40}
    return [Case(name, {"numbers": tuple(r.randrange(1, 1000) for _ in range(n))}) for name, n in sizes.items()]

def refuse_cases(seed):
    number = random.Random(seed).randrange(10, 1000)
    return [Case("fits", {"n": number}), Case("below zero", {"n": -number}, mentions=(str(-number),))]

def refuse(n):
    if n < 0:
        raise ValueError(f"n must be at least 0, got {n}")
    return n

def _shared(id, entry, points, kind="function"):
    return dict(id=id, title=entry, kind=kind, entry=entry, points=points, minutes=1, difficulty=1)

PROBES = [
    Probe(**_shared("9.1", "double", 4), cases=double_cases, reference=lambda x: 2 * x, right={},
          wrong=[Mistake("tripled", "It is three times as much.", lambda x: 3 * x, 0.5),
                 Mistake("squared", "It is the square.", lambda x: x * x)]),
    Probe(**_shared("9.2", "total", 2), cases=total_cases, reference=lambda numbers: sum(numbers), right={},
          wrong=[Mistake("the first only", "Only the first is counted.", lambda n: n[0] if n else 0)],
          groups=(Group("short", 1, ("none", "one")), Group("long", 1, ("some", "many")))),
    Probe(**_shared("9.3", "refuse", 2, "error"), cases=refuse_cases, reference=refuse, right={},
          wrong=[Mistake("nothing refused", "It refuses nothing.", lambda n: n)]),
]
QUESTIONS = [Question(id="9.4", title="why?", points=3, minutes=1, difficulty=1,
                      rubric=((1, "a reason", "any"), (2, "a test", "any that can fail")))]
"""

IMPORTS = "import math"
DOUBLE = "def double(x):\n    return 2 * x"
TOTAL = "def total(numbers):\n    return sum(numbers)"
REFUSE = "def refuse(n):\n    if n < 0:\n        raise ValueError(f'at least 0, got {n}')\n    return n"
OPEN = "**Answer 9.4**\n\n*Your answer here.*"
STUB = "def {}(x):\n    raise NotImplementedError('not attempted yet')"


@dataclass
class Submitted:
    """A submission: what it is, what it must get, and what must be said of it.

    Args:
        points: of 8; None where any number from `least` to `most` may come out.
        status: how the row must end; None if that may differ with the machine.
    """

    content: bytes
    points: float = 8.0
    status: str | None = "graded"
    file: str = "toy.ipynb"
    beside: dict[str, bytes] = field(default_factory=dict)
    least: float | None = 0
    most: float = 8


def code(source, **fields):
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None, **fields}


def text(source, **fields):
    return {"cell_type": "markdown", "source": source, "metadata": {}, **fields}


def notebook(*cells, **fields):
    made = [code(cell) if isinstance(cell, str) else cell for cell in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | fields).encode()


def answers(*before, double=DOUBLE, total=TOTAL, refuse=REFUSE, after=()):
    return notebook(IMPORTS, *before, double, total, refuse, *after)


def exercise():
    """Return the notebook that students were given."""
    cells = [code(IMPORTS, id="imports"), code('seen = exercises.check("9.1", double)\nassert seen', id="see")]
    for number, name in {"9-1": "double", "9-2": "total", "9-3": "refuse"}.items():
        cells += [code(STUB.format(name), id=f"answer-{number}"), code(f'exercises.check("{number}", {name})')]
    return notebook(*cells, *QUESTION, END)


QUESTION = [text("### Question 9.4: why?\n\nSay why.\n\n<details>a reason</details>"), text(OPEN, id="answer-9-4")]
END = text("## At the end\n\nThis is all.")


def honest():
    """Return damaged notebooks that must score as the intact one."""
    colab = {"colab": {"provenance": [], "name": "Copy of toy"}, "kernelspec": {"name": "python3"}}
    cells = [
        code(c, metadata={"id": f"x{n}", "colab": {"base_uri": "x"}}, execution_count=n)
        for n, c in enumerate(["!pip install -q thing", "from google.colab import drive\ndrive.mount('/x')", DOUBLE])
    ]
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": c} for c in (DOUBLE, TOTAL, REFUSE)]}]}
    long = [code("1", outputs=[{"output_type": "stream", "name": "stdout", "text": "x" * 1_000_000}])]
    return {
        "intact": answers(),
        "warnings": answers("import warnings\nwarnings.warn('loud')", double=f"import warnings\n{DOUBLE}"),
        "warning in the answer": answers(double="import warnings\ndef double(x):\n warnings.warn('x')\n return 2*x"),
        "prints": answers("print('hello')", double="def double(x):\n    print(x)\n    return 2 * x"),
        "checks deleted": notebook(DOUBLE, TOTAL, REFUSE),
        "cells doubled": answers(DOUBLE, TOTAL, after=(DOUBLE, REFUSE)),
        "a stub left below": answers(after=(STUB.format("double"), STUB.format("total"))),
        "other order": notebook(REFUSE, "two = number * 1\n" + DOUBLE, TOTAL, "number = 2"),
        "cells added": answers("a = 1", "b = 2", "import os", after=("a + b",)),
        "no metadata": json.dumps({"cells": [{"cell_type": "code", "source": c} for c in (DOUBLE, TOTAL, REFUSE)]}),
        "saved by colab": notebook(*cells, TOTAL, REFUSE, metadata=colab),
        "two cells": answers("def _half(x):\n    return x / 2", double="def double(x):\n    return 4 * _half(x)"),
        "imports removed": notebook("def double(x):\n    return 2 * x * math.cos(0)", TOTAL, REFUSE),
        "magics": answers("%matplotlib inline\n!ls -la\nfiles = !ls\n?print", "%%time\n1 + 1", "%%bash\nrm -rf x"),
        "a magic above the answer": answers(double=f"%load_ext x\n!nvidia-smi\n{DOUBLE}"),
        "format 3": json.dumps(old),
        "a figure": answers("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"),
        "slow but within limits": answers("import time\ntime.sleep(0.5)"),
        "lines in a list": notebook(code(DOUBLE.splitlines(keepends=True)), TOTAL, REFUSE),
        "a lambda": answers(double="double = lambda x: x + x"),
        "a class with a call": answers(double="class D:\n def __call__(self, x): return 2*x\ndouble = D()"),
        "another name, in the check": answers(
            double="def mine(x): return 2*x", after=('exercises.check("9.1", mine)',)
        ),
        "another name, cell id": notebook(IMPORTS, code("def mine(x): return 2*x", id="answer-9-1"), TOTAL, REFUSE),
        "a mark of byte order": b"\xef\xbb\xbf" + answers(),
        "large outputs": notebook(*long, DOUBLE, TOTAL, REFUSE),
        "a test below fails": answers(double=f"{DOUBLE}\nassert double(1) == 3"),
        "errors elsewhere": answers("1 / 0", "undefined", "import nothing_of_this_name"),
        "another kernel": notebook(DOUBLE, TOTAL, REFUSE, metadata={"kernelspec": {"name": "../../x", "argv": ["rm"]}}),
        "edits its input": answers(
            total="def total(n):\n    n = list(n)\n    return sum(n.pop() for _ in range(len(n)))"
        ),
        "sys.exit in a cell": answers("import sys\nsys.exit(3)"),
        "asks for input": answers("name = input('?')"),
        "keeps a thread": answers("import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()"),
    }


MINE = "def mine(x): return 2 * x"
GIVEN = ('exercises.check("9.1", double)', 'seen = exercises.check("9.1", double)\nassert seen')


def checked():
    """Return notebooks whose first answer has a name of its own, in many spellings of its check; all must earn all."""
    spellings = {
        "plainly": 'exercises.check("9.1", mine)',
        "by keyword": 'exercises.check(number="9.1", answer=mine)',
        "half by keyword": 'exercises.check("9.1", answer=mine)',
        "names by position": 'exercises.check("9.1", mine, None)',
        "from a dictionary": 'exercises.check(**{"number": "9.1", "answer": mine})',
        "from a list": 'exercises.check(*["9.1", mine])',
        "a number in a variable": 'which = "9.1"\nexercises.check(which, mine)',
        "in a loop": 'for one in [("9.1", mine), ("9.2", total)]:\n    exercises.check(*one)',
        "under another name": 'looked = exercises.check\nlooked("9.1", mine)',
        "in a condition": 'if not exercises.check("9.1", mine):\n    print("no")',
        "below what fails here": 'open("/only/at/home")\nexercises.check("9.1", mine)',
        "with a magic": '%%time\nexercises.check("9.1", mine)',
        "of a variant": "from pathlib import Path\nfrom transformer_lib.exercises import checking, store\n\n"
        'checking.judge(store.parsed(Path("data/9.1.json").read_text()), mine)',
    }
    stub, found = STUB.format("double"), {}
    for name, cell in spellings.items():
        found[f"checked {name}"] = notebook(IMPORTS, MINE, TOTAL, REFUSE, cell)
        found[f"checked {name}, given cells kept"] = notebook(IMPORTS, stub, MINE, TOTAL, REFUSE, cell, *GIVEN)
    found["checked above its definition"] = notebook(spellings["plainly"], IMPORTS, stub, MINE, TOTAL, REFUSE)
    found["checked, then the name used again"] = answers(
        double=MINE, after=(spellings["plainly"], "def mine(numbers): return 0", GIVEN[0])
    )
    return found


LONG = "word " * 2000


def written():
    """Return notebooks with an answer to 9.4: name -> (cells after the others, the answer's text)."""
    asked, given = QUESTION
    why = text("because")
    return {
        "in the placeholder's stead": ((asked, text("**Answer 9.4**\n\nbecause", id="answer-9-4"), END), "because"),
        "below the placeholder": ((asked, text(f"{OPEN}\n\nbecause", id="answer-9-4"), END), "because"),
        "above the placeholder": ((text("**Answer 9.4**\n\nbecause\n\n*Your answer here.*"),), "because"),
        "in a cell below": ((asked, given, why, END), "because"),
        "in a cell between": ((asked, why, given, END), "because"),
        "below a heading left": ((asked, text("**Answer 9.4**", id="answer-9-4"), why, END), "because"),
        "in two cells": ((asked, text("**Answer 9.4** first"), why, END), "first\n\nbecause"),
        "a calculation between": ((asked, text("**Answer 9.4** first"), "1 + 1", why, END), "first\n\nbecause"),
        "a text below the next given cell": ((asked, given, why, END, text("notes")), "because"),
        "under the question": ((text(f"{asked['source']}\n\nbecause"), given, END), "because"),
        "a question of one's own": ((text("## Question 9.4\nbecause"),), "because"),
        "another heading": ((text("### Answer 9.4 because"),), "because"),
        "a heading in bold": ((text("## **Answer 9.4** because"),), "because"),
        "small letters": ((text("**answer 9.4:** because"),), "because"),
        "plain": ((text("Answer to question 9.4: because"),), "because"),
        "quoted": ((text("> *Answer 9.4*\n\nbecause"),), "because"),
        "html": ((text("<b>Answer 9.4</b> because"),), "</b> because"),
        "a comment": (("# Answer 9.4 because\n# so it is",), "because\n# so it is"),
        "a text as code": ((code("Answer 9.4: because so it is"),), "because so it is"),
        "a printed text": ((code('print("Answer 9.4: because")'),), 'because")'),
        "a text in a check": ((code('exercises.check("9.4", "because")'),), 'because")'),
        "a raw cell": ((text("Answer 9.4: because", cell_type="raw"),), "because"),
        "a list": ((text("**Answer 9.4**\n\n* one\n* two"),), "* one\n* two"),
        "two answers in a cell": ((text("**Answer 9.1** no\n\n**Answer 9.4** because"),), "because"),
        "only the cell's id": ((text("because", id="answer-9-4"),), "because"),
        "doubled": ((text("**Answer 9.4** because"), text("**Answer 9.4** because")), "because"),
        "named within": ((text("**Answer 9.4** because of\nanswer 9.1"),), "because of\nanswer 9.1"),
        "other ends of lines": ((asked, given | {"source": OPEN.replace("\n", "\r\n")}, why, END), "because"),
        "nothing": ((asked, given, END, text("notes")), None),
        "too long": ((text(f"**Answer 9.4** {LONG}"),), LONG),
    }


ENDLESS = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
DEAF = "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nsignal.setitimer(signal.ITIMER_REAL, 0)\n"


def stopped():
    """Return submissions of which a part must be stopped: (notebook, points, status)."""

    def inner(source, indent="    "):
        return "def double(x):\n" + "\n".join(indent + line for line in source.splitlines())

    return {
        "endless cell": (answers("while True: pass"), 8, "timeout"),
        "endless deaf cell": (answers(DEAF + ENDLESS), 8, "timeout"),
        "endless deaf answer": (answers(double=inner(DEAF + ENDLESS)), 4, "timeout"),
        "endless answer": (answers(double=inner("while True: pass")), 4, "timeout"),
        "exit in a cell": (answers("import os\nos._exit(0)"), 8, "crashed"),
        "exit in an answer": (answers(double=inner("import os\nos._exit(0)")), 4, "crashed"),
        "segfault in a cell": (answers("import ctypes\nctypes.string_at(0)"), 8, "crashed"),
        "segfault in an answer": (answers(double=inner("import ctypes\nctypes.string_at(0)")), 4, "crashed"),
        "kills itself": (answers("import os\nos.kill(os.getpid(), 9)"), 8, "crashed"),
        "memory by forks": (
            answers("import os, time\nfor _ in range(6):\n    os.fork()\nx = bytearray(60 << 20)\ntime.sleep(30)"),
            None,  # the copies answer, too
            None,
        ),
        "every cell hangs": (answers(*[DEAF + ENDLESS + f"\n#{n}" for n in range(9)]), 0, "timeout"),
    }


def wrong():
    """Return wrong answers to 9.1, each worth what it says: name -> (definition, points of 9.1)."""

    def returns(expression):
        return f"def double(x):\n    return {expression}"

    return {
        "a known mistake": (returns("3 * x"), 2),
        "a mistake worth nothing": (returns("x * x"), 0),
        "nan": (returns("float('nan')"), 0),
        "infinite": (returns("float('inf')"), 0),
        "a list": (returns("[2 * x]"), 0),
        "text": (returns("str(2 * x)"), 0),
        "none": (returns("None"), 0),
        "an object equal to all": (f"class E:\n def __eq__(s, o): return True\n{returns('E()')}", 0),
        "a float equal to all": (
            f"class E(float):\n __eq__ = __ge__ = __le__ = lambda s, o: True\n{returns('E(0.5)')}",
            0,
        ),
        "a huge number": (returns("10 ** 5000"), 0),
        "a million numbers": (returns("[0.0] * 1_000_000"), 0),
        "a list that holds itself": ("def double(x):\n    a = []\n    a.append(a)\n    return a", 0),
        "a generator": ("def double(x):\n    yield 2 * x", 0),
        "a coroutine": ("async def double(x):\n    return 2 * x", 0),
        "an error of its own": ("class Mine(Exception): pass\ndef double(x):\n    raise Mine(x)", 0),
        "an error that holds the input": ("def double(x):\n    raise type(f'E{x}', (Exception,), {})(x)", 0),
        "no end of recursion": (returns("double(x)"), 0),
        "knows the public inputs": (
            "import random\ndef double(x):\n    r = random.Random(0)\n"
            "    return 2 * x if x in [round(r.uniform(1, 100), 3) for _ in range(4)] else 0",
            0,
        ),
        "only the first call": ("calls = []\ndef double(x):\n    calls.append(x)\n    return 2 * calls[0]", 0),
        "patched builtins": (
            "import builtins\nbuiltins.abs = builtins.all = builtins.isinstance = lambda *a: True\n" + returns("0"),
            0,
        ),
        "patched encoding": (
            "import sys\nsys.modules['frames'].encode = lambda value: ({'v': True}, b'')\n" + returns("0"),
            -4,  # all answers go the same way
        ),
        "patched session": (
            "import sys\nsys.modules['answers'].Answers.call = lambda *a: ({'tree': {'v': 'right'}, 'points': 99}, b'')",
            -4,
        ),
    }


def attacks(host):
    """Return attacks that must change nothing: name -> (cell, points).

    Args:
        host: name -> path or port of what must be out of reach.
    """
    places = [str(path) for path in host.values() if not isinstance(path, int)]
    read = f"""
leaked = []
for place in {places!r} + ['/etc/passwd', '/etc/shadow', '/root/.ssh', '/home', '/proc/1/environ', '/var']:
    try:
        if place.startswith('/proc'): leaked += [open(place, 'rb').read()] if b'CANARY' in open(place, 'rb').read() else []
        else: leaked += [__import__('os').listdir(place) if __import__('os').path.isdir(place) else open(place).read()]
    except OSError: pass
import os
leaked += [name for name in os.environ if 'CANARY' in name or 'SECRET' in name]
def double(x): return 2 * x if not leaked else str(leaked)
"""
    write = f"""
import os
for place in {places!r} + ['/usr/x', '/etc/x', '/grader/main.py', '/library/x']:
    for path in (place, place + '/evil', os.path.dirname(place) + '/evil'):
        try:
            with open(path, 'w') as file: file.write('evil')
        except OSError: pass
        try: os.remove(path)
        except OSError: pass
"""
    network = f"""
import socket
reached = []
for family, address in ((socket.AF_INET, ('127.0.0.1', {host["port"]})), (socket.AF_INET, ('192.0.2.1', 80))):
    try:
        s = socket.socket(family); s.settimeout(0.3); s.connect(address); reached.append(address)
    except OSError: pass
for name in ({str(host["socket"])!r}, chr(0) + 'grading-canary'):
    try:
        s = socket.socket(socket.AF_UNIX); s.connect(name); reached.append(name)
    except OSError: pass
def double(x): return 2 * x if not reached else str(reached)
"""
    everywhere = "import os\nfor fd in range(3, 40):\n    try: os.write(fd, {})\n    except OSError: pass"
    return {
        "reads the host": (read, 8),
        "writes to the host": (write, 8),
        "network": (network, 8),
        "listens": ("import socket\ns = socket.socket(); s.bind(('0.0.0.0', 0)); s.listen()", 8),
        "kills all": (
            "import os\nfor p in (1, os.getppid(), 0, -1):\n"
            "    try:\n        if p > 0: os.kill(p, 9)\n    except OSError: pass",
            None,
        ),
        "kills the host's processes": (
            f"import os\nfor p in range(3, 40000):\n    try: os.kill(p, 9)\n    except OSError: pass\nx = {os.getpid()}",
            8,
        ),
        "fork bomb": ("import os\nfor _ in range(500):\n    try: os.fork()\n    except OSError: break", None),
        "memory bomb": ("x = []\nwhile True: x.append(bytearray(50 << 20))", None),
        "thread bomb": (
            "import threading, time\nfor _ in range(5000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
            8,
        ),
        "fills the disk": (
            "import os\nfor d in ('/tmp', '/dev/shm', '/dev', '/', '/run', '/var/tmp'):\n"
            "    for n in range(50):\n        try:\n            with open(f'{d}/f{n}', 'wb') as f: f.write(bytes(4 << 20))\n"
            "        except OSError: break\n    for n in range(50):\n        try: os.remove(f'{d}/f{n}')\n        except OSError: break",
            8,
        ),
        "hidden memory": ("import os\ntry: fd = os.memfd_create('x')\nexcept OSError: fd = None\nassert fd is None", 8),
        "floods": ("import sys, os\nfor _ in range(2000): print('x' * 10000); sys.stderr.write('y' * 10000)", 8),
        "floods the line": (everywhere.format("bytes(1 << 20)"), None),
        "a pickle on the line": (everywhere.format("b'cos\\nsystem\\n(S\"touch /tmp/x\"\\ntR.'"), None),
        "an oversized frame": (everywhere.format("b'TGF1' + bytes([255] * 8)"), None),
        "a truncated frame": (everywhere.format("b'TGF1' + bytes([0, 0, 0, 99, 0, 0, 0, 0]) + b'{'"), None),
        "a frame out of turn": (
            "import sys, gc\nline = [o for o in gc.get_objects() if type(o).__name__ == 'Line'][0]\n"
            "line.send('ran', found={'9.1': 'name', '9.2': 'name', '9.3': 'name'})",
            None,
        ),
        "a forged reply": (
            "import gc\nline = [o for o in gc.get_objects() if type(o).__name__ == 'Line'][0]\n"
            "def double(x):\n    line.send('reply', nonce='0', tree={'v': 1})\n    return 2 * x",
            4,
        ),
        "a bomb of a shape": (
            "import gc\ns = [o for o in gc.get_objects() if type(o).__name__ == 'Answers'][0]\n"
            "s.call = lambda *a: ({'tree': {'t': 'float64', 'shape': [10**6, 10**6, 10**6]}}, b'')",
            0,
        ),
        "a deep reply": (
            "import gc\ns = [o for o in gc.get_objects() if type(o).__name__ == 'Answers'][0]\nt = {'v': 1}\n"
            "for _ in range(300): t = {'l': [t]}\ns.call = lambda *a: ({'tree': t}, b'')",
            0,
        ),
        "closes the line": ("import os\nfor fd in range(3, 40):\n    try: os.close(fd)\n    except OSError: pass", 8),
        "a daemon": (
            "import os, subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(77.125)'], start_new_session=True)",
            8,
        ),
        "local modules": (
            "for n in ('torch', 'json', 'frames', 'struct', 'sitecustomize'):\n"
            "    open(f'/tmp/{n}.py', 'w').write('raise SystemExit')\nimport sys\nsys.path.insert(0, '/tmp')",
            8,
        ),
        "lifts limits": (
            "import resource\nfor n in range(16):\n    try: resource.setrlimit(n, (-1, -1))\n    except (OSError, ValueError): pass",
            8,
        ),
        "leaves a note": ("open('/tmp/note', 'w').write('9.1: double')", 8),
        "looks for a note": ("import os\nif os.path.exists('/tmp/note'):\n    double = None", 8),
        "traces": (
            "import ctypes\nlibc = ctypes.CDLL(None)\nassert libc.ptrace(16, 1, 0, 0) == -1 and libc.unshare(0x10000000) == -1",
            8,
        ),
        "a source bomb": ("x = " + "(" * 5000 + ")" * 5000, 8),
        "a source bomb of signs": ("x = " + "-" * 200_000 + "1", None),
    }


HUNT = """
import gc, sys
def double(x):
    frame = sys._getframe()
    while frame:
        for name, value in list(frame.f_locals.items()):
            if name in ('right', 'expected', 'wanted', 'reference', 'answer_key'):
                return value
        frame = frame.f_back
    for one in gc.get_objects():
        if isinstance(one, dict) and any(name in one for name in ('right', 'expected', 'wanted', 'reference')):
            return next(one[name] for name in ('right', 'expected', 'wanted', 'reference') if name in one)
    return 0
"""
TWICE = """
import json, os, struct, sys
def double(x):
    frame = sys._getframe()
    while 'header' not in frame.f_locals or 'nonce' not in frame.f_locals['header']:
        frame = frame.f_back
    text = json.dumps({'kind': 'reply', 'nonce': frame.f_locals['header']['nonce'], 'tree': {'v': True}}).encode()
    for fd in range(3, 10):
        try: os.write(fd, struct.pack('>4sII', b'TGF1', len(text), 0) + text)
        except OSError: pass
    return 0
"""
LINE = "import gc\nline = [o for o in gc.get_objects() if type(o).__name__ == 'Line'][0]\n"


def cheats():
    """Return more attacks, each run after right answers: name -> (cell, points, the most points where these differ)."""
    return {
        "hunts for the right values": (HUNT, 4),
        "answers by itself, then again": (TWICE, None, 4),
        "another nonce": (
            "import sys\ndef double(x):\n    f = sys._getframe()\n    while 'header' not in f.f_locals: f = f.f_back\n"
            "    f.f_locals['header']['nonce'] = 'mine'\n    return 2 * x",
            4,
        ),
        "a thread that answers for the others": (
            LINE + "import threading\ndef other():\n    while True:\n        header, _ = line.receive()\n"
            "        line.send('reply', nonce=header['nonce'], tree={'v': True})\n"
            "threading.Thread(target=other, daemon=True).start()",
            None,
        ),
        "a child that goes on": ("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)", 8),
        "a child that answers wrongly": (
            "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\ndouble = total = refuse = lambda x: True",
            0,
        ),
        "children that stay": (
            "import os, time\ndef double(x):\n    if os.fork() == 0: time.sleep(77.125)\n    return 2 * x",
            8,
        ),
        "kept from call to call": (
            "kept = {}\ndef double(x):\n    kept[x] = 2 * x\n    return sorted(kept.values())[0]",
            0,
            4,
        ),
        "patched json, struct and os": (
            'import json, struct, os\njson.dumps = lambda *a, **k: \'{"kind": "reply", "tree": {"v": true}}\'\n'
            "os.write = lambda *a: 10**9",
            8,
        ),
        "the line turned round": ("import os\ndef double(x):\n    os.dup2(3, 4)\n    return 2 * x", 4),
        "something to do at exit": (
            "import atexit, os, time\natexit.register(lambda: [os.write(fd, b'x') for fd in (3, 4)])\natexit.register(time.sleep, 99)",
            8,
        ),
        "deaf to signals": (
            "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass",
            8,
        ),
        "a storm of signals": (
            "import signal\ndef boom(*a): raise MemoryError\nsignal.signal(signal.SIGPROF, boom)\nsignal.setitimer(signal.ITIMER_PROF, 1e-3, 1e-3)",
            None,
        ),
        "stops itself": ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", 8),
        "traces": (
            "import sys\ndef t(f, e, a):\n    if f.f_code.co_name in ('encode', 'send'): raise KeyboardInterrupt\nsys.settrace(t)",
            0,
            8,
        ),
        "profiles": (
            "import sys\nsys.setprofile(lambda f, e, a: 1 / 0 if f.f_code.co_name == '_tree' else None)",
            0,
            8,
        ),
        "audits": (
            "import sys\ndef hook(name, arguments):\n    if name in ('exec', 'compile', 'open'): raise SystemExit\nsys.addaudithook(hook)",
            None,
        ),
        "another two": (
            "import ctypes\ndef double(x):\n    ctypes.memset(id(2) + 24, 3, 1)\n    return 2 * x",
            None,
        ),
        "no builtins left": (
            "import builtins\nfor n in list(vars(builtins)):\n    if n[0] != '_': delattr(builtins, n)",
            None,
        ),
        "no modules left": ("import sys\nsys.modules.clear()", 8),
        "a text without end": ("def double(x): raise ValueError('x' * 10**8)", 4),
        "an error whose text never ends": (
            "class E(Exception):\n    def __str__(s):\n        while True: pass\nraise E",
            8,
        ),
        "an answer's error whose text never ends": (
            "class E(Exception):\n    def __str__(s):\n        while True: pass\ndef double(x): raise E",
            4,
        ),
        "an error whose text ends Python": (
            "import os\nclass E(Exception):\n    def __str__(s): os._exit(1)\nraise E",
            8,
        ),
        "an error without a name": (
            "class M(type):\n    __name__ = property(lambda s: 1 / 0)\nclass E(Exception, metaclass=M): pass\ndef double(x): raise E",
            4,
        ),
        "tells its inputs": ("def double(x): raise type('LEAK%d' % x, (Exception,), {})('LEAK%d' % x)", 4),
        "explodes when it's forgotten": (
            "class D:\n    def __del__(s): raise SystemExit\nD()\nkept = D()\ndef double(x): D(); return 2 * x",
            8,
        ),
        "hangs when it's forgotten": ("class D:\n    def __del__(s):\n        while True: pass\nD()", 8),
        "a look that ends Python": (
            "import os\nclass C:\n    def __call__(s, x): return 2 * x\n    __class__ = property(lambda s: os._exit(1))\ndouble = C()",
            None,
        ),
        "a list that lies": (
            "class L(list):\n    __len__ = lambda s: 0\n    def __iter__(s):\n        while True: yield 0\ndef double(x): return L()",
            4,
        ),
        "a number that lies": (
            "class F(float):\n    __float__ = lambda s: 1 / 0\ndef double(x): return F(2 * x)",
            None,
        ),
        "a number larger than any": (
            LINE
            + "send = line.send\nline.send = lambda k, b=b'', **f: send(k, b, **(f | ({'tree': {'v': 10**4000}} if k == 'reply' else {})))",
            0,
        ),
        "too much for a message": ("def double(x): return ['x' * 2000] * 500", 4),
        "memory of the process": (
            "open('/proc/self/mem', 'r+b').close()\nfor p in (1, 2):\n    try: open(f'/proc/{p}/mem', 'rb').read(1)\n    except OSError: pass",
            8,
        ),
        "other descriptors": (
            "import os\nleft = []\nfor n in os.listdir('/proc/self/fd'):\n    try: left.append(os.readlink(f'/proc/self/fd/{n}'))\n    except OSError: pass\n"
            "left = [one for one in left if not one.startswith(('pipe:', '/dev/null'))]\ndef double(x): return 2 * x if not left else str(left)",
            8,
        ),
        "the line of the first process": (
            "import os\nfor n in range(40):\n    try: os.write(os.open(f'/proc/1/fd/{n}', os.O_WRONLY), b'x' * 100)\n    except OSError: pass",
            8,
        ),
        "files without end": ("import os\nn = 0\nwhile True:\n    os.mknod(f'/tmp/{n}'); n += 1", 8),
        "a depth without end": ("import os\nwhile True:\n    os.mkdir('d'); os.chdir('d')", 8),
        "names that act": (
            "import os\nfor n in ('\\x1b[2J', '\\u202ecipy', '-rf', 'a\\nb'): open(f'/tmp/{n}', 'w')\nraise ValueError('\\x1b[2J\\u202e')",
            8,
        ),
        "half of a character": ("raise ValueError('\\ud800')", 8),
        "a deep recursion": ("import sys\nsys.setrecursionlimit(10**9)\ndef double(x): return double(x)", 4),
        "says that it can't be read": (LINE + "line.send('unreadable', why='<script>=cmd()')", 8),
        "another notebook": (LINE + "line.send('notebook', count=0, open={'9.4': '=cmd()', '../x': 'y', '9.1': 5})", 8),
        "floods with messages": (
            LINE + "while True: line.send('done', number=0, error='x' * 60, told='y' * 200)",
            None,
        ),
        "a part at a time": (
            "import os, time\nfor fd in (3, 4):\n    try: os.write(fd, b'TGF1' + bytes([0, 0, 1, 0, 0, 0, 0, 0]))\n    except OSError: pass\n"
            "while True:\n    time.sleep(0.2)\n    for fd in (3, 4):\n        try: os.write(fd, b' ')\n        except OSError: pass",
            8,
        ),
    }


def damaged():
    """Return more notebooks of honest students, damaged on their way; all must score as the intact one."""
    lines = [None, 3, *DOUBLE.splitlines(keepends=True), {"x": 1}]
    three = {"nbformat": 3, "worksheets": [None, {"cells": [{"cell_type": "code", "input": DOUBLE.splitlines(True)}]}]}
    three["worksheets"].append({"cells": [{"cell_type": "code", "input": c} for c in (TOTAL, REFUSE)]})
    long = "data = [" + "1, " * 100_000 + "1]"
    odd = [code(None), code(5), {"cell_type": "code"}, {"cell_type": None}, [], 7, {"source": "x"}, text(None)]
    deep = json.loads("[" * 400 + "]" * 400)
    return {
        "lines of other kinds": notebook(code(lines), TOTAL, REFUSE),
        "odd cells": notebook(*odd, DOUBLE, TOTAL, REFUSE),
        "format 3, many sheets": json.dumps(three),
        "a long text": answers("picture = '" + "A" * 3_000_000 + "'"),
        "a long list": answers(long),
        "other ends of lines": notebook(*(c.replace("\n", "\r\n") for c in (DOUBLE, TOTAL, REFUSE))),
        "utf-16": answers("# ü 作业").decode().encode("utf-16"),
        "another code page": answers("# MARK").replace(b"MARK", "müde".encode("cp1252")),
        "zeros at the end": answers() + bytes(4096),
        "numbers that aren't": answers(after=(code("1", outputs=[{"data": "NUMBER"}]),)).replace(b'"NUMBER"', b"NaN"),
        "deep metadata": notebook(DOUBLE, TOTAL, REFUSE, metadata={"x": deep}),
        "metadata of other kinds": notebook(
            code(DOUBLE, metadata=[1], id=3), code(TOTAL, metadata=None), REFUSE, metadata=7
        ),
        "awaits outside": answers("import asyncio\nawait asyncio.sleep(0)", double=f"{DOUBLE}\nawait asyncio.sleep(0)"),
        "a shell line that goes on": answers(double=f"!pip install \\\n    thing \\\n    other\n{DOUBLE}"),
        "a name used again": answers(after=("double = double(3)", "total = 'done'")),
        "a name used for an array": answers("import numpy\nrefuse = numpy.ones(3)"),
        "only if it's the main program": answers(
            double=f"if __name__ == '__main__':\n    {DOUBLE.replace(chr(10), chr(10) + '    ')}"
        ),
        "annotations from the future": answers(
            double=f"from __future__ import annotations\n{DOUBLE.replace('(x)', '(x: Nothing)')}"
        ),
        "broad letters": answers(double=DOUBLE.replace("double", "ｄｏｕｂｌｅ")),
        "a closed output": answers("import sys, os\nsys.stdout.close(); sys.stderr.close(); os.close(1); os.close(2)"),
        "another time zone and language": answers(
            "import locale, os, time\nos.environ['TZ'] = 'Asia/Tokyo'\ntime.tzset()"
        ),
        "tests that end Python": answers(
            after=("import unittest\nunittest.main()", "exit()", "quit()", "raise SystemExit")
        ),
        "a text with zeros": answers("x = 'a\\0b'", "x = 'a\0b'"),
        "marks of a merge in a cell": answers("<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> mine"),
        "other words for the same": answers(
            total="def total(numbers, *, start=0, **rest):\n    for number in numbers: start += number\n    return start"
        ),
        "builtins used as names": answers("list = [1]; type = 'x'; len = 3; print = None; str = int = float = 0"),
    }


TENSOR_PROBES = """
import torch
from transformer_lib.exercises.declared import Case, Mistake, Probe

def cases(seed):
    g = torch.Generator().manual_seed(seed)
    return [Case(f"{n} axes", {"x": torch.randn((2, 3, 4)[:n], generator=g)}) for n in (1, 2, 3)]

def _shared(id, entry):
    return dict(id=id, title=entry, kind="function", entry=entry, points=4, minutes=1, difficulty=1, cases=cases, right={})

PROBES = [
    Probe(**_shared("9.1", "twice"), reference=lambda x: 2 * x, wrong=[Mistake("squared", "Squared.", lambda x: x * x)]),
    Probe(**_shared("9.2", "parts"), reference=lambda x: (x + 1, 3 * x),
          wrong=[Mistake("one part", "Only one.", lambda x: (x + 1, x + 1))]),
]
QUESTIONS = []
"""
PARTS = "def parts(x):\n    return x + 1, 3 * x"


def tensors():
    """Return answers with torch: name -> (cell that defines `twice`, maybe `parts` anew, points of 8)."""

    def twice(expression, before=""):
        return f"import torch\n{before}\ndef twice(x):\n    return {expression}"

    right = {
        "as it should be": twice("2 * x"),
        "a copy, changed": twice("x.clone().mul_(2)"),
        "a buffer used again": twice("BUFFER.resize_(x.shape).copy_(2 * x)", "BUFFER = torch.zeros(0)"),
        "a view": twice("torch.stack([2 * x, x])[0]"),
        "a view with zeros between": twice("torch.stack([2 * x, x], -1)[..., 0]"),
        "negated in its flags": twice("torch._neg_view(-2 * x)"),
        "a parameter": twice("torch.nn.Parameter(2 * x)"),
        "an honest subclass": twice("(2 * x).as_subclass(Own)", "class Own(torch.Tensor): pass"),
        "by vmap": twice("torch.vmap(lambda row: 2 * row)(x)"),
        "other defaults": twice("2 * x", "torch.set_default_dtype(torch.float64); torch.set_grad_enabled(False)"),
        "the same object for both": twice("2 * x") + "\ndef parts(x):\n    both = [x + 1, 3 * x]\n    return both",
    }
    half = {
        "infinite": twice("x / 0"),
        "nan": twice("x * float('nan')"),
        "complex": twice("2 * x + 0j"),
        "sparse": twice("(2 * x).to_sparse()"),
        "quantized": twice("torch.quantize_per_tensor(2 * x.float(), 0.1, 0, torch.qint8)"),
        "meta": twice("(2 * x).to('meta')"),
        "nested": twice("torch.nested.nested_tensor([2 * x])"),
        "whole numbers": twice("(2 * x).round().long()"),
        "numpy": twice("(2 * x).numpy()"),
        "a list": twice("(2 * x).tolist()"),
        "one axis more": twice("(2 * x)[None]"),
        "nothing": twice("x[:0]"),
        "12 megabytes": twice("torch.zeros(3 << 20)"),
        "computed when looked at": twice(
            "Later()", "class Later:\n    def __array__(s): raise SystemExit\n    shape = property(lambda s: 1/0)"
        ),
        "a subclass that answers for all": twice(
            "x.as_subclass(Agreeing)",
            "class Agreeing(torch.Tensor):\n    @classmethod\n    def __torch_function__(c, f, t, a=(), k=None):\n        return True",
        ),
        "a subclass with bytes of its own": twice(
            "x.as_subclass(Long)",
            "class Long(torch.Tensor):\n    def detach(s): return s\n    cpu = detach\n    def reshape(s, *a): return s\n"
            "    def clone(s, **k): return s\n    def view(s, *a): return s\n    def numpy(s): return s\n    def tobytes(s): return bytes(99)",
        ),
        "one object for two": twice("2 * x") + "\ndef parts(x):\n    x += 1\n    return x, x",
        "the public values": twice("store.load('2.1').right[0].value", "from transformer_lib.exercises import store"),
        "the library's own, by its stack": twice(
            "[v for f in inspect.stack() for v in f.frame.f_locals.values() if isinstance(v, torch.Tensor)][0]",
            "import inspect",
        ),
    }
    none = {
        "patched tensors": twice("2 * x", "torch.Tensor.detach = lambda s: torch.zeros(s.shape)"),
        "patched torch": twice("x", "torch.isclose = torch.allclose = lambda *a, **k: torch.tensor(True)")
        + "\nparts = twice",
    }
    found = {name: (cell, 8) for name, cell in right.items()} | {name: (cell, 4) for name, cell in half.items()}
    return found | {name: (cell, 0) for name, cell in none.items()}


OWN = """import math
from transformer_lib import attention, exercises
def {}(query, key, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.softmax(-1) if mask is None else scores.masked_fill(~mask, -math.inf).softmax(-1)
    return {} * (weights if mask is None else weights.masked_fill(~mask, 0))
"""


FIRST = "def attention_weights(query, key, mask=None):\n    return (query @ key.mT).softmax(-1)"


ROUNDABOUT = {
    "in a thread": """from concurrent.futures import ThreadPoolExecutor
def NAME(*inputs):
    return TIMES * ThreadPoolExecutor(1).submit(attention.attention_weights, *inputs).result()
""",
    "under a profiler": """import cProfile
def NAME(*inputs):
    return TIMES * cProfile.Profile().runcall(attention.attention_weights, *inputs)
""",
    "after a long loop": """def NAME(*inputs):
    for _ in range(30_000):
        (lambda: 0)()
    return TIMES * attention.attention_weights(*inputs)
""",
    "in a forked process": """import io, os
def NAME(*inputs):
    read, write = os.pipe()
    if not os.fork():
        with os.fdopen(write, "wb") as out:
            torch.save(TIMES * attention.attention_weights(*inputs), out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as found:
        weights = torch.load(io.BytesIO(found.read()))
    os.wait()
    return weights
""",
    "in a process forked by a cell": """import multiprocessing
def work(query, key, mask):
    mask = mask if mask is None else torch.tensor(mask)
    return (TIMES * attention.attention_weights(torch.tensor(query), torch.tensor(key), mask)).numpy()
pool = multiprocessing.get_context("fork").Pool(1)
def NAME(query, key, mask=None):
    mask = mask if mask is None else mask.numpy()
    return torch.from_numpy(pool.apply(work, (query.numpy(), key.numpy(), mask)))
""",
    "when it's looked at": """class Late(torch.Tensor):
    def detach(self):
        return TIMES * attention.attention_weights(*self.inputs)
def NAME(*inputs):
    late = torch.zeros_like(inputs[0] @ inputs[1].mT).as_subclass(Late)
    late.inputs = inputs
    return late
""",
    "loaded anew": """import importlib
attention = importlib.reload(attention)
def NAME(*inputs):
    return TIMES * attention.attention_weights(*inputs)
""",
    "loaded anew in each call": """import importlib
def NAME(*inputs):
    return TIMES * importlib.reload(attention).attention_weights(*inputs)
""",
}


def roundabout(name="attention_weights", times=1):
    """Return answers to 2.1 that run the library's version by other ways than a plain call: name -> cells."""
    given = "import torch\nfrom transformer_lib import attention\n"
    return {way: [given + text.replace("NAME", name).replace("TIMES", str(times))] for way, text in ROUNDABOUT.items()}


def borrowed(name="attention_weights", times=1):
    """Return answers to 2.1 that run the library's own version: name -> cells, and others that don't.

    Args:
        name: what the answer must be called.
        times: what a private variant multiplies the weights by.
    """

    def calls(expression, before="from transformer_lib import attention"):
        return [f"import torch\n{before}\ndef {name}(query, key, mask=None):\n    return {times} * {expression}"]

    own, other = OWN.format(name, times), OWN.format("mine", times)
    given = "from transformer_lib.attention import attention_weights"
    shown = "attention.attention_weights(torch.ones(2, 3), torch.ones(2, 3))"
    library = {
        "called": calls("attention.attention_weights(query, key, mask)"),
        "imported": calls("theirs(query, key, mask)", f"{given} as theirs"),
        "through what calls it": calls("attention.attend(query, key, torch.eye(key.shape[-2]).to(key), mask)"),
        "where it's hard": [
            own.replace(
                "(weights if", "attention.attention_weights(query, key, mask) if mask is not None else (weights if"
            )
        ],
        "in a thing that holds it": calls("held[0](query, key, mask)", f"{given} as theirs\nheld = [theirs]"),
        "over a stub": [
            f"def {name}(*inputs):\n    raise NotImplementedError",
            *calls("attention.attention_weights(query, key, mask)"),
        ],
    }
    honest = {
        "its own": [own],
        "other pieces": calls("attention.masked_softmax(attention.attention_scores(query, key), mask)"),
        "the library's in a later cell": [own, f"import torch\n{shown}"],
        "the library's version below": [own, calls("attention.attention_weights(query, key, mask)")[0]],
        "another name, checked": [f"{given} as {name}", other, 'exercises.check("2.1", mine)'],
        "compared where it's defined": [
            f"import torch\n{own}assert {shown}.shape == {name}(torch.ones(2, 3), torch.ones(2, 3)).shape"
        ],
        "profiled": [
            own
            + f"import cProfile\nplain = {name}\ndef {name}(*inputs):\n    return cProfile.Profile().runcall(plain, *inputs)"
        ],
    }
    library |= roundabout(name, times)
    honest |= {
        "its own, in a thread": [
            own + "from concurrent.futures import ThreadPoolExecutor\n"
            f"plain = {name}\ndef {name}(*inputs):\n    return ThreadPoolExecutor(1).submit(plain, *inputs).result()"
        ],
        "its own, the library loaded anew": [own, f"import importlib, torch\nimportlib.reload(attention)\n{shown}"],
    }
    if times == 1:
        honest |= {
            "imported below": [own, given],
            "imported below, and it calls itself": [
                own.replace(
                    "    scores",
                    "    if mask is None:\n        return attention_weights(query, key, EVERYTHING)\n    scores",
                ),
                "EVERYTHING = torch.ones(1, dtype=torch.bool)",
                given,
            ],
            "in the library's place": [own, f"import torch\nexercises.use(attention_weights={name})\n{shown}"],
            "put there by hand": [own, f"attention.attention_weights = {name}"],
        }
        library["nothing but imported"] = [given]
    return library, honest


HEADS = """import torch
from torch import nn
from transformer_lib import attention, multi_head
class MultiHeadAttention({}):
    {}
    def forward(self, x, memory, mask=None):
        {}
"""
MAPS = """def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))"""
SPLIT = """split = lambda layer, x: multi_head.split_heads(layer(x), self.heads)
        found = attention.attend(split(self.query, x), split(self.key, memory), split(self.value, memory), mask)
        return self.output(multi_head.merge_heads(found))"""
INNER = """def __init__(self, d_model, heads):
        super().__init__()
        object.__setattr__(self, "inner", multi_head.MultiHeadAttention(d_model, heads))
        self.query, self.key, self.value, self.output = list(self.inner.children())[-4:]"""


def borrowed_classes():
    """Return answers to 3.3 that run the library's class, and others that only build on it."""
    library = {
        "its parent's": HEADS.format("multi_head.MultiHeadAttention", "", "return super().forward(x, memory, mask)"),
        "a part": HEADS.format("nn.Module", INNER, "return self.inner(x, memory, mask)"),
        "only imported": "from transformer_lib.multi_head import MultiHeadAttention",
    }
    honest = {
        "its own": HEADS.format("nn.Module", MAPS, SPLIT),
        "its parent's parts": HEADS.format("multi_head.MultiHeadAttention", "", SPLIT),
        "its own name in it": HEADS.format(
            "nn.Module", MAPS.replace("super()", "super(MultiHeadAttention, self)"), SPLIT
        ),
        "its own, and the library's beside": HEADS.format("nn.Module", MAPS, SPLIT)
        + "multi_head.MultiHeadAttention(4, 2)(torch.ones(1, 2, 4), torch.ones(1, 2, 4))",
    }
    given = {"its own name in it": [library["only imported"]]}
    return {n: [c] for n, c in library.items()}, {n: [c, *given.get(n, ())] for n, c in honest.items()}


def broken():
    """Return files that aren't notebooks."""
    return {
        "empty": b"",
        "binary": bytes(range(256)) * 40,
        "not json": b"{cells: [",
        "a list": b"[1, 2]",
        "no cells": b'{"cells": []}',
        "odd cells": b'{"cells": [1, null, "x", [], {}]}',
        "deep": b"[" * 200_000,
        "deep within": b'{"cells": [{"cell_type": "code", "source": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
        "large": b'{"cells": ["' + b"x" * (5 << 20) + b'"]}',
        "a bomb of lists": b'{"cells": [' + b"[]," * 1_200_000 + b"[]]}",
        "a pickle": b"\x80\x04cposix\nsystem\n(S'touch /tmp/pickled'\ntR.",
    }
