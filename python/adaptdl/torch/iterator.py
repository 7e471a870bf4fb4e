"""Texts for truncated back-propagation through time, a few words at a time, as torchtext's BPTTIterator gave
them up to version 0.8. Works without torchtext."""

import math
from typing import Any, List, Optional

import torch

from adaptdl.torch.data import AdaptiveDataLoader

__all__ = ["AdaptiveBPTTIterator", "Batch"]

# Of torchtext's iterators, without a meaning for a text that is read from its beginning to its end.
_IGNORED = frozenset(["batch_size_fn", "shuffle", "sort", "sort_key", "sort_within_batch", "train"])


class Batch:
    """Some words of several columns of the text (`text`), and the word after each of them (`target`): a row
    for each place, unless the field is `batch_first`. `columns` says which columns: a state that a model
    carries on from batch to batch fits as long as these are the same."""
    def __init__(self, dataset: Any, columns: List[int], text: torch.Tensor, target: torch.Tensor) -> None:
        self.dataset = dataset
        self.columns = columns
        self.batch_size = len(columns)
        self.text = text
        self.target = target

    def __len__(self) -> int:
        return self.batch_size


class AdaptiveBPTTIterator(AdaptiveDataLoader):
    """Reads `dataset[0].text`, a list of words, as `batch_size` columns of equal length side by side,
    `bptt_len` words of each at a time. The replicas share the columns; each batch of all of them together is
    the one that a single process reads.

    `dataset.fields["text"]` says how words become numbers: `numericalize([words], device=...)`, `pad_token`,
    which fills the last column, and `batch_first`.
    """
    def __init__(self,
                 dataset: Any,
                 batch_size: int,
                 bptt_len: int,
                 *,
                 device: Any = None,
                 repeat: bool = False,
                 max_batch_size: Optional[int] = None,
                 local_bsz_bounds: Any = None,
                 max_local_batch_size: int = 0,
                 **kwargs: Any) -> None:
        unknown = sorted(set(kwargs) - _IGNORED)
        if unknown:
            raise TypeError(f"AdaptiveBPTTIterator has no {', '.join(unknown)}")
        if not isinstance(bptt_len, int) or bptt_len < 1:
            raise ValueError(f"bptt_len is {bptt_len!r}; give a whole number of at least 1")
        if repeat:
            raise ValueError(
                "repeat=True would never end a pass; loop over remaining_epochs_until() around it")
        if max_batch_size is not None or local_bsz_bounds is not None:
            self.autoscale_batch_size()
        self._texts = dataset
        self._device = device
        self._data: Optional[torch.Tensor] = None
        self.bptt_len = bptt_len
        rows = math.ceil(len(dataset[0].text) / max(batch_size, 1))
        if rows < 2:
            raise ValueError(
                f"a text of {len(dataset[0].text)} words is too short for batch_size = {batch_size} columns")
        # Of what is read at once, one column is a sample: the one with its number modulo batch_size. The last
        # word of a column is a target only.
        samples = range(math.ceil((rows - 1) / bptt_len) * batch_size)
        super().__init__(samples, batch_size=batch_size, collate_fn=self._read,
                         max_local_batch_size=max_local_batch_size)

    def autoscale_batch_size(self, *_: Any, **__: Any) -> None:
        """Refused."""
        raise ValueError(
            "the batch size is the number of the text's columns, which stays; leave max_batch_size, "
            "local_bsz_bounds and autoscale_batch_size() away")

    def _columns(self) -> torch.Tensor:
        """The text, with a column for each sample of a batch."""
        if self._data is None:
            words, field = list(self._texts[0].text), self._texts.fields["text"]
            words += [field.pad_token] * (-len(words) % self.batch_size)
            numbers = field.numericalize([words], device=self._device)
            self._data = numbers.view(self.batch_size, -1).t().contiguous()
        return self._data

    def _read(self, samples: List[int]) -> Batch:
        data = self._columns()
        columns = [sample % self.batch_size for sample in samples]
        begin = samples[0] // self.batch_size * self.bptt_len
        end = min(begin + self.bptt_len, len(data) - 1)
        text, target = data[begin:end, columns], data[begin + 1:end + 1, columns]
        if self._texts.fields["text"].batch_first:
            text, target = text.t().contiguous(), target.t().contiguous()
        return Batch(self._texts, columns, text, target)
