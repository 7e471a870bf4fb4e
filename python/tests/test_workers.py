"""What processes that read the data leave behind when they are gone."""

import collections
import types
import unittest

from adaptdl.torch.data import _Workers


def read(error):
    """Reads from processes that end with this error."""
    def start():
        yield from ()
        raise error

    _Workers(types.SimpleNamespace(asked=collections.deque([[1]]), current=None), start).read([1])


class WorkersTest(unittest.TestCase):

    def test_a_batch_that_went_with_its_process(self):
        for error in (ConnectionResetError("by peer"), EOFError(), FileNotFoundError("/tmp/socket")):
            with self.assertRaisesRegex(RuntimeError, "a DataLoader worker has exited unexpectedly"):
                read(error)

    def test_an_error_of_the_data_set_stays_what_it_is(self):
        with self.assertRaises(FileNotFoundError):
            read(FileNotFoundError("Caught FileNotFoundError in DataLoader worker process 0."))


if __name__ == "__main__":
    unittest.main()
