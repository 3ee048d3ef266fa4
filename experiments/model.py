"""The model that the warm-up left and its tokenizer, which is made here: nothing is downloaded. Needs transformers."""

import re
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from experiments.requests import pieces

PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"


def tokenizer() -> Any:
    """Return the tokenizer: every piece of a request or an answer, as `pieces` lists them, is one token, and any other
    text is the token <unk>. Decoded tokens are joined without spaces.
    """
    known = pieces()
    vocabulary = {piece: i for i, piece in enumerate([PAD, EOS, UNKNOWN, *known])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("|".join(map(re.escape, known))), behavior="isolated")
    made.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=PAD, eos_token=EOS, unk_token=UNKNOWN, padding_side="left"
    )


def load(directory: Path) -> Any:
    """Return the model of the checkpoint in this directory, in float32."""
    return LlamaForCausalLM.from_pretrained(directory, dtype=torch.float32)
