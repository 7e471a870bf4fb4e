"""What one replica's loader gives, of data with indices."""

import unittest

import torch
from plain import SAMPLES, samples
from support import JobTest
from torch.utils.data import TensorDataset

import adaptdl.torch as adl
from adaptdl import Error


class LoaderTest(JobTest):
    def seen(self, loader):
        return [index for indices, _, _ in loader for index in indices.tolist()]

    def test_each_sample_once_in_an_order_of_its_own_in_each_epoch(self):
        loader = adl.AdaptiveDataLoader(samples(), batch_size=7, shuffle=True)
        epochs = [self.seen(loader) for _ in adl.remaining_epochs_until(2)]
        for epoch in epochs:
            self.assertEqual(sorted(epoch), list(range(SAMPLES)))
        self.assertNotEqual(epochs[0], epochs[1])

    def test_drop_last_and_length(self):
        loader = adl.AdaptiveDataLoader(samples(), batch_size=7, drop_last=True)
        self.assertEqual(len(loader), 5)
        self.assertEqual(len(self.seen(loader)), 35)
        self.assertEqual(len(adl.AdaptiveDataLoader(samples(), batch_size=7)), 6)

    def test_reads_the_same_through_workers(self):
        for persistent in (False, True):
            loader = adl.AdaptiveDataLoader(samples(),
                                            batch_size=7,
                                            num_workers=2,
                                            persistent_workers=persistent)
            for _ in range(3):
                self.assertEqual(self.seen(loader), list(range(SAMPLES)))
            self.restart()

    def test_workers_after_a_break(self):
        loader = adl.AdaptiveDataLoader(samples(), batch_size=7, num_workers=2)
        for _ in loader:
            break
        self.assertEqual(self.seen(loader), list(range(SAMPLES)))

    def test_what_a_data_set_raises_comes_out_of_the_loop(self):
        class Broken(TensorDataset):
            def __getitem__(self, index):
                raise KeyError("of the data set")

        for workers in (0, 1):
            loader = adl.AdaptiveDataLoader(Broken(torch.zeros(4)), batch_size=2, num_workers=workers)
            with self.assertRaisesRegex(KeyError, "of the data set"):
                list(loader)
            self.restart()

    def test_loops_cannot_be_nested(self):
        loader = adl.AdaptiveDataLoader(samples(), batch_size=7)
        other = adl.AdaptiveDataLoader(samples(), batch_size=7)
        with self.assertRaisesRegex(Error, "nested"):
            for _ in loader:
                self.assertIs(adl.current_dataloader(), loader)
                list(other)
        self.assertIsNone(adl.current_dataloader())

    def test_wrong_arguments_are_refused(self):
        for wrong in (lambda: adl.AdaptiveDataLoader(samples(), sampler=[1]),
                      lambda: adl.AdaptiveDataLoader(samples(), batch_sampler=[[1]]),
                      lambda: adl.AdaptiveDataLoader(samples(), batch_size=0)):
            self.assertRaises(ValueError, wrong)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=8)
        for arguments in ((7, None), ("many", None), (16, (9, None)), (16, (None, 7))):
            self.assertRaises(ValueError, loader.autoscale_batch_size, *arguments)

    def test_the_sampler_alone(self):
        sampler = adl.ElasticSampler(samples(), shuffle=False)
        sampler.set_epoch(0, 30)
        self.assertEqual(list(sampler), list(range(30, SAMPLES)))


if __name__ == "__main__":
    unittest.main()
