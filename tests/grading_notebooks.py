"""Notebooks that run in Jupyter from top to bottom, each with all checks right: they must earn all of the toy's points.

Some use what only Jupyter and Colab understand, some give a name that an answer uses another value in a later cell,
some have their cells in another order.
"""

from grading_cases import DOUBLE, REFUSE, STUB, TOTAL, answers, notebook

SCALED = "def double(x):\n    return scale * x"
CHECK = "exercises.check('9.1', double)"


def rebound():
    """Return notebooks in which a later cell gives a name of an answer's another value, or takes it away."""
    deep = "def total(numbers):\n    if not numbers:\n        return 0\n    return numbers[0] + total(numbers[1:])"
    whole = "import math\ndef double(x):\n    return 2 * x * math.cos(0)"
    helped = "def _half(x, y):\n    return x / y\ndef double(x):\n    return 4 * _half(x, 2)"
    made = (
        "class Base:\n    pass\nclass double(Base):\n    def __new__(cls, x):\n        super(double, cls).__new__(cls)"
    )
    counted = "calls = 0\ndef double(x):\n    global calls\n    calls += 1\n    return 2 * x if calls else None"
    doubled = "def total(numbers):\n    return sum(double(n) // 2 for n in numbers)"
    return {
        "a recursive answer's name": answers(total=deep, after=("total = 3",)),
        "a module's name": answers(double=whole, after=("math = 3",)),
        "a module's name, checked": answers(double=whole, after=(CHECK, "math = 3")),
        "a helper with other arguments": answers(double=helped, after=("def _half(x):\n    return x / 2",)),
        "a helper that does something else": answers(double=helped, after=(CHECK, "def _half(x, y):\n    return x")),
        "a helper deleted": answers(double=helped, after=(CHECK, "del _half")),
        "a constant": answers("scale = 2", double=SCALED, after=(CHECK, "for scale in range(9): pass")),
        "a constant, with no check": answers("scale = 2", double=SCALED, after=("scale = 5",)),
        "a constant, mended before the check": answers(
            "scale = 3", double=SCALED, after=("scale = 2", CHECK, "scale = 7")
        ),
        "a constant, checked twice": answers(
            "scale = 3", double=SCALED, after=(CHECK, "scale = 2", CHECK, "scale = 7")
        ),
        "a built-in": answers(after=("sum = 3", "ValueError = None")),
        "a class of its own name": answers(double=made + "\n        return 2 * x", after=("double = double(3)",)),
        "a stub of a helper, written below": answers(
            "def _two():\n    raise NotImplementedError",
            double="def double(x):\n    return _two() * x",
            after=("def _two():\n    return 2",),
        ),
        "a helper written below": answers(
            double="def double(x):\n    return _two() * x", after=("def _two():\n    return 2",)
        ),
        "an error that a helper decides": answers(
            "def low(n):\n    return n < 0",
            refuse=REFUSE.replace("n < 0", "low(n)"),
            after=("def low(n):\n    return False",),
        ),
        "another answer, mended below": answers(
            double="def double(x):\n    return 3 * x", total=doubled, after=("exercises.check('9.2', total)", DOUBLE)
        ),
        "another answer, a stub below": answers(total=doubled, after=(STUB.format("double"),)),
        "a counter": answers(double=counted, after=(CHECK, "print(double(3), calls)", "calls = -1")),
    }


def in_jupyter():
    """Return notebooks with what Jupyter makes Python of."""
    broken = "assert (1 + 1\n        != 3)\nleft = (17\n%x)\nright = 17 \\\n    %x\nwords = '''\n!ls\n%time\n'''\n"
    scaled = SCALED.replace("scale", "int(scale(4))")
    return {
        "a line that only looks like a shell's": answers(double=f"%matplotlib inline\nx = 7\n{broken}{DOUBLE}"),
        "the same in a timed cell": answers(double=f"%%time\nx = 7\n{broken}{DOUBLE}"),
        "a timed statement": answers("%time scale = math.sqrt", double=scaled),
        "a timed value": answers("scale = %time 2", double=SCALED),
        "a timed statement that goes on": answers("%time scale = (lambda x: x / \\\n    2)", double=scaled),
        "profiled": answers("%prun -l 3 -s cumulative scale = math.sqrt\n%timeit -n 2 -r1 scale(3)", double=scaled),
        "captured": answers(double=f"%%capture out --no-stderr\n{DOUBLE}", after=("out.show()\nprint(out.stdout)",)),
        "magics above each other": answers(double=f"\n%%time\n%%capture\n{DOUBLE}"),
        "a setup": answers(double=f"%%timeit -n 1 scale = 2\n{SCALED}"),
        "shell lines": answers(
            double=f"names['x'] = !ls\n!echo \"(\nif True:\n    !ls \\\n  x\nprint?\n{DOUBLE}".replace(
                "names", "names = {}\nnames", 1
            )
        ),
        "a module written": answers(f"%%writefile helper.py\n{DOUBLE}", double="from helper import double"),
        "a module added to": answers(
            "%%file /content/a_helper.py\nimport math",
            f"%%writefile -a a_helper.py\n{DOUBLE}",
            double="import a_helper\ndouble = a_helper.double",
        ),
        "a file run": answers(f"%%writefile part.py\n{DOUBLE}", double="%run part.py", after=("%run another.py\n1",)),
        "annotations as text, from another cell": answers(
            "from __future__ import annotations", double=DOUBLE.replace("(x)", "(x: Nothing) -> Nothing")
        ),
        "its own source": answers(
            "import inspect\ndef two():\n    return 2\nassert 'return 2' in inspect.getsource(two)\nscale = two()",
            double=SCALED,
        ),
        "more behind a check": answers(
            "class exercises:\n    check = print", "exercises.check('9.1', None); scale = int(2)", double=SCALED
        ),
        "indented": answers(double=DOUBLE.replace("def", "    def").replace("    return", "        return")),
        "prompts": answers(double=">>> def double(x):\n...     return 2 * x\n>>> double(2)"),
        "numbered prompts": answers(double="In [3]: def double(x):\n   ...:     return 2 * x"),
        "the shell by name": answers(
            "from IPython import get_ipython\nget_ipython().run_line_magic('matplotlib', 'inline')\n"
            "get_ipython().run_line_magic('time', 'scale = 2')",
            double=f"get_ipython().run_cell_magic('time', '', {SCALED!r})",
        ),
        "Colab by its name": answers(
            double=f"import google.colab\nimport google.colab.drive as d\nd.mount('/x')\n{DOUBLE}"
        ),
        "Colab's parts": answers(
            double="from google.colab import drive, files\nfrom google.colab.patches import cv2_imshow\n"
            f"for name in files.upload().keys(): pass\ncv2_imshow(3)\n{DOUBLE}"
        ),
    }


def in_another_order():
    """Return notebooks whose cells stand in another order than they were run in."""
    chain = [f"root{n} = root{n - 1}" for n in range(5, 1, -1)]
    given = TOTAL.replace("total(numbers)", "total(numbers, root=root5)").replace(
        "sum(numbers)", "sum(numbers) * int(root(1))"
    )
    return {
        "three deep": notebook(
            DOUBLE, given.replace("root5", "root2"), REFUSE, "root2 = root1", "import math\nroot1 = math.sqrt"
        ),
        "six deep": notebook(DOUBLE, given, REFUSE, *chain, "import math\nroot1 = math.sqrt"),
        "with one that never runs": notebook(
            DOUBLE, given, REFUSE, "nothing + 1", *chain, "import math\nroot1 = math.sqrt"
        ),
    }
