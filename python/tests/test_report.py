"""`python -m adaptdl`, and what an import says of AdaptDL's package of old."""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from adaptdl import _engine, _report

PACKAGE = pathlib.Path(_engine.LIBRARY).parent


def python(folder, *arguments, **variables):
    """Runs an interpreter that finds the package in `folder`; its exit code, output and complaints."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTDL_")}
    done = subprocess.run([sys.executable, *arguments], env=dict(clean, PYTHONPATH=str(folder), **variables),
                          check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                          cwd="/")
    return done.returncode, done.stdout, done.stderr


def report(folder, **variables):
    """The exit code, and the report itself."""
    code, output, complaints = python(folder, "-m", "adaptdl", "--json", **variables)
    return code, json.loads(output or f'"{complaints}"')


class InstalledTest(unittest.TestCase):
    """A copy of the package, as a wheel would have installed it, for each test."""

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.site = pathlib.Path(self._folder.name)
        shutil.copytree(PACKAGE, self.site / "adaptdl", ignore=shutil.ignore_patterns("__pycache__"))
        self.describe(self.site, "adaptdl_elastic", "0.1.0")

    def describe(self, site, name, version):
        """What pip leaves of a distribution that consists of the package."""
        information = site / f"{name}-{version}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n")
        files = sorted(path for path in (self.site / "adaptdl").rglob("*") if path.is_file())
        digests = [base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
                   for path in files]
        (information / "RECORD").write_text("".join(f"{path.relative_to(self.site)},sha256={digest},1\n"
                                                    for path, digest in zip(files, digests)))

    def test_says_what_it_found(self):
        code, found = report(self.site)
        self.assertEqual((code, found["problems"]), (0, []))
        self.assertEqual(found["folder"], str(self.site / "adaptdl"))
        self.assertEqual(found["engine"]["interface"], found["engine"]["expected_interface"])
        self.assertTrue(found["control"]["opens"])
        self.assertTrue(found["torch"]["supported"])
        self.assertIsNone(found["old_package"])

    def test_people_read_it_too(self):
        code, output, _ = python(self.site, "-m", "adaptdl")
        self.assertEqual(code, 0)
        self.assertRegex(output, r"(?m)^adaptdl \d+\.\d+\.\d+ in ")
        self.assertRegex(output, r"(?m)^PyTorch  \d.*, supported, ")
        self.assertNotIn("problem", output)

    def test_engine_is_missing(self):
        (self.site / "adaptdl/libadaptdl_engine.so").unlink()
        code, found = report(self.site)
        self.assertEqual(code, 1)
        self.assertIn("the engine does not work: the engine cannot be opened", found["problems"][0])

    def test_engine_is_of_another_version(self):
        module = self.site / "adaptdl/_engine.py"
        module.write_text(module.read_text().replace("\nINTERFACE = ", "\nINTERFACE = 1000 + "))
        code, found = report(self.site)
        self.assertEqual(code, 1)
        self.assertIn("of another version", " ".join(found["problems"]))

    def test_library_for_gpus(self):
        _, found = report(self.site, ADAPTDL_CUDA_LIBRARY="/nowhere/libadaptdl_cuda.so")
        self.assertEqual(found["gpus"], {"path": "/nowhere/libadaptdl_cuda.so", "opens": False})
        _, found = report(self.site, ADAPTDL_CUDA_LIBRARY=found["engine"]["path"])
        self.assertTrue(found["gpus"]["opens"])

    def test_control_library_is_missing(self):
        code, found = report(self.site, ADAPTDL_CONTROL_LIBRARY="/nowhere/libadaptdl_control.so")
        self.assertEqual((code, found["control"]["opens"]), (1, False))
        self.assertIn("/nowhere/libadaptdl_control.so", found["problems"][0])

    def test_pytorch_is_missing(self):
        (self.site / "torch.py").write_text("raise ImportError('no such thing')\n")
        code, found = report(self.site)
        self.assertEqual((code, found["torch"]), (1, None))
        self.assertIn("PyTorch cannot be imported: no such thing", found["problems"][0])

    def test_supported_pytorch(self):
        versions = ("1.12.1", "1.13.0a0", "2.0.1+cpu", "2.15.0+cu132", "?")
        self.assertEqual([_report.is_supported(version) for version in versions],
                         [False, True, True, True, False])

    def test_files_are_altered(self):
        with open(self.site / "adaptdl/env.py", "a", encoding="utf-8") as file:
            file.write("# by somebody else\n")
        code, found = report(self.site)
        self.assertEqual((code, found["altered_files"]), (1, ["adaptdl/env.py"]))
        self.assertIn("--force-reinstall", found["problems"][0])

    def test_secrets_are_not_shown(self):
        _, output, _ = python(self.site, "-m", "adaptdl", ADAPTDL_GROUP_TOKEN="hush",
                              ADAPTDL_JOB_ID="default/mine", ADAPTDL_TOKEN_FILE="/etc/token",
                              ADAPTDL_SUPERVISOR_URL="http://me:hush@host:7300/hush/")
        self.assertNotIn("hush", output)
        for line in ("ADAPTDL_GROUP_TOKEN=(hidden)", "ADAPTDL_JOB_ID=default/mine",
                     "ADAPTDL_TOKEN_FILE=/etc/token", "ADAPTDL_SUPERVISOR_URL=http://host:7300/(hidden)"):
            self.assertIn(line, output.splitlines())

    def test_import_is_silent(self):
        self.assertEqual(python(self.site, "-c", "import adaptdl"), (0, "", ""))

    def test_old_package_in_the_same_folder(self):
        self.describe(self.site, "adaptdl", "0.2.11")
        code, _, complaints = python(self.site, "-c", "import adaptdl")
        self.assertEqual(code, 0)
        self.assertIn("AdaptDL's package 'adaptdl' 0.2.11 is installed too", complaints)
        self.assertIn("python -m pip uninstall adaptdl && python -m pip install --force-reinstall",
                      complaints)
        self.assertEqual(report(self.site)[1]["old_package"]["version"], "0.2.11")

    def test_old_package_elsewhere(self):
        other = self.site / "other"
        other.mkdir()
        self.describe(other, "adaptdl", "0.2.11")
        _, _, complaints = python(f"{self.site}:{other}", "-c", "import adaptdl")
        self.assertIn(f"in {other}/adaptdl", complaints)
        self.assertNotIn("--force-reinstall", complaints)


if __name__ == "__main__":
    unittest.main()
