"""What the lint scripts share: the project's files and the report at the end."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOP = ["ir", "compiler", "runtime", "examples", "tests", "docs", ".ci", "cmake"]


def is_built(path):
    return any(part.startswith(".") and part != ".ci" or part in ("__pycache__",) or part.startswith("build") for part in path.relative_to(ROOT).parts)


def files(*suffixes, below=None):
    """The project's own files with one of the suffixes (all without any), sorted; folders of builds are left out."""
    found = []
    for top in below or TOP:
        folder = ROOT / top
        found += [path for path in folder.rglob("*") if path.is_file() and not is_built(path) and (not suffixes or path.suffix in suffixes)]
    if below is None:
        found += [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git" and (not suffixes or path.suffix in suffixes)]
    return sorted(found)


def name(path):
    return path.relative_to(ROOT).as_posix()


class Report:
    """Counts subjects (a file, a rule, a code); each prints what is wrong with it."""

    def __init__(self):
        self.passed = self.failed = 0

    def judge(self, problems):
        """Counts one subject, which is well when it has no problem (None is none)."""
        found = [problem for problem in problems if problem]
        for problem in found:
            print(f"FAIL {problem}")
        self.failed += bool(found)
        self.passed += not found

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed else 0)
