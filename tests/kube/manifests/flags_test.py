"""Every flag and every variable that a manifest sets is one that the built programs know."""

import functools
import os
import pathlib
import re
import subprocess
import unittest

import manifests

BIN = pathlib.Path(os.environ["ADAPTDL_BIN"])


@functools.cache
def help_of(*command):
    program = BIN / command[0]
    return subprocess.run([program, *command[1:], "--help"], capture_output=True, text=True, check=True).stdout


def flags_of(*command):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", help_of(*command)))


class FlagsTest(unittest.TestCase):

    def test_flags_are_known(self):
        for folder in manifests.OPERATOR + manifests.AGENTS:
            for _, _, container in manifests.containers(manifests.render(folder)):
                [program] = container["command"]
                for argument in container["args"]:
                    flag, equals, _ = argument.partition("=")
                    with self.subTest(folder=folder, program=program, flag=flag):
                        self.assertTrue(equals)
                        self.assertIn(flag, flags_of(program))

    def test_variables_are_known(self):
        # What arguments are made of, what the image gives programs, and the command's own.
        known = {"POD_NAME", "ADAPTDL_CA_FILE", "ADAPTDL_SUPERVISOR_ADDRESS", "ADAPTDL_TOKEN_FILE"}
        for folder in manifests.OPERATOR + manifests.AGENTS:
            for _, _, container in manifests.containers(manifests.render(folder)):
                [program] = container["command"]
                for variable in container.get("env", ()):
                    with self.subTest(folder=folder, program=program, variable=variable["name"]):
                        self.assertTrue(variable["name"] in known or f'Env:{variable["name"]})' in help_of(program))

    def test_the_probes_flags_are_known(self):
        self.assertIn("--tls-server-name", flags_of("adaptdl"), "of all of its commands")

    def test_an_unknown_flag_is_found(self):
        self.assertNotIn("--no-such-flag", flags_of("adaptdl-supervisor"))
        self.assertIn("--state-dir", flags_of("adaptdl-supervisor"))


if __name__ == "__main__":
    unittest.main()
