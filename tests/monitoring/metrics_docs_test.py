#!/usr/bin/env python3
"""docs/metrics.md says what the programs show: it is what the code prints (metric_families.cc), and names every metric that any source
registers. The argument is that program."""

import pathlib
import re
import subprocess
import sys
import unittest

import rules_test

PAGE = rules_test.ROOT / "docs/metrics.md"
PROGRAM = pathlib.Path(sys.argv.pop())


class MetricsDocsTest(unittest.TestCase):

    def test_the_page_is_what_the_code_says(self):
        printed = subprocess.run([PROGRAM], check=True, capture_output=True, text=True).stdout
        self.assertEqual(printed, PAGE.read_text(encoding="utf-8"), "run scripts/update-metrics-docs.sh")

    def test_no_metric_is_left_out(self):
        named = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
        sources = [path.read_text(encoding="utf-8") for top in ("services", "libs")
                   for path in (rules_test.ROOT / top).rglob("*.cc")]
        registering = (r'(?:\.Name\(|Gauges\(registry,|Family\(|gauge\()\s*"((?:adaptdl|grpc|process)_\w+)"', r'\{"(adaptdl_job_\w+)"')
        registered = {name for text in sources for pattern in registering for name in re.findall(pattern, text)}
        self.assertGreater(len(registered), 80)
        self.assertEqual(registered - named, set(), "count something of it in tests/monitoring/metric_families.cc")
        self.assertEqual(named - registered, set())


if __name__ == "__main__":
    unittest.main()
