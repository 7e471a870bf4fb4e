"""What processes that read the data leave behind when they are gone."""

import os
import signal
import unittest

import torch
from torch.utils.data import DataLoader, TensorDataset

from adaptdl.torch._workers import Results, WorkerInit

# Whether children stop themselves as soon as they are there. There is no way back from register_at_fork().
_stops_at_once = False


def _stop_in_child():
    if _stops_at_once:
        os.kill(os.getpid(), signal.SIGTERM)


def read(error):
    """Reads from processes that end with this error."""
    def start():
        yield from ()
        raise error

    next(Results(start))


class WorkersTest(unittest.TestCase):

    def test_what_stops_a_replica_may_come_before_its_process_has_begun(self):
        # As from a stranger: the sender is not the parent.
        global _stops_at_once
        os.register_at_fork(after_in_child=_stop_in_child)
        loader = DataLoader(TensorDataset(torch.arange(8)), batch_size=4, num_workers=1,
                            worker_init_fn=WorkerInit(None, 1), timeout=60)
        results = Results(loader.__iter__)
        _stops_at_once = True
        try:
            batch = next(results)
        finally:
            _stops_at_once = False
        self.assertEqual(batch[0].tolist(), [0, 1, 2, 3])
        self.assertNotIn(signal.SIGTERM, signal.pthread_sigmask(signal.SIG_BLOCK, []))

    def test_a_batch_that_went_with_its_process(self):
        for error in (ConnectionResetError("by peer"), EOFError(), FileNotFoundError("/tmp/socket")):
            with self.assertRaisesRegex(RuntimeError, "a DataLoader worker has exited unexpectedly"):
                read(error)

    def test_an_error_of_the_data_set_stays_what_it_is(self):
        with self.assertRaises(FileNotFoundError):
            read(FileNotFoundError("Caught FileNotFoundError in DataLoader worker process 0."))


if __name__ == "__main__":
    unittest.main()
