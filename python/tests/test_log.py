"""What the engine says, in Python's logging."""

import contextlib
import io
import logging
import os
import signal
import threading
import unittest

from support import JobTest, finish, run, start

import adaptdl.checkpoint
import adaptdl.collective
import adaptdl.torch
from adaptdl import _job, _log


class RecordsTest(JobTest):
    def setUp(self):
        super().setUp()
        os.environ["ADAPTDL_CHECKPOINT_PATH"] = self.folder

    def save(self):
        """The engine says that it has written a checkpoint."""
        adaptdl.collective.initialize()
        self.assertTrue(adaptdl.checkpoint.save_all_states())
        _job.close_job()

    def test_a_line_is_a_record_of_its_part(self):
        with self.assertLogs("adaptdl", logging.INFO) as logs:
            self.save()
        record = next(record for record in logs.records if "wrote checkpoint" in record.getMessage())
        self.assertEqual((record.name, record.levelno, record.rank), ("adaptdl.job", logging.INFO, 0))
        self.assertEqual(record.getMessage(), "wrote checkpoint-1 after step 0")

    def test_what_nobody_asks_for_is_no_record(self):
        with self.assertLogs("adaptdl", logging.WARNING) as logs:
            self.save()
            logging.getLogger("adaptdl").warning("the only one")
        self.assertEqual(len(logs.records), 1, logs.output)

    def test_a_filter_that_fails_costs_one_line(self):
        def fail_once(record):
            logging.getLogger("adaptdl.job").removeFilter(fail_once)
            raise ValueError("of the filter")

        logging.getLogger("adaptdl.job").addFilter(fail_once)
        error = io.StringIO()
        with self.assertLogs("adaptdl", logging.INFO) as logs, contextlib.redirect_stderr(error):
            self.save()
            self.restart()
            self.save()
        self.assertIn("ValueError: of the filter", error.getvalue())
        self.assertTrue(any("restored checkpoint-1" in line for line in logs.output), logs.output)

    def test_no_process_is_forked_while_a_line_is_passed_on(self):
        entered = threading.Event()
        passed = []

        class Handler(logging.Handler):
            def emit(self, record):
                entered.set()
                # As long as it takes a thread to come by.
                thread = threading.Thread(target=lambda: passed.append(record.getMessage()))
                thread.start()
                thread.join()

        handler = Handler()
        logger = logging.getLogger("adaptdl")
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            adaptdl.collective.initialize()
            adaptdl.checkpoint.request_checkpoint()
            entered.wait()
            child = os.fork()
            if child == 0:
                # Nothing in here waits for what the parent's threads held.
                logging.getLogger("adaptdl.child").setLevel(logging.ERROR)
                os._exit(0 if passed and _log._thread is None and not _log._passing._is_owned() else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
        finally:
            _job.close_job()
            logger.removeHandler(handler)
            logger.setLevel(before)

    def test_the_thread_goes_with_the_job(self):
        names = [thread.name for thread in threading.enumerate()]
        self.assertNotIn("adaptdl-log", names)
        adaptdl.collective.initialize()
        self.assertIn("adaptdl-log", [thread.name for thread in threading.enumerate()])
        _job.close_job()
        self.assertNotIn("adaptdl-log", [thread.name for thread in threading.enumerate()])

    def test_without_a_setup_of_logging_what_must_be_known_is_on_standard_error(self):
        code, output = self.stop()
        self.assertEqual(code, 143, output)
        self.assertIn("adaptdl: asked to stop (SIGTERM)\n", output)
        self.assertNotIn("asked for a checkpoint", output)

    def test_a_setup_of_logging_gets_it_all(self):
        code, output = self.stop("with logging")
        self.assertEqual(code, 143, output)
        self.assertIn("WARNING adaptdl.job 0: asked to stop (SIGTERM)\n", output)
        self.assertIn("INFO adaptdl.job 0: asked for a checkpoint", output)
        self.assertNotIn("adaptdl: ", output)

    def stop(self, *setup):
        """Asks for a checkpoint, and is stopped when it trains: its code and output."""
        process = start("says_things", *setup)
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line == "trains\n":
                break
        process.send_signal(signal.SIGTERM)
        code, output = finish(process)
        return code, "".join(lines) + output

    def test_nothing_is_lost_at_the_end_however_slow_a_handler_is(self):
        code, output = run("says_much", 1500)
        self.assertEqual(code, 1, output)
        self.assertIn("ValueError: of the program", output)
        # More than are kept go straight to standard error.
        self.assertEqual(output.count("asked for a checkpoint"), 1500)
        self.assertGreaterEqual(output.count("INFO adaptdl.job 0: asked for a checkpoint"), 1000)


if __name__ == "__main__":
    unittest.main()
