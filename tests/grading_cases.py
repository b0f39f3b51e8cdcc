"""Submissions to a toy assignment: honest but damaged ones, wrong ones, and attacks. All are made by code.

The toy needs no torch, so that a sandbox starts in a tenth of a second: 9.1 `double` (4 points), 9.2 `total` (2),
9.3 `refuse` (2) and an open question 9.4.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

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
STUB = "def {}(x):\n    raise NotImplementedError('not attempted yet')"


@dataclass
class Submitted:
    """A submission: what it is, what it must get, and what must be said of it.

    Args:
        points: of 8; None where any number up to it may come out, as `most`.
        status: how the row must end; None if that may differ with the machine.
    """

    content: bytes
    points: float = 8.0
    status: str | None = "graded"
    file: str = "toy.ipynb"
    beside: dict[str, bytes] = field(default_factory=dict)
    prepare: Callable[[Path], None] | None = None


def code(source, **fields):
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None, **fields}


def text(source):
    return {"cell_type": "markdown", "source": source, "metadata": {}}


def notebook(*cells, **fields):
    made = [code(cell) if isinstance(cell, str) else cell for cell in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | fields).encode()


def answers(*before, double=DOUBLE, total=TOTAL, refuse=REFUSE, after=()):
    return notebook(IMPORTS, *before, double, total, refuse, *after)


def exercise():
    """Return the notebook that students were given."""
    cells = [code(IMPORTS, id="imports")]
    for number, name in {"9-1": "double", "9-2": "total", "9-3": "refuse"}.items():
        cells += [code(STUB.format(name), id=f"answer-{number}"), code(f'exercises.check("{number}", {name})')]
    return notebook(*cells, text("**Answer 9.4**\n\n*Your answer here.*"))


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
            "import sys\nsys.modules['grader'].Session.call = lambda *a: ({'tree': {'v': 'right'}, 'points': 99}, b'')",
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
            "import gc\ns = [o for o in gc.get_objects() if type(o).__name__ == 'Session'][0]\n"
            "s.call = lambda *a: ({'tree': {'t': 'float64', 'shape': [10**6, 10**6, 10**6]}}, b'')",
            0,
        ),
        "a deep reply": (
            "import gc\ns = [o for o in gc.get_objects() if type(o).__name__ == 'Session'][0]\nt = {'v': 1}\n"
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
