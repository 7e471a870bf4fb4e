"""Data sets without indices: one replica reads their shards."""

import os
import unittest

import numpy
import torch
import torch.nn.functional as F
from support import JobTest, request_stop
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

import adaptdl.torch as adl
from adaptdl import Error
from adaptdl.torch import _packing

LENGTHS = (5, 12, 0, 7, 16)
ALL = sorted((shard, position) for shard, length in enumerate(LENGTHS) for position in range(length))


class Numbers(IterableDataset):
    """Each sample is its shard, its place there, and an input."""
    def shards(self):
        return list(range(len(LENGTHS)))

    def read(self, shard):
        for position in range(LENGTHS[shard]):
            yield shard, position, torch.full((4,), shard + position / 16)

    def __iter__(self):
        for shard in self.shards():
            yield from self.read(shard)


def seen(loader):
    """The batches of a pass."""
    return [list(zip(shards.tolist(), positions.tolist())) for shards, positions, _ in loader]


def flat(batches):
    return sorted(sample for batch in batches for sample in batch)


class StreamsTest(JobTest):
    def test_gives_the_batches_of_the_plain_loader(self):
        plain = seen(DataLoader(Numbers(), batch_size=6))
        loader = adl.AdaptiveDataLoader(Numbers(), batch_size=6)
        for _ in adl.remaining_epochs_until(2):
            self.assertEqual(seen(loader), plain)

    def test_takes_the_steps_of_the_plain_loop_to_the_last_bit(self):
        trained = []
        for ours in (False, True):
            torch.manual_seed(1)
            model = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
            loader = (adl.AdaptiveDataLoader if ours else DataLoader)(Numbers(), batch_size=6)
            wrapped = adl.AdaptiveDataParallel(model, optimizer) if ours else model
            for _, targets, inputs in loader:
                optimizer.zero_grad()
                F.mse_loss(wrapped(inputs), targets.float()[:, None]).backward()
                optimizer.step()
            trained.append(model.weight)
        self.assertTrue(torch.equal(*trained))

    def test_shuffles_the_shards(self):
        loader = adl.AdaptiveDataLoader(Numbers(), batch_size=6, shuffle=True)
        epochs = [seen(loader) for _ in adl.remaining_epochs_until(2)]
        for epoch in epochs:
            self.assertEqual(flat(epoch), ALL)
        self.assertNotEqual(epochs[0], epochs[1])

    def test_workers_read_shards_side_by_side(self):
        for persistent in (False, True):
            loader = adl.AdaptiveDataLoader(Numbers(), batch_size=6, num_workers=2, persistent_workers=persistent)
            epochs = [seen(loader) for _ in adl.remaining_epochs_until(2)]
            self.assertEqual(flat(epochs[0]), ALL)
            self.assertEqual(epochs[0], epochs[1])
            self.assertEqual([len(batch) for batch in epochs[0]], [6] * 6 + [4])
            # The first two of them.
            self.assertEqual({shard for batch in epochs[0][:2] for shard, _ in batch}, {0, 1})
            self.restart()

    def test_workers_that_are_more_than_shards(self):
        loader = adl.AdaptiveDataLoader(Numbers(), batch_size=6, num_workers=7)
        self.assertEqual(flat(seen(loader)), ALL)

    def test_micro_batches(self):
        for workers in (0, 2):
            loader = adl.AdaptiveDataLoader(Numbers(), batch_size=6, max_local_batch_size=4, num_workers=workers)
            batches, steps = [], 0
            for shards, positions, _ in loader:
                self.assertEqual((loader.current_local_bsz, loader.accumulation_steps > 0),
                                 (3, True) if steps < 6 else (4, False))
                batches.append(list(zip(shards.tolist(), positions.tolist())))
                steps += loader.is_optim_step()
            self.assertEqual((flat(batches), len(batches), steps), (ALL, 13, 7))
            self.restart()

    def test_a_break_ends_the_pass(self):
        for workers in (0, 2):
            loader = adl.AdaptiveDataLoader(Numbers(), batch_size=6, num_workers=workers)
            for _ in loader:
                break
            self.assertEqual(flat(seen(loader)), ALL)
            self.restart()

    def test_drop_last_and_the_last_batch(self):
        for drop_last, batches in ((False, 7), (True, 6)):
            loader = adl.AdaptiveDataLoader(Numbers(), batch_size=6, drop_last=drop_last)
            last = []
            for _ in loader:
                last.append(loader.is_last_batch())
            self.assertEqual(last, [False] * (batches - 1) + [True])
            self.restart()

    def test_the_length_is_the_data_sets(self):
        with self.assertRaises(TypeError):
            len(adl.AdaptiveDataLoader(Numbers(), batch_size=6))

        class Known(Numbers):
            def __len__(self):
                return len(ALL)

        self.assertEqual(len(adl.AdaptiveDataLoader(Known(), batch_size=6)), 7)

    def test_collates_as_the_program_wants(self):
        for workers in (0, 1):
            loader = adl.AdaptiveDataLoader(Numbers(), batch_size=6, num_workers=workers, collate_fn=len)
            self.assertEqual(list(loader), [6] * 6 + [4])
            self.restart()

    def test_what_reading_raises_comes_out_of_the_loop(self):
        class Broken(Numbers):
            def read(self, shard):
                for sample in super().read(shard):
                    if sample[:2] == (1, 4):
                        raise KeyError("of the data set")
                    yield sample

        for workers in (0, 1):
            loader = adl.AdaptiveDataLoader(Broken(), batch_size=2, num_workers=workers)
            with self.assertRaisesRegex(KeyError, "of the data set"):
                list(loader)
            self.restart()

    def test_what_cannot_be_dealt_out_is_refused(self):
        class Plain(IterableDataset):
            def __iter__(self):
                return iter(())

        with self.assertRaisesRegex(ValueError, r"Plain is an IterableDataset.*shards\(\).*read\(shard\)"):
            adl.AdaptiveDataLoader(Plain())
        for wrong in (dict(base_batch_size=3), dict(band=0.1)):
            with self.assertRaisesRegex(ValueError, "keep their size"):
                adl.AdaptiveDataLoader(Numbers(), batch_size=6, **wrong)
        with self.assertRaisesRegex(ValueError, "keep their size"):
            adl.AdaptiveDataLoader(Numbers(), batch_size=6).autoscale_batch_size(12)

        class Nothing(Numbers):
            def shards(self):
                return []

        loader = adl.AdaptiveDataLoader(Nothing())
        with self.assertRaisesRegex(Error, "0 shards; give some"):
            list(loader)


class RestartTest(JobTest):
    def setUp(self):
        super().setUp()
        os.environ["ADAPTDL_CHECKPOINT_PATH"] = self.folder

    def read(self, dataset, stop_after=None, **options):
        """The batches of a pass, or of its beginning."""
        loader = adl.AdaptiveDataLoader(dataset, batch_size=4, **options)
        batches = []
        try:
            for shards, positions, _ in loader:
                if len(batches) == stop_after:
                    request_stop()
                batches.append(list(zip(shards.tolist(), positions.tolist())))
        except SystemExit as end:
            self.assertEqual(end.code, 143)
        self.restart()
        return batches

    def test_goes_on_after_the_last_sample(self):
        whole = self.read(Numbers())
        self.tearDown()
        self.setUp()
        first = self.read(Numbers(), stop_after=3)
        self.assertEqual(len(first), 4)
        self.assertEqual(first + self.read(Numbers()), whole)

    def test_with_workers_whose_number_may_change(self):
        first = self.read(Numbers(), stop_after=3, num_workers=3)
        self.assertEqual(flat(first + self.read(Numbers(), num_workers=2)), ALL)

    def test_a_data_set_may_know_how_to_begin_in_the_midst_of_a_shard(self):
        asked = []

        class Seeking(Numbers):
            def read_from(self, shard, position):
                asked.append((shard, position))
                return list(self.read(shard))[position:]

        first = self.read(Seeking(), stop_after=1)
        self.assertEqual(asked, [])
        self.assertEqual(flat(first + self.read(Seeking())), ALL)
        self.assertEqual(asked, [(1, 3)])

    def test_another_number_of_shards_is_refused(self):
        class More(Numbers):
            def shards(self):
                return [0, 1, 2, 3, 4, 4]

        self.read(Numbers(), stop_after=1)
        with self.assertRaisesRegex(Error, "has 6 shards; when the loop was interrupted it had 5"):
            self.read(More())


class PackingTest(JobTest):
    def test_gives_back_what_it_got(self):
        value = [
            torch.arange(6).view(2, 3).t(), torch.tensor(1.5, dtype=torch.bfloat16), torch.tensor([True]),
            torch.zeros(0, 3), torch.ones(2, dtype=torch.cfloat).conj(), nn.Parameter(torch.ones(1)),
            torch.eye(2).to_sparse()
        ]
        found = _packing.unpack(_packing.pack((value, {"text": "t", "array": numpy.arange(3)}, None)))
        for one, other in zip(value, found[0]):
            self.assertEqual((one.dtype, one.shape, one.layout, one.requires_grad),
                             (other.dtype, other.shape, other.layout, other.requires_grad))
            self.assertTrue(torch.equal(one.to_dense(), other.to_dense()))
        self.assertEqual((found[1]["text"], found[1]["array"].tolist(), found[2]), ("t", [0, 1, 2], None))

    def test_samples_may_be_changed_where_they_lie(self):
        one, other = _packing.unpack(_packing.pack([torch.zeros(2), numpy.zeros(2)]))
        one += 1
        other += 2
        self.assertEqual((one.tolist(), other.tolist()), ([1, 1], [2, 2]))


if __name__ == "__main__":
    unittest.main()
