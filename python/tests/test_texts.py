"""Texts for truncated back-propagation through time: one replica reads them."""

import os
import unittest

import torch
from support import JobTest, Text, request_stop

import adaptdl.torch as adl


def expected(words, columns, length):
    """What a single process reads: the text cut into columns, and of these some words at a time."""
    height = -(-words // columns)
    numbers = [*range(words), *[-1] * (height * columns - words)]
    cut = torch.tensor(numbers).view(columns, height).t()
    return [(cut[begin:begin + length][:height - begin - 1], cut[begin + 1:begin + length + 1])
            for begin in range(0, height - 1, length)]


class TextsTest(JobTest):
    def expect(self, batches, words, columns, length):
        whole = expected(words, columns, length)
        self.assertEqual(len(batches), len(whole))
        for batch, (text, target) in zip(batches, whole):
            self.assertEqual((batch.text.tolist(), batch.target.tolist()), (text.tolist(), target.tolist()))

    def test_reads_the_text_as_columns(self):
        for words, columns, length in ((100, 5, 4), (101, 5, 4), (105, 5, 4), (106, 5, 4), (107, 10, 3), (6, 3, 9)):
            text = Text(words)
            loader = adl.AdaptiveBPTTIterator(text, columns, length)
            for _ in adl.remaining_epochs_until(2):
                batches = list(loader)
                self.expect(batches, words, columns, length)
                self.assertEqual(len(loader), len(batches))
            self.assertIs(batches[0].dataset, text)
            self.assertEqual((len(batches[0]), batches[0].columns), (columns, list(range(columns))))
            self.restart()

    def test_rows_for_columns(self):
        for batch, (text, target) in zip(adl.AdaptiveBPTTIterator(Text(100, batch_first=True), 5, 4, sort=False),
                                         expected(100, 5, 4)):
            self.assertEqual((batch.text.tolist(), batch.target.tolist()), (text.t().tolist(), target.t().tolist()))
            self.assertTrue(batch.text.is_contiguous())

    def test_columns_that_are_computed_one_after_the_other(self):
        batches = list(adl.AdaptiveBPTTIterator(Text(100), 5, 4, max_local_batch_size=2))
        self.assertEqual([batch.columns for batch in batches[:3]], [[0, 1], [2, 3], [4]])
        text = torch.cat([batch.text for batch in batches[:3]], 1)
        self.assertEqual(text.tolist(), expected(100, 5, 4)[0][0].tolist())

    def test_goes_on_after_the_last_batch(self):
        os.environ["ADAPTDL_CHECKPOINT_PATH"] = self.folder
        read = []
        for stop_after in (2, 1000):
            try:
                for batch in adl.AdaptiveBPTTIterator(Text(107), 5, 4):
                    read.append(batch)
                    if len(read) == stop_after:
                        request_stop()
            except SystemExit:
                self.assertEqual(len(read), stop_after)
            self.restart()
        self.expect(read, 107, 5, 4)

    def test_what_makes_no_sense_is_refused(self):
        for text, kind, arguments in (("bptt_len is 0", ValueError, dict(bptt_len=0)),
                                      ("remaining_epochs_until", ValueError, dict(repeat=True)),
                                      ("columns, which stays", ValueError, dict(max_batch_size=10)),
                                      ("of 20 words is too short for batch_size = 20", ValueError,
                                       dict(batch_size=20)), ("batch_size is -1", ValueError, dict(batch_size=-1)),
                                      ("has no sampler", TypeError, dict(sampler=[1]))):
            with self.assertRaisesRegex(kind, text):
                adl.AdaptiveBPTTIterator(Text(20), **dict(dict(batch_size=4, bptt_len=2), **arguments))
        with self.assertRaisesRegex(ValueError, "columns, which stays"):
            adl.AdaptiveBPTTIterator(Text(20), 4, 2).autoscale_batch_size(8)


if __name__ == "__main__":
    unittest.main()
