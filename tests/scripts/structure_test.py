#!/usr/bin/env python3
"""The structure of the sources is as scripts/lib/structure.toml says, and scripts/lib/structure.py notices when it is not."""

import copy
import pathlib
import sys
import tempfile
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/lib"))
import structure  # noqa: E402

RULES = {
    "uses": {"proto": [], "libs/base": [], "libs/rpc": ["libs/base"], "libs/elastic": ["libs/base"],
             "services/one": ["libs/rpc", "proto"], "services/two": ["libs/rpc"], "tests": ["*"]},
    "parts": {"libs/elastic": ["include/adaptdl", "data"], "tests": ["*"]},
    "includes": {"gaps": []},
    "lines": {"source": 5, "test": 8, "gaps": []},
    "readmes": {"gaps": []},
    "libtorch": {"pattern": r'^\s*#\s*include\s+["<](torch|ATen|c10)/', "allowed": ["libs/elastic/data", "tests"],
                 "gaps": []},
    "clocks": {"pattern": r"\babsl::(Now|SleepFor)\(", "allowed": ["**/main.cc", "libs/base"], "gaps": []},
}


class StructureTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.files = []
        self.rules = copy.deepcopy(RULES)

    def write(self, path, text="", readme=True):
        """A file, with a README beside it."""
        for file, content in ((path, text), (f"{path.rpartition('/')[0]}/README.md", "# A folder\n")):
            if (file == path or readme) and file not in self.files:
                (self.root / file).parent.mkdir(parents=True, exist_ok=True)
                (self.root / file).write_text(content)
                self.files.append(file)

    def problems(self):
        return structure.check(self.root, self.files, self.rules)

    def assert_only(self, *parts):
        """There is one problem, and it names all of these."""
        problems = self.problems()
        self.assertEqual(len(problems), 1, problems)
        for part in parts:
            self.assertIn(part, problems[0])

    def test_a_tree_that_keeps_the_rules_is_fine(self):
        self.write("libs/base/clock.h")
        self.write("libs/rpc/channel.cc", '#include "libs/base/clock.h"\n')
        self.write("services/one/main.cc", '#include "libs/base/clock.h"\n#include "adaptdl/v1/job.pb.h"\n')
        self.write("tests/services/one/main_test.cc", '#include "services/one/main.cc"\n', readme=False)
        self.assertEqual(self.problems(), [])

    def test_an_include_against_the_order_is_named(self):
        self.write("libs/rpc/channel.h")
        self.write("libs/base/clock.cc", '#include "libs/rpc/channel.h"\n')
        self.assert_only("libs/base/clock.cc", "libs/rpc/channel.h", "libs/base may not know libs/rpc")

    def test_services_do_not_know_each_other(self):
        self.write("services/two/two.h")
        self.write("services/one/one.cc", '#include "services/two/two.h"\n')
        self.assert_only("services/one may not know services/two")

    def test_generated_headers_and_public_ones_belong_to_a_folder(self):
        self.write("libs/elastic/include/adaptdl/job.h")
        self.write("libs/rpc/channel.cc", '#include "adaptdl/v1/job.grpc.pb.h"\n')
        self.write("libs/rpc/other.cc", '#include "adaptdl/job.h"\n')
        problems = self.problems()
        self.assertEqual(len(problems), 2, problems)
        self.assertIn("libs/rpc may not know proto", problems[0])
        self.assertIn("libs/rpc may not know libs/elastic", problems[1])

    def test_parts_of_a_folder_have_no_order(self):
        self.write("libs/elastic/data/loader.h", '#include "adaptdl/job.h"\n')
        self.write("libs/elastic/include/adaptdl/job.h", '#include "libs/elastic/data/loader.h"\n')
        self.assertEqual(self.problems(), [])

    def test_an_unknown_folder_is_an_error_that_names_the_table(self):
        self.write("libs/elastic/attic/old.cc")
        self.assert_only("libs/elastic/attic", "structure.toml", "[uses] or [parts]")

    def test_a_circle_in_the_table_is_named(self):
        self.rules["uses"]["libs/base"] = ["libs/rpc"]
        self.assertIn("[uses] in structure.toml leads from libs/base back to libs/base", self.problems())
        self.rules["uses"]["libs/base"] = ["libs/nothing"]
        self.assertIn("[uses] of libs/base in structure.toml names libs/nothing, which is not there", self.problems())

    def test_long_files_are_named(self):
        self.write("libs/base/clock.cc", "\n" * 6)
        self.write("tests/libs/base/clock_test.cc", "\n" * 8)
        self.assert_only("libs/base/clock.cc", "has 6 lines; the most is 5")

    def test_folders_say_what_they_are_but_for_mirrors(self):
        self.write("libs/base/clock.cc", readme=False)
        self.write("tests/libs/base/clock_test.cc", readme=False)
        self.assert_only("libs/base: has no README.md")
        self.write("tests/chaos/chaos_test.cc", readme=False)
        self.assertEqual(len(self.problems()), 2)

    def test_libtorch_has_its_places(self):
        self.write("libs/elastic/data/tensors.cc", "#include <torch/torch.h>\n")
        self.write("tests/tensors_test.cc", "#include <ATen/ATen.h>\n")
        self.assertEqual(self.problems(), [])
        self.write("libs/rpc/channel.cc", "#include <c10/core/Device.h>\n")
        self.assert_only("libs/rpc/channel.cc", "[libtorch]")

    def test_clocks_are_passed_in(self):
        self.write("libs/base/clock.cc", "absl::Now();\n")
        self.write("services/one/main.cc", "absl::Now();\n")
        self.write("services/one/one.cc", "// Never absl::Now().\n")
        self.assertEqual(self.problems(), [])
        self.write("services/one/two.cc", "  absl::SleepFor(absl::Seconds(1));\n")
        self.assert_only("services/one/two.cc", "absl::SleepFor(", "[clocks]")

    def test_gaps_are_accepted_as_long_as_they_are_needed(self):
        self.write("libs/rpc/channel.h", '#include "services/one/one.h"\n' + "absl::Now();\n" * 5, readme=False)
        self.write("services/one/one.h", '#include "torch/torch.h"\n')
        for rule, entry in (("includes", "libs/rpc -> services/one"), ("lines", "libs/rpc/channel.h"),
                            ("readmes", "libs/rpc"), ("clocks", "libs/rpc"), ("libtorch", "services/one")):
            self.rules[rule]["gaps"] = [entry]
        self.assertEqual(self.problems(), [])
        self.files = []
        self.write("libs/rpc/channel.h")
        problems = self.problems()
        self.assertEqual(len(problems), 5, problems)
        for problem in problems:
            self.assertIn("keeps the rule; take it out of", problem)

    def test_this_repository_keeps_the_rules(self):
        rules = tomllib.loads(structure.RULES.read_text())
        problems = structure.check(ROOT, structure.list_files(ROOT), rules)
        self.assertEqual(problems, [], "\n" + "\n".join(problems))


if __name__ == "__main__":
    unittest.main()
