"""The little of torchtext, as it was up to version 0.8, that AdaptDL's test of text iterators needs. It cannot be had for
today's Pythons."""

import sys
import types
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch


class Field:
    """How a text becomes numbers."""

    def __init__(self, tokenize: Callable[[str], List[str]], init_token: Optional[str] = None,
                 eos_token: Optional[str] = None, pad_token: str = "<pad>", batch_first: bool = False) -> None:
        self.tokenize = tokenize
        self.init_token = init_token
        self.eos_token = eos_token
        self.pad_token = pad_token
        self.batch_first = batch_first
        self._numbers: Dict[str, int] = {}

    def build_vocab(self, dataset: "Dataset") -> None:
        """Numbers all words of the data set."""
        for example in dataset.examples:
            for word in [self.pad_token, *example.text]:
                self._numbers.setdefault(word, len(self._numbers))

    def numericalize(self, texts: Sequence[Sequence[str]], device: Any = None) -> torch.Tensor:
        """A column for each text."""
        return torch.tensor([[self._numbers[word] for word in text] for text in texts], device=device).t().contiguous()


class Example:
    """A text."""

    def __init__(self, text: List[str]) -> None:
        self.text = text

    @classmethod
    def fromlist(cls, data: Sequence[List[str]], fields: Sequence[Tuple[str, Field]]) -> "Example":
        """Of words that are there already."""
        assert [name for name, _ in fields] == ["text"]
        return cls(data[0])


class Dataset:
    """Texts, and how each becomes numbers."""

    def __init__(self, examples: List[Example], fields: Sequence[Tuple[str, Field]]) -> None:
        self.examples = examples
        self.fields = dict(fields)

    def __getitem__(self, index: int) -> Example:
        return self.examples[index]


def install() -> None:
    """Puts it where tests look for torchtext."""
    package = types.ModuleType("torchtext")
    data = types.ModuleType("torchtext.data")
    utils = types.ModuleType("torchtext.data.utils")
    for name, value in (("Field", Field), ("Example", Example), ("Dataset", Dataset)):
        setattr(data, name, value)
    setattr(utils, "get_tokenizer", lambda name: str.split)
    setattr(package, "data", data)
    setattr(data, "utils", utils)
    sys.modules.update({"torchtext": package, "torchtext.data": data, "torchtext.data.utils": utils})
