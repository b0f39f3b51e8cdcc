"""Make .venv and put the pinned packages into it; do nothing when that has been done already.

Run by any Python 3 (`python3 tools/environment.py`), before anything is installed: it uses the standard library alone.
What was installed is noted in `.venv/installed`, written last, so that an interrupted run is simply repeated.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import urllib.request

OLDEST, NEWEST = (3, 10), (3, 13)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
STAMP = os.path.join(VENV, "installed")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def supported(version):
    """Return whether the book runs on this Python, given as (major, minor)."""
    return OLDEST <= tuple(version[:2]) <= NEWEST


def find_python():
    """Return a supported Python: the one that runs this file, else the newest one on the path.

    Raises:
        SystemExit: there is none.
    """
    if supported(sys.version_info):
        return os.path.realpath(sys.executable)
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        found = executable(shutil.which(f"python3.{minor}"))
        if found:
            return found
    wanted = f"3.{OLDEST[1]} to 3.{NEWEST[1]}"
    raise SystemExit(
        f"This needs Python {wanted}, and found {platform.python_version()} at {sys.executable}. "
        "Install one of those, then run: make PYTHON=/path/to/python3.12 ..."
    )


def executable(command):
    """Return the path of the Python behind a command; None where it isn't one that runs (as some shims are)."""
    if not command:
        return None
    run = subprocess.run([command, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True)
    return os.path.realpath(run.stdout.strip()) if run.returncode == 0 else None


def fingerprint(python):
    """Return a text that changes with the pins, with the library's own metadata, with Python and with the folder."""
    parts = [python, ROOT]
    for name in ("requirements.txt", "pyproject.toml"):
        with open(os.path.join(ROOT, name), "rb") as file:
            parts.append(hashlib.sha256(file.read()).hexdigest())
    return "\n".join(parts) + "\n"


def is_installed(python):
    """Return whether the last complete installation was made from the same files, and its Python still runs."""
    try:
        with open(STAMP) as file:
            if file.read() != fingerprint(python):
                return False
    except OSError:
        return False
    return subprocess.call([venv_python(), "-c", ""], stderr=subprocess.DEVNULL) == 0


def venv_python():
    """Return the path of the virtual environment's Python."""
    return os.path.join(VENV, "bin", "python")


def make_venv(python):
    """Create .venv unless a working one of the same Python version is there.

    Raises:
        SystemExit: Python's venv module can't make one (on Debian it is a package of its own).
    """
    ask = "import sys; print(sys.version_info[:2])"
    if os.path.exists(venv_python()):
        versions = [subprocess.run([p, "-c", ask], capture_output=True, text=True) for p in (python, venv_python())]
        if versions[1].returncode == 0 and versions[0].stdout == versions[1].stdout and has_pip():
            return
    print(f"Making .venv with {python}", flush=True)
    if subprocess.call([python, "-m", "venv", "--clear", VENV]) != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        raise SystemExit(
            "Python's venv module could not make .venv. On Debian and Ubuntu: sudo apt install python3-venv"
        )


def has_pip():
    """Return whether the virtual environment has pip: an interrupted `python -m venv` may have left it without."""
    return subprocess.call([venv_python(), "-m", "pip", "--version"], stdout=subprocess.DEVNULL) == 0


def pinned(package):
    """Return the line of requirements.txt that pins this package, as `name==version`."""
    with open(os.path.join(ROOT, "requirements.txt")) as file:
        return next(line.split(";")[0].strip() for line in file if line.startswith(package + "=="))


def has(requirement):
    """Return whether the virtual environment has this `name==version`, whatever its build (as in 2.13.0+cpu)."""
    name, version = requirement.split("==")
    ask = f"import importlib.metadata as m; print(m.version({name!r}).split('+')[0])"
    return subprocess.run([venv_python(), "-c", ask], capture_output=True, text=True).stdout.strip() == version


def wants_cpu_build():
    """Return whether PyPI would send a CUDA build of PyTorch to a machine that can't use it."""
    return platform.system() == "Linux" and not shutil.which("nvidia-smi") and not os.path.exists("/proc/driver/nvidia")


def reachable(url):
    """Return whether this address answers within five seconds."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (OSError, ValueError):
        return False


def pip(*arguments):
    """Run the virtual environment's pip; return whether it succeeded."""
    command = [venv_python(), "-m", "pip", "--disable-pip-version-check"]
    return subprocess.call(command + list(arguments), cwd=ROOT) == 0


def install():
    """Install the pins and the library itself, editable; on Linux without an NVIDIA GPU try PyTorch's CPU build first.

    Raises:
        SystemExit: pip failed; its own words stand above.
    """
    torch = pinned("torch")
    if wants_cpu_build() and not has(torch):
        if reachable(CPU_INDEX + "/torch/"):
            pip("install", "--no-deps", "--index-url", CPU_INDEX, torch)
        else:
            print(
                f"PyTorch's CPU builds can't be reached ({CPU_INDEX}): taking {torch} from the usual index.",
                flush=True,
            )
    print("Installing the packages of requirements.txt (minutes the first time)", flush=True)
    if not (pip("install", "-q", "-r", "requirements.txt") and pip("install", "-q", "--no-deps", "-e", ".")):
        raise SystemExit("The installation did not finish: see above. It is safe to run the same command again.")


def main():
    """Bring .venv up to date."""
    python = find_python()
    if is_installed(python):
        return
    if os.path.exists(STAMP):
        os.remove(STAMP)
    make_venv(python)
    install()
    with open(STAMP + ".new", "w") as file:
        file.write(fingerprint(python))
    os.replace(STAMP + ".new", STAMP)


if __name__ == "__main__":
    main()
