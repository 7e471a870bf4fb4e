#!/usr/bin/env python3
"""What scripts/test-long.sh records: parts that have passed, for the commit that they ran on, until what they are made of
changes."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/lib/results"))
import long_runs  # noqa: E402

GOOD = long_runs.Part("good", "counts", ("sh", "-c", "echo counted 3; echo noise"), r"^counted (\d+)$",
                      ("code.cc", "folder"))
BAD = long_runs.Part("bad", "fails", ("sh", "-c", "exit 3"), "x", ("code.cc",))
PARTS = long_runs.PARTS
PAGE = "# Results\n\n<!-- begin long runs -->\n<!-- end long runs -->\n"


class LongRunsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "docs/results").mkdir(parents=True)
        (self.root / "docs/results.md").write_text(PAGE)
        (self.root / "code.cc").write_text("int main() {}\n")
        self.git("init", "--quiet")
        self.commit()
        for name, value in {"ROOT": self.root, "RECORDS": self.root / "docs/results/long-runs.json",
                            "RESULTS": self.root / "docs/results.md", "LOGS": self.root / "build/long",
                            "PARTS": (GOOD, BAD)}.items():
            patch = mock.patch.object(long_runs, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=test", "-c", "user.email=test@example.org", *arguments],
                       cwd=self.root, check=True, capture_output=True)

    def commit(self):
        self.git("add", "--all", "--", ".", ":(exclude)build")
        self.git("commit", "--quiet", "--allow-empty", "--message", "change")

    def run_parts(self, *arguments):
        with mock.patch.object(sys, "argv", ["test-long.sh", *arguments]):
            return long_runs.main()

    def to_do(self):
        return [part.name for part in long_runs.choose([], long_runs.read_records())]

    def test_records_what_has_passed_and_only_that(self):
        self.assertEqual(self.run_parts(), 1)
        records = long_runs.read_records()
        self.assertEqual(list(records), ["good"])
        self.assertEqual(records["good"]["figures"], ["3"])
        self.assertIn("| good | counts |", long_runs.RESULTS.read_text())
        self.assertEqual(self.to_do(), ["bad"])

    def test_a_record_holds_until_what_it_is_made_of_changes(self):
        self.assertEqual(self.run_parts("good"), 0)
        (self.root / "other.cc").write_text("int main() {}\n")
        (self.root / "folder").mkdir()
        (self.root / "folder/README.md").write_text("It counts.\n")
        self.commit()  # the record and the page, too
        self.assertEqual(self.to_do(), ["bad"])
        (self.root / "code.cc").write_text("int main() { return 1; }\n")
        self.commit()
        self.assertEqual(self.to_do(), ["good", "bad"])

    def test_every_part_names_what_is_there(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        for part in PARTS:
            for path in (part.command[0], *part.depends):
                self.assertTrue((root / path).exists(), f"{part.name}: {path}")

    def test_refuses_what_is_not_committed_and_unknown_parts(self):
        (self.root / "code.cc").write_text("int main() { return 1; }\n")
        with self.assertRaises(SystemExit) as refused:
            self.run_parts("good")
        self.assertEqual(refused.exception.code, 2)
        self.assertEqual(long_runs.read_records(), {})
        with self.assertRaises(SystemExit):
            self.run_parts("ugly")


if __name__ == "__main__":
    unittest.main()
