"""Several replicas, and faults: programs in processes of their own."""

import os
import signal
import stat
import tempfile
import unittest

from support import finish, run, start


class ReplicasTest(unittest.TestCase):
    def expect_trained(self, *arguments, replicas):
        code, output = run("train", *arguments, replicas=replicas)
        self.assertEqual(code, 0, output)
        self.assertIn("once: True, alike: True, as plain: True", output)

    def test_unequal_shares_take_the_steps_of_the_plain_loop(self):
        self.expect_trained(replicas=3)

    def test_with_adam(self):
        self.expect_trained(0, 0, 2, "Adam", replicas=2)

    def test_with_micro_batches_and_processes_that_read(self):
        self.expect_trained(1, 3, replicas=2)

    def test_streams(self):
        for replicas, workers, local in ((2, 0, 0), (3, 2, 0), (2, 1, 3)):
            code, output = run("streams", workers, local, replicas=replicas)
            self.assertEqual(code, 0, output)
            self.assertIn("each twice: True, full: False, as plain: True, ends: 2, True", output)

    def test_streams_whose_last_steps_are_dropped(self):
        code, output = run("streams", 0, 0, 1, replicas=4)
        self.assertEqual(code, 0, output)
        self.assertIn("each twice: False, full: True, as plain: True, ends: 2, True", output)

    def test_texts(self):
        for replicas, local in ((3, 0), (2, 2), (6, 0)):
            code, output = run("texts", 1000, local, replicas=replicas)
            self.assertEqual(code, 0, output)
            self.assertIn("batches: [0, 1, 2, 3, 4]", output)

    def test_a_text_that_others_go_on_with(self):
        with tempfile.TemporaryDirectory() as folder:
            outputs = []
            for stop_after, replicas in ((1, 2), (1, 3), (1000, 1)):
                outputs.append(run("texts", stop_after, replicas=replicas,
                                   environment={"ADAPTDL_CHECKPOINT_PATH": folder}))
        for (code, output), expected, batches in zip(outputs, (143, 143, 0), ([0, 1], [2, 3], [4])):
            self.assertEqual(code, expected, output)
            self.assertIn(f"batches: {batches}", output)

    def test_collectives(self):
        code, output = run("collectives", replicas=2)
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count("3 [0, 1] [0, 1] {'rank': 0}"), 2, output)

    def test_a_step_that_all_leave_out(self):
        code, output = run("left_out", replicas=2)
        self.assertEqual(code, 0, output)
        self.assertIn("[True, False, True, True] True 4", output)

    def test_a_replica_without_a_backward_pass(self):
        code, output = run("without_backward", replicas=2)
        self.assertEqual(code, 0, output)
        self.assertIn("True True True [2.0, 5.0] 4", output)


class FaultsTest(unittest.TestCase):
    def test_an_exception_on_one_replica_ends_all(self):
        code, output = run("misuse", "raise", replicas=2)
        self.assertNotEqual(code, 0)
        self.assertIn("ValueError: of the program", output)

    def test_a_second_backward_pass_is_refused(self):
        code, output = run("misuse", "twice", replicas=2)
        self.assertNotEqual(code, 0)
        self.assertIn("backward() ran twice in one optimiser step", output)

    def test_a_worker_of_the_loader_that_is_killed(self):
        for data in ("indices", "streams"):
            code, output = run("kill_worker", data)
            self.assertEqual(code, 1, output)
            self.assertRegex(output, r"DataLoader worker .* (is killed|exited)")

    def test_a_checkpoint_that_cannot_be_written_does_not_stop_training(self):
        with tempfile.TemporaryDirectory() as folder:
            # A file where the folder should be: root may write everywhere else.
            path = os.path.join(folder, "file")
            with open(path, "w", encoding="ascii"):
                os.chmod(path, stat.S_IRUSR)
            code, output = run(
                "train",
                environment={"ADAPTDL_CHECKPOINT_PATH": path, "ADAPTDL_CHECKPOINT_PERIOD_STEPS": "2"})
        self.assertEqual(code, 0, output)
        self.assertIn("as plain: True", output)
        self.assertRegex(output, "adaptdl: .*checkpoint")


class SignalsTest(unittest.TestCase):
    def signalled(self, job, *signals, environment=None):
        """Runs a job, and sends it the signals one after the other when it trains: its code and output."""
        process = start(job, environment=environment)
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line == "trains\n":
                break
        for number in signals:
            process.send_signal(number)
        code, output = finish(process)
        return code, "".join(lines) + output

    def test_sigterm_leads_to_a_checkpoint_and_143(self):
        with tempfile.TemporaryDirectory() as folder:
            code, output = self.signalled("endless",
                                          signal.SIGTERM,
                                          environment={"ADAPTDL_CHECKPOINT_PATH": folder})
            self.assertEqual(code, 143, output)
            self.assertEqual(len(os.listdir(folder)), 1, output)
        # By an exception, not in the midst of it all.
        self.assertIn("ends", output)

    def test_workers_of_the_loader_outlive_what_stops_the_replica(self):
        for number, data in ((signal.SIGTERM, "indices"), (signal.SIGINT, "indices"), (signal.SIGTERM, "streams")):
            process = start("endless", 2, data, own_group=True)
            self.assertEqual(process.stdout.readline(), "trains\n")
            os.killpg(process.pid, number)
            code, output = finish(process)
            self.assertEqual(code, 143, output)
            self.assertNotIn("Error", output)

    def test_ctrl_c_does_the_same(self):
        code, output = self.signalled("endless", signal.SIGINT)
        self.assertEqual(code, 143, output)
        self.assertIn("ends", output)

    def test_a_second_ctrl_c_interrupts_python(self):
        process = start("computes")
        self.assertEqual(process.stdout.readline(), "trains\n")
        process.send_signal(signal.SIGINT)
        self.assertIn("asked to stop (SIGINT)", process.stdout.readline())
        process.send_signal(signal.SIGINT)
        code, output = finish(process)
        self.assertIn("KeyboardInterrupt", output)
        self.assertIn(code, (1, 130, -signal.SIGINT))

    def test_before_the_replicas_have_met(self):
        self.assertEqual(self.signalled("before_meeting", signal.SIGTERM)[0], 143)
        self.assertIn("KeyboardInterrupt", self.signalled("before_meeting", signal.SIGINT)[1])

    def test_a_handler_of_the_programs_own_is_called_too(self):
        code, output = self.signalled("handler", signal.SIGTERM)
        self.assertEqual(code, 143, output)
        self.assertIn("handled", output)


if __name__ == "__main__":
    unittest.main()
